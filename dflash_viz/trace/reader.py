"""Reading traces: strict about what it accepts, and saying what is wrong with the rest."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import cast

import msgspec

from dflash_viz.trace.model import SCHEMA_VERSION, End, Header, Line, Step, Trace

MAX_BYTES = 50_000_000
MAX_STEPS = 200_000

# RecursionError: thousands of brackets in one line.
_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
_decoder = msgspec.json.Decoder(Line)


class TraceError(ValueError):
    """A file is no trace this version can read; the message says why and what to do."""


class _Version(msgspec.Struct):
    schema: str


def read_trace(path: Path) -> Trace:
    """Read a trace file (JSON Lines, gzip allowed).

    A damaged tail keeps the good steps and adds a notice. Raises ``TraceError`` for a file without
    a readable header, of another major version, or over the limits (50 MB, 200,000 steps).
    """
    try:
        return decode_lines(_raw_lines(path))
    except OSError as error:
        raise TraceError(f"{path.name} cannot be read: {error.strerror or error}.") from error


def decode_lines(raw: Iterable[bytes]) -> Trace:
    """Decode a trace from its raw lines; see ``read_trace``."""
    lines = iter(raw)
    trace = Trace(_header(next(lines, b"")))
    if (minor := _minor_notice(trace.header.schema)) is not None:
        trace.notices.append(minor)
    for number, text in enumerate(lines, start=2):
        try:
            line = _decoder.decode(text)
        except _UNREADABLE:
            trace.notices.append(f"Line {number} is damaged: {len(trace.steps)} steps before it were kept.")
            break
        if not _append(trace, line, number):
            break
    if trace.end is None:
        trace.notices.append("The recording was cut short: its end is missing.")
    return trace


def _append(trace: Trace, line: Line, number: int) -> bool:
    """Add one line; False when the rest of the file is not to be read."""
    if isinstance(line, End):
        trace.end = line
        return False
    if isinstance(line, Header) or line.index != len(trace.steps):
        trace.notices.append(f"Line {number} is out of order: {len(trace.steps)} steps before it were kept.")
        return False
    if not _consistent(line):
        trace.notices.append(
            f"Line {number} contradicts itself: {len(trace.steps)} steps before it were kept."
        )
        return False
    if len(trace.steps) == MAX_STEPS:
        raise TraceError(f"The trace has more than {MAX_STEPS:,} steps; open a shorter one.")
    trace.steps.append(line)
    return True


def _consistent(step: Step) -> bool:
    return 0 <= step.num_accepted <= step.num_drafted and step.end >= step.start


def _header(text: bytes) -> Header:
    try:
        version = msgspec.json.decode(text, type=_Version).schema
    except _UNREADABLE as error:
        raise TraceError("This is no trace: its first line is not a trace header.") from error
    if version.partition(".")[0] != SCHEMA_VERSION.partition(".")[0]:
        raise TraceError(
            f"This trace has schema version {version}; this program reads {SCHEMA_VERSION}. "
            "Open it with the version of DFlash Viz that wrote it."
        )
    try:
        line = _decoder.decode(text)
    except _UNREADABLE as error:
        raise TraceError(f"The trace's header is damaged: {error}.") from error
    if not isinstance(line, Header):
        raise TraceError("This is no trace: its first line is not a trace header.")
    return line


def _minor_notice(version: str) -> str | None:
    if _minor(version) <= _minor(SCHEMA_VERSION):
        return None
    return f"Written with schema version {version}: what {SCHEMA_VERSION} does not know is not shown."


def _minor(version: str) -> float:
    number = version.partition(".")[2]
    return int(number) if number.isdecimal() else float("inf")


def _raw_lines(path: Path) -> Iterator[bytes]:
    """The file's lines, unpacked, never more than ``MAX_BYTES`` of them."""
    with path.open("rb") as probe:
        packed = probe.read(2) == b"\x1f\x8b"
    total = 0
    with cast(gzip.GzipFile, gzip.open(path, "rb") if packed else path.open("rb")) as file:
        while True:
            try:
                line = file.readline(MAX_BYTES + 1)
            except (EOFError, zlib.error, gzip.BadGzipFile):
                line = b"damaged"  # a cut or altered archive: the decoder reports where it broke
            if not line:
                return
            total += len(line)
            if total > MAX_BYTES:
                raise TraceError(f"The trace is larger than {MAX_BYTES // 1_000_000} MB.")
            yield line
            if line == b"damaged":
                return
