"""Checks with time limits, each told in a line of JSON, and their table."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

# With less left no check begins.
MARGIN_S = 5.0


@dataclass
class Check:
    """How one check went: ``shown`` is its line in the table, ``figures`` what it measured."""

    name: str
    passed: bool
    shown: str
    figures: dict[str, Any] = field(default_factory=dict)


Made = tuple[bool, str, dict[str, Any]]
"""What a check gives: whether it passed, its words, its figures."""


class Checks:
    """Runs checks, each with a time limit, until the whole time is up."""

    def __init__(self, seconds: float) -> None:
        self.done: list[Check] = []
        self._deadline = time.monotonic() + seconds

    @property
    def seconds_left(self) -> float:
        """Until the whole run has to end."""
        return self._deadline - time.monotonic()

    async def run(self, name: str, limit: float, check: Callable[[], Awaitable[Made]]) -> bool:
        """Run one; whether it passed. Nothing that goes wrong in it ends the others."""
        began = time.monotonic()
        say(f"{name} ...")
        figures: dict[str, Any] = {}
        passed, shown = False, "skipped: no time left"
        try:
            if self.seconds_left > MARGIN_S:
                async with asyncio.timeout(min(limit, self.seconds_left)):
                    passed, shown, figures = await check()
        except TimeoutError:
            shown = "ran out of time"
        except Exception as error:  # the next check may still say something
            shown = f"{type(error).__name__}: {error}"
        figures["seconds"] = round(time.monotonic() - began, 1)
        self.done.append(Check(name, passed, shown, figures))
        line = {"check": name, "passed": passed, "shown": shown, **figures}
        print(json.dumps(line), flush=True)
        return passed

    def table(self) -> str:
        """Everything in Markdown."""
        rows = (f"| {c.name} | {'pass' if c.passed else 'FAIL'} | {c.shown} |" for c in self.done)
        return "\n".join(["| check | outcome | measured |", "| --- | --- | --- |", *rows])


def say(text: str) -> None:
    """Progress, at once."""
    print(f"[{time.strftime('%H:%M:%S')}] {text}", file=sys.stderr, flush=True)


class Once:
    """Says a message when it is another one than the last."""

    def __init__(self) -> None:
        self._last = ""

    def __call__(self, message: str) -> None:
        if message != self._last:
            self._last = message
            say(message)
