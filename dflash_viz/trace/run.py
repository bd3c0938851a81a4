"""A run: what is opened, shown and compared together."""

from __future__ import annotations

import msgspec

from dflash_viz.trace.model import Trace


class Run(msgspec.Struct, frozen=True):
    """Traces of one prompt, one a lane, under a title.

    ``address`` is what a link calls the run; empty when it lies where no link leads. ``note`` says in
    a sentence what it shows.
    """

    title: str
    traces: list[Trace]
    note: str = ""
    address: str = ""

    @property
    def prompt(self) -> str:
        """The question that was asked."""
        return self.traces[0].header.question if self.traces else ""
