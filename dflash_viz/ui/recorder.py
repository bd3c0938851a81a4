"""Keeps the trace of every run on disk, line by line, so that a crash loses nothing."""

from __future__ import annotations

import secrets
from datetime import datetime
from pathlib import Path

from dflash_viz.lanes.spec import file_name
from dflash_viz.trace import Header, Line, TraceWriter
from dflash_viz.weights.resolver import cache_dir

KEPT_TRACES = 1000


def runs_dir() -> Path:
    """Where the traces of this user's runs lie."""
    return cache_dir() / "runs"


class Recorder:
    """Writes one run's trace. A full or read-only disk stops the recording, never the run."""

    def __init__(self) -> None:
        self.path: Path | None = None
        self.problem = ""
        self._writer: TraceWriter | None = None

    def write(self, lines: list[Line]) -> str:
        """Write some lines; returns a message the first time it cannot, else nothing."""
        if self.problem:
            return ""
        try:
            for line in lines:
                self._open(line).write(line)
        except OSError as error:
            self.problem = f"This run's trace is not saved: {error.strerror or error}."
        return self.problem

    def _open(self, line: Line) -> TraceWriter:
        if self._writer is None:
            assert isinstance(line, Header)
            stamp = datetime.now().strftime("%Y%m%d-%H%M%S")
            # Whoever knows a name can download the file: nobody guesses a neighbour's.
            self.path = runs_dir() / f"{file_name(line.lane)}-{stamp}-{secrets.token_urlsafe(16)}.jsonl"
            _forget_oldest()
            self._writer = TraceWriter(self.path)
        return self._writer

    @property
    def saved(self) -> Path | None:
        """The file, if all that was written so far is in it."""
        return None if self.problem else self.path

    def close(self) -> None:
        """Finish the file."""
        if self._writer is not None:
            try:
                self._writer.close()
            except OSError as error:
                self.problem = self.problem or str(error)


def _forget_oldest() -> None:
    traces = sorted(runs_dir().glob("*.jsonl"), key=lambda path: path.stat().st_mtime)
    for old in traces[: -KEPT_TRACES + 1]:  # one more is about to be written
        old.unlink(missing_ok=True)
