"""The questions that a benchmark asks: built in, from a file on this machine, or from the hub."""

from __future__ import annotations

import codecs
import io
import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import msgspec

from dflash_viz.bench.formats import FORMATS, MAX_NAME, Format, Row, RowError, format_of
from dflash_viz.bench.hub import HubError, hub_rows
from dflash_viz.bench.prompts import KINDS, MATHS_ANSWERS, asks_for_python
from dflash_viz.results import Grader, Question, Turns

BUILT_IN = "builtin"
NAMES: tuple[str, ...] = ("builtin", "gsm8k", "humaneval", "mt-bench", "math500", "mbpp", "spec-bench")
MAX_BYTES = 100_000_000
MAX_LISTED = 100
# The DFlash benchmark's seed: the same ``limit`` chooses the same questions as there.
SEED = 42
_BY_NAME = {one.name: one for one in FORMATS}
_INSTEAD = f"Give a file on this machine with --data PATH, or use the built-in questions ({BUILT_IN!r})."
_ONE_A_LINE = 'One JSON object a line is expected, such as {"turns": ["What is a lighthouse?"]}.'

OnBadLine = Literal["stop", "skip"]


class DatasetError(ValueError):
    """There are no questions to ask; the message says why and what to do."""


@dataclass(frozen=True)
class Loaded:
    """The chosen questions, in the order in which they are asked.

    ``source`` says where they came from, ``num_available`` how many there were to choose from, and
    ``skipped`` which lines could not be used (the first 100 of them, and how many more).
    """

    questions: list[Question]
    source: str
    num_available: int
    skipped: list[str]
    name: str


@dataclass(frozen=True)
class _Asked:
    """What ``load_dataset`` was asked for, beside the data set itself."""

    limit: int | None
    turns: Turns
    on_bad_line: OnBadLine


def load_dataset(
    name: str,
    path: Path | None = None,
    limit: int | None = None,
    turns: Turns = "first",
    on_bad_line: OnBadLine = "stop",
) -> Loaded:
    """Load a data set by its name, or by the path of a JSONL file whose lines say what they are.

    ``path``, a JSONL file or a folder with a file of the data set's name, is read instead of the hub.
    ``limit`` chooses that many questions at random as the DFlash benchmark does (of the built-in ones:
    the kinds in turn); without it, or with more than there are, all come in their own order. ``turns``:
    a conversation's first turn, or all of them. Blocks for as long as a download takes.
    Raises ``DatasetError``, and nothing else, for whatever cannot be read.
    """
    if limit is not None and limit < 1:
        raise DatasetError("A benchmark needs at least one question: choose 1 or more.")
    asked = _Asked(limit, turns, on_bad_line)
    if path is None and name.endswith(".jsonl"):
        return _from_file(Path(name), None, asked)
    if name == BUILT_IN:
        if path is not None:
            raise DatasetError(
                f"The built-in questions need no file: leave out {path}, or name its data set."
            )
        return _built_in(limit)
    if name not in _BY_NAME:
        known = ", ".join(NAMES)
        raise DatasetError(
            f"There is no data set {name[:100]!r}. Known are {known}, and any JSONL file by its path."
        )
    known_format = _BY_NAME[name]
    return _from_hub(known_format, asked) if path is None else _from_file(path, known_format, asked)


def _built_in(limit: int | None) -> Loaded:
    by_kind = [
        [
            Question(f"{kind}-{number}", kind, [prompt], *_check_of(kind, number - 1, prompt))
            for number, prompt in enumerate(prompts, start=1)
        ]
        for kind, prompts in KINDS.items()
    ]
    questions = [question for group in zip(*by_kind, strict=True) for question in group]
    return Loaded(questions[:limit], "built into DFlash Viz", len(questions), [], BUILT_IN)


def _check_of(kind: str, index: int, prompt: str) -> tuple[Grader, str]:
    if kind == "maths" and MATHS_ANSWERS[index]:
        return "number", MATHS_ANSWERS[index]
    if kind == "code" and asks_for_python(prompt):
        return "python", ""
    return "", ""


def _from_hub(known: Format, asked: _Asked) -> Loaded:
    if known.hub is None:
        raise DatasetError(
            f"{known.name} is not on the hub under a name known here. Download its question file and give "
            f"it with --data PATH, or use the built-in questions ({BUILT_IN!r})."
        )
    try:
        rows = hub_rows(known.hub)
    except HubError as error:
        raise DatasetError(f"No questions of {known.name}. {error} {_INSTEAD}") from error
    return _gather(enumerate(rows, start=1), str(known.hub), known, known.name, asked)


def _from_file(path: Path, known: Format | None, asked: _Asked) -> Loaded:
    try:
        file = _find(path.expanduser(), known)
        data = file.read_bytes().removeprefix(codecs.BOM_UTF8)
    except DatasetError:
        raise
    except (OSError, ValueError, RuntimeError) as error:  # "~nobody" is a RuntimeError
        why = getattr(error, "strerror", None) or error
        raise DatasetError(f"{path} cannot be read: {why}. Check the path.") from error
    read_as = known or _recognise(data, file.name)
    name = known.name if known else _name_of(file)
    return _gather(_lines(data), file.name, read_as, name, asked)


def _find(path: Path, known: Format | None) -> Path:
    """The file to read: ``path``, or the first file of a known name in this folder."""
    if path.is_dir():
        if known is None:
            raise DatasetError(f"{path} is a folder: name the data set, or the file in it.")
        names = [name for name in known.files if (path / name).is_file()]
        if not names:
            raise DatasetError(
                f"The folder {path} holds no file of {known.name}: looked for {', '.join(known.files)}. "
                "Rename the file, or give its own path with --data PATH."
            )
        path = path / names[0]
    if not path.is_file():
        raise DatasetError(f"There is no file {path}. Check the path. {_INSTEAD}")
    if path.stat().st_size > MAX_BYTES:
        raise DatasetError(
            f"{path.name} is larger than {MAX_BYTES // 1_000_000} MB. Keep only the lines to be asked."
        )
    return path


def _lines(data: bytes) -> Iterator[tuple[int, bytes]]:
    """The lines that hold something, numbered from 1."""
    return ((number, line) for number, line in enumerate(io.BytesIO(data), start=1) if line.strip())


def _recognise(data: bytes, file_name: str) -> Format:
    """The format of the first line that can be read."""
    fault = "it is empty"
    for number, line in _lines(data):
        try:
            row = _decode(line)
        except RowError as error:
            fault = f"line {number}: {error}"
            continue
        if found := format_of(row):
            return found
        fault = f"line {number}: its fields ({', '.join(row)[:200]}) are those of no known data set"
        break
    raise DatasetError(f"{file_name} cannot be used: {fault}. {_ONE_A_LINE}")


def _name_of(file: Path) -> str:
    """What a file's questions are called: the data set whose usual name it has, or its own name."""
    usual = (one.name for one in FORMATS for name in one.files if file.resolve().match(name))
    return next(usual, file.stem[:MAX_NAME])


def _gather(
    lines: Iterable[tuple[int, Row | bytes]], source: str, read_as: Format, name: str, asked: _Asked
) -> Loaded:
    """Make questions of all lines and choose among them."""
    questions: dict[str, Question] = {}
    skipped = _Skipped()
    for number, line in lines:
        try:
            row = _decode(line) if isinstance(line, bytes) else line
            question = read_as.question(row, number, asked.turns, name)
            if question.id in questions:
                raise RowError(f"its id {question.id!r} is an earlier question's")
            questions[question.id] = question
        except RowError as fault:
            message = f"{source}, line {number}: {fault}."
            if asked.on_bad_line == "stop":
                advice = "Mend or remove the line, or let unusable lines be skipped."
                raise DatasetError(f"{message} {advice}") from fault
            skipped.add(message)
    if not questions:
        why = f"not one line can be used. {skipped.first[0]}" if skipped.first else "it is empty."
        raise DatasetError(f"{source} holds no questions: {why} {_ONE_A_LINE}")
    return Loaded(
        _choose(list(questions.values()), asked.limit), source, len(questions), skipped.told(), name
    )


@dataclass
class _Skipped:
    """The lines left out; only the first are kept, as a result's head lists them."""

    first: list[str] = field(default_factory=list)
    more: int = 0

    def add(self, message: str) -> None:
        """Take in one more."""
        if len(self.first) < MAX_LISTED:
            self.first.append(message)
        else:
            self.more += 1

    def told(self) -> list[str]:
        """All of them, in words."""
        return [*self.first, f"{self.more} more lines."] if self.more else self.first


def _decode(line: bytes) -> Row:
    """One line as its fields. Raises ``RowError``."""
    try:
        line.decode()
    except UnicodeDecodeError as error:
        raise RowError(
            "it is not UTF-8 text (save the file as UTF-8; unpack it first if it is compressed)"
        ) from error
    try:
        row = msgspec.json.decode(line)
    except (msgspec.DecodeError, RecursionError) as error:
        raise RowError(f"it is not JSON that can be read ({error})") from error
    if not isinstance(row, dict):
        raise RowError("it is not a JSON object in braces")
    return row


def _choose(questions: list[Question], limit: int | None) -> list[Question]:
    if limit is None or limit >= len(questions):
        return questions
    order = list(range(len(questions)))
    random.Random(SEED).shuffle(order)
    return [questions[index] for index in order[:limit]]
