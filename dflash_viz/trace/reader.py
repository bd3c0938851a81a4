"""Reading traces: strict about what it accepts, and saying what is wrong with the rest."""

from __future__ import annotations

import contextlib
import gc
import os
import stat
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, TypeVar

import msgspec

from dflash_viz.trace.checks import StepChecks, end_fault, header_fault
from dflash_viz.trace.model import SCHEMA_VERSION, End, Header, Step, Trace

Read = TypeVar("Read")

MAX_BYTES = 50_000_000
MAX_STEPS = 200_000
SHORTEN = "Every beginning of a trace is a trace: open its first lines only (head -n LINES FILE)."

_TAIL_BYTES = 1_000_000
_PACKED_CHUNK = 1024  # what is lost before the place where an archive is broken
# RecursionError: thousands of brackets in one line.
_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
_decoder = msgspec.json.Decoder(Header | Step | End)


class TraceError(ValueError):
    """A file is no trace this version can read; the message says why and what to do."""


@dataclass(frozen=True)
class TraceSummary:
    """What is known of a trace file without reading its steps; ``complete``: it has its end."""

    header: Header
    tokens: int
    complete: bool


class _Version(msgspec.Struct):
    schema: str


def read_trace(path: Path) -> Trace:
    """Read a trace file (JSON Lines, gzip allowed).

    A damaged tail keeps the good steps and adds a notice. Raises ``TraceError``, and nothing else, for
    what is no file or has no readable header, for another major version, and over the limits
    (50 MB unpacked, 200,000 steps).
    """
    with _opened(path) as file:
        data, whole = _unpacked(file)
    if len(data) > MAX_BYTES:
        raise TraceError(f"The trace is larger than {MAX_BYTES // 1_000_000} MB. {SHORTEN}")
    trace = decode_trace(data)
    if not whole:
        trace.notices.append("The archive is damaged or cut short: what could be unpacked was read.")
    return trace


def read_traces(path: Path) -> list[Trace]:
    """Read a trace file, or all traces of a folder (a run: a file a lane), in the order of their beginning.

    Files of a folder that are no traces are named in a notice. Raises ``TraceError`` as ``read_trace``,
    and for a folder that holds none.
    """
    if not stat.S_ISDIR(_mode(path)):
        return [read_trace(path)]
    traces, faults = readable(trace_files(path), read_trace)
    if not traces:
        nothing = "no file in it ends in .jsonl or .jsonl.gz."
        raise TraceError(f"{_printable(path)} holds no traces: {' '.join(faults) or nothing}")
    traces.sort(key=lambda trace: trace.header.recorded_at)
    traces[0].notices += faults
    return traces


def readable(files: Iterable[Path], read: Callable[[Path], Read]) -> tuple[list[Read], list[str]]:
    """What can be read of some trace files, and a sentence for each that cannot."""
    found, faults = [], []
    for file in files:
        try:
            found.append(read(file))
        except TraceError as error:
            faults.append(f"{_printable(file)} is left out: {error}")
    return found, faults


def trace_files(folder: Path) -> list[Path]:
    """The trace files in a folder, by name."""
    try:
        return sorted(file for file in folder.iterdir() if file.name.endswith((".jsonl", ".jsonl.gz")))
    except OSError as error:
        raise TraceError(f"{_printable(folder)} cannot be read: {error.strerror or error}.") from error


def read_summary(path: Path) -> TraceSummary:
    """Read the two ends of a trace file that is not packed; raises ``TraceError`` as ``read_trace``."""
    with _opened(path) as file:
        header = _header(file.readline(MAX_BYTES))
        begin = file.tell()
        file.seek(max(begin, file.seek(0, os.SEEK_END) - _TAIL_BYTES))
        lines = file.read(_TAIL_BYTES).rstrip(b"\n").split(b"\n")
    for text in reversed(lines):
        with contextlib.suppress(*_UNREADABLE):
            line = _decoder.decode(text)
            if isinstance(line, End):
                return TraceSummary(header, line.num_output_tokens, True)
            if isinstance(line, Step):
                return TraceSummary(header, line.offset + len(line.emitted), False)
    return TraceSummary(header, 0, False)


def decode_trace(data: bytes) -> Trace:
    """Decode the bytes of a trace file; see ``read_trace``."""
    lines = data.split(b"\n")
    if len(lines) > 1 and not lines[-1]:  # what follows the last line's newline
        lines.pop()
    trace = Trace(_header(lines[0]))
    if (minor := _minor_notice(trace.header.schema)) is not None:
        trace.notices.append(minor)
    with collector_paused():
        _decode_rest(trace, lines)
    if trace.end is None:
        trace.notices.append("The recording was cut short: its end is missing.")
    return trace


def _decode_rest(trace: Trace, lines: list[bytes]) -> None:
    """Add what follows the header, up to the first line that cannot be relied on."""
    decode, fault_of, steps = _decoder.decode, StepChecks(trace.header).fault, trace.steps
    for number in range(1, len(lines)):
        try:
            line = decode(lines[number])
        except _UNREADABLE:
            return _stop(trace, lines, number, "is damaged")
        if trace.end is not None or isinstance(line, Header):
            return _stop(trace, lines, number, "is out of order")
        if isinstance(line, End):
            if fault := end_fault(line):
                return _stop(trace, lines, number, f"contradicts itself ({fault})")
            trace.end = line
        elif line.index != len(steps):
            return _stop(trace, lines, number, "is out of order")
        elif fault := fault_of(line):
            return _stop(trace, lines, number, f"contradicts itself ({fault})")
        elif len(steps) == MAX_STEPS:
            raise TraceError(f"The trace has more than {MAX_STEPS:,} steps. {SHORTEN}")
        else:
            steps.append(line)


def _stop(trace: Trace, lines: list[bytes], number: int, why: str) -> None:
    """Say what is lost from line ``number`` (counted from 0) on."""
    lost = len(lines) - number
    trace.notices.append(
        f"Line {number + 1} {why}: {len(trace.steps)} steps before it were kept, {lost} "
        f"line{'s' if lost > 1 else ''} from there on left out."
    )


@contextlib.contextmanager
def collector_paused() -> Iterator[None]:
    """Keep Python from searching a hundred thousand new steps for garbage: two thirds of the time."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


def _header(text: bytes) -> Header:
    try:
        version = msgspec.json.decode(text, type=_Version).schema
    except _UNREADABLE as error:
        raise TraceError("This is no trace: its first line is not a trace header.") from error
    if version.partition(".")[0] != SCHEMA_VERSION.partition(".")[0]:
        raise TraceError(
            f"This trace has schema version {version[:20]}; this program reads {SCHEMA_VERSION}. "
            "Open it with the version of DFlash Viz that wrote it."
        )
    try:
        line = _decoder.decode(text)
    except _UNREADABLE as error:
        raise TraceError(f"The trace's header is damaged: {error}.") from error
    if not isinstance(line, Header):
        raise TraceError("This is no trace: its first line is not a trace header.")
    if fault := header_fault(line):
        raise TraceError(f"The trace's header is damaged: {fault}.")
    return line


def _minor_notice(version: str) -> str | None:
    if _minor(version) <= _minor(SCHEMA_VERSION):
        return None
    return f"Written with schema version {version[:20]}: what {SCHEMA_VERSION} does not know is not shown."


def _minor(version: str) -> float:
    number = version.partition(".")[2]
    return int(number) if number.isdecimal() and len(number) < 10 else float("inf")


def _printable(path: Path) -> str:
    """A file's name, which need not be text."""
    return path.name.encode("utf-8", "replace").decode()


def _mode(path: Path) -> int:
    """What a path is (``st_mode``); whatever the file system says becomes a ``TraceError``."""
    try:
        return path.stat().st_mode
    except (OSError, ValueError) as error:  # ValueError: no file can have this name
        why = getattr(error, "strerror", None) or error
        raise TraceError(f"{_printable(path)} cannot be read: {why}.") from error


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[BinaryIO]:
    """A regular file, open; errors as of ``_mode``."""
    if not stat.S_ISREG(_mode(path)):  # a device has no end, and opening a pipe waits for who writes into it
        raise TraceError(f"{_printable(path)} cannot be read: it is no file.")
    try:
        with path.open("rb") as file:
            yield file
    except OSError as error:
        raise TraceError(f"{_printable(path)} cannot be read: {error.strerror or error}.") from error


def _unpacked(file: BinaryIO) -> tuple[bytes, bool]:
    """A file's content, unpacked if it is an archive, up to one byte more than ``MAX_BYTES``; and
    whether it was whole."""
    begin = file.read(2)
    file.seek(0)
    if begin != b"\x1f\x8b":
        return file.read(MAX_BYTES + 1), True
    made, room = [], MAX_BYTES + 1
    unpacker = zlib.decompressobj(wbits=31)
    while room and (chunk := unpacker.unconsumed_tail or unpacker.unused_data or file.read(_PACKED_CHUNK)):
        if unpacker.eof:  # an archive may consist of several, one behind the other
            unpacker = zlib.decompressobj(wbits=31)
        try:
            made.append(unpacker.decompress(chunk, room))
        except zlib.error:
            return b"".join(made), False
        room -= len(made[-1])
    return b"".join(made), unpacker.eof or not room
