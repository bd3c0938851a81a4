"""Result files: written line by line, read with every fault named."""

from __future__ import annotations

import fcntl
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import msgspec

from dflash_viz.results.model import (
    SCHEMA_VERSION,
    Answer,
    Engine,
    Failure,
    Head,
    Line,
    Plan,
    Question,
    Result,
    Sample,
    Stretch,
)

FILE_NAME = "result.jsonl"
TRACES = "traces"
MAX_BYTES = 200_000_000
MAX_SETTINGS = 300
"""More than a table, or anybody's patience, can hold."""
MAX_NUMBER = 2**63
"""What tables can hold."""
NO_RESULT = "This is no result of a benchmark: its first line is not a result's head."
_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Line)


class ResultError(ValueError):
    """This is no result that can be read; the message says why and what to do."""


class _Version(msgspec.Struct):
    schema: str


class ResultWriter:
    """Writes a result into ``folder``, line by line; goes on with one that is there already.

    Raises ``OSError`` from the file system, a full disk among them, and ``BlockingIOError`` where another
    program writes into it.
    """

    def __init__(self, folder: Path, head: Head | None = None) -> None:
        """``head`` begins a new result; without it the one in the folder goes on."""
        self.folder = folder
        path = folder / FILE_NAME
        if head is None:
            _end_last_line(path)
        else:
            folder.mkdir(parents=True, exist_ok=True)
        # Unbuffered: what a full disk refuses must not be tried again when the file is closed.
        self._file = path.open("ab" if head is None else "xb", buffering=0)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if head is not None:
                self.write(head)
        except OSError:
            self._file.close()
            raise

    def write(self, line: Line) -> None:
        """Append one line and hand it to the operating system."""
        rest = memoryview(_encoder.encode(line) + b"\n")
        while rest:
            rest = rest[self._file.write(rest) :]

    def close(self) -> None:
        """Finish the file."""
        self._file.close()

    def __enter__(self) -> ResultWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def being_written(folder: Path) -> bool:
    """Whether some program writes into the result in a folder at the moment."""
    try:
        with (folder / FILE_NAME).open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def write_result(result: Result, path: Path) -> None:
    """Write a whole result as one file. Raises ``OSError``."""
    path.write_bytes(b"".join(_encoder.encode(line) + b"\n" for line in result_lines(result)))


def result_lines(result: Result) -> Iterator[Line]:
    """A result as its file's lines."""
    yield result.head
    yield from result.questions.values()
    yield from result.engines.values()
    yield from result.answers
    yield from result.failures
    yield from result.samples
    yield from result.stretches


def read_result(path: Path) -> Result:
    """Read a result: its folder, or the file in it.

    A line that cannot be relied on is left out with a notice that names it. Raises ``ResultError``, and
    nothing else, for what is no result.
    """
    try:
        file = path / FILE_NAME if path.is_dir() else path
        told = file.stat()
        if not stat.S_ISREG(told.st_mode):  # a device never ends
            raise ResultError(f"{path.name or path} holds no result: it is no file.")
        if told.st_size > MAX_BYTES:
            raise ResultError(f"The result is larger than {MAX_BYTES // 1_000_000} MB.")
        data = file.read_bytes()
    except (OSError, ValueError) as error:
        if isinstance(error, ResultError):
            raise
        why = getattr(error, "strerror", None) or error
        raise ResultError(f"{path.name or path} holds no result: {why}.") from error
    result = decode_result(data)
    if (file.parent / TRACES).is_dir():
        result.folder = str(file.parent)
    return result


def decode_result(data: bytes) -> Result:
    """Decode the bytes of a result file; see ``read_result``."""
    lines = data.split(b"\n")
    result = Result(_head(lines[0]))
    for number, text in enumerate(lines[1:], start=2):
        if not text:
            continue
        try:
            line = _decoder.decode(text)
        except _UNREADABLE:
            why = "is cut short" if number == len(lines) else "is damaged"
            result.notices.append(f"Line {number} {why} and was left out.")
            continue
        if fault := _fault(line, result):
            result.notices.append(f"Line {number} was left out: {fault}.")
        else:
            result.add(line)
    return result


def _head(text: bytes) -> Head:
    try:
        version = msgspec.json.decode(text, type=_Version).schema
    except _UNREADABLE as error:
        raise ResultError(NO_RESULT) from error
    if version.partition(".")[0] != SCHEMA_VERSION.partition(".")[0]:
        raise ResultError(
            f"This result has schema version {version[:20]!r}; this program reads {SCHEMA_VERSION}. "
            "Open it with the version of DFlash Viz that wrote it."
        )
    try:
        line = _decoder.decode(text)
    except _UNREADABLE as error:
        raise ResultError(f"The result's head is damaged: {error}.") from error
    if not isinstance(line, Head):
        raise ResultError(NO_RESULT)
    if fault := _plan_fault(line.plan):
        raise ResultError(f"The result's head is damaged: {fault}.")
    return line


def _plan_fault(plan: Plan) -> str:
    if not plan.settings:
        return "it has no settings"
    if len(plan.settings) > MAX_SETTINGS:
        return f"it has {len(plan.settings)} settings, more than {MAX_SETTINGS}"
    numbers: list[float] = [plan.max_tokens]
    for setting in plan.settings:
        numbers += [setting.num_speculative_tokens, setting.temperature, setting.concurrency]
    return "" if all(0 <= number < MAX_NUMBER for number in numbers) else "it holds a number that cannot be"


def _fault(line: Line, result: Result) -> str:
    """Why a line cannot be relied on; empty when it can."""
    if isinstance(line, Head):
        return "it is a second head"
    if isinstance(line, Question):
        return "" if line.turns else "its question is empty"
    if not 0 <= line.setting < len(result.plan.settings):
        return f"there is no setting {line.setting}"
    if isinstance(line, Answer | Sample | Stretch) and not _sound(line):
        return "it holds a number that cannot be"
    if isinstance(line, Answer):
        return _answer_fault(line, result)
    assert isinstance(line, Engine | Failure | Sample | Stretch)
    return ""


def _answer_fault(answer: Answer, result: Result) -> str:
    if answer.question not in result.questions:
        return f"its question {answer.question[:40]!r} is not in the file"
    if answer.num_accepted > answer.num_draft_tokens:
        return "more was accepted than drafted"
    if Path(answer.trace).is_absolute() or ".." in Path(answer.trace).parts:
        return "its trace lies outside the result's folder"
    return ""


def _sound(line: Answer | Sample | Stretch) -> bool:
    values = [getattr(line, name) for name in line.__struct_fields__]
    numbers = [v for v in values if isinstance(v, int | float)]
    numbers += [v for many in values if isinstance(many, list) for v in many]
    return all(0 <= number < MAX_NUMBER for number in numbers)


def _end_last_line(path: Path) -> None:
    """Cut what was being written when a benchmark was killed; a line that lacks its end alone is whole."""
    data = path.read_bytes()
    begin = data.rfind(b"\n") + 1
    if begin == len(data):
        return
    try:
        _decoder.decode(data[begin:])
    except _UNREADABLE:
        os.truncate(path, begin)
    else:
        with path.open("ab") as file:
            file.write(b"\n")
