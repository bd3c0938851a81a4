"""Which results one visitor has open, and where results are opened from."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from dflash_viz.results import Result, ResultError, read_result
from dflash_viz.ui.results import id_of, open_result

MAX_PILE = 8
"""Results of a visit that a comparison offers."""


@dataclass(frozen=True)
class Source:
    """Where a result lies: the id of one of the app's own, or a file. Ids may come from anywhere, files
    only from the visitor's own uploads, or on the app's own machine from a path that was typed."""

    name: str = ""
    file: Path | None = None

    def open(self) -> Result:
        """Read it. Raises ``ResultError`` with a message that says what to do."""
        return open_result(self.name) if self.file is None else read_result(self.file)


@dataclass(frozen=True)
class Look:
    """What one visitor looks at: the result that is shown, and the latest ones for comparisons, each
    with its label."""

    shown: Source | None = None
    pile: tuple[tuple[str, Source], ...] = ()

    def opened(self, label: str, source: Source) -> Look:
        """The look once a result is shown."""
        others = [one for one in self.pile if one[1] != source]
        return Look(source, ((label, source), *others)[:MAX_PILE])

    def without(self, source: Source) -> Look:
        """The look once a result is deleted."""
        shown = None if self.shown == source else self.shown
        return Look(shown, tuple(one for one in self.pile if one[1] != source))


def source_of_path(text: str) -> Source:
    """A result on the app's own machine, by its folder or its file. Raises ``ResultError`` without one."""
    if not text.strip():
        raise ResultError("Type the path of a result, or of the folder that it lies in.")
    path = Path(os.path.expanduser(text.strip()))
    name = id_of(path) or id_of(path.parent)
    return Source(name) if name else Source(file=path)
