"""Who asks at the moment: the limits on how many questions run and wait."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from dflash_viz.space import Limits


class Visitors:
    """The questions that run or wait for the machine, the page's and the endpoint's together, by whose
    they are: a page's or a client's session."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self._asking: list[str] = []

    def full(self) -> str:
        """Why no further question is taken; nothing while one is."""
        most = self.limits.runs_and_waiting
        return f"The queue is full: {most} at most run or wait here." if len(self._asking) >= most else ""

    def busy(self, session: str) -> bool:
        """Whether one of this session's questions runs or waits where each may have one only."""
        return self.limits.one_run_per_visitor and session in self._asking

    @contextlib.contextmanager
    def asks(self, session: str) -> Iterator[None]:
        """Counts a question, from before it waits until it has ended."""
        self._asking.append(session)
        try:
            yield
        finally:
            self._asking.remove(session)
