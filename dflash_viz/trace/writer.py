"""Writing traces: JSON Lines, one line as soon as it is known, so that a crash keeps the rest."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import BinaryIO, cast

import msgspec

from dflash_viz.trace.model import Line, Trace

_encoder = msgspec.json.Encoder()


def encode_line(line: Line) -> bytes:
    """One line of a trace file, newline included."""
    return _encoder.encode(line) + b"\n"


class TraceWriter:
    """Writes a trace line by line to ``path`` (gzip when its name ends in ``.gz``).

    Raises ``OSError`` from the file system, a full disk among them; the caller decides whether the
    run goes on unrecorded.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        opener = gzip.open if path.suffix == ".gz" else open
        self._file = cast(BinaryIO, opener(path, "wb"))

    def write(self, line: Line) -> None:
        """Append one line and hand it to the operating system."""
        self._file.write(encode_line(line))
        self._file.flush()

    def close(self) -> None:
        """Finish the file."""
        self._file.close()

    def __enter__(self) -> TraceWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def write_trace(trace: Trace, path: Path) -> None:
    """Write a whole trace to a file."""
    with TraceWriter(path) as writer:
        for line in trace.lines():
            writer.write(line)
