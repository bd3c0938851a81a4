"""Where results of benchmarks lie: a folder a result, with its traces, until somebody deletes it."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from urllib.parse import quote

import msgspec

from dflash_viz.bench.places import results_dir
from dflash_viz.results import (
    FILE_NAME,
    TRACES,
    Plan,
    Result,
    ResultError,
    Stretch,
    being_written,
    decode_result,
    read_result,
)
from dflash_viz.trace import TraceError
from dflash_viz.trace.ids import began, is_id

RESULT = "result/"
"""How the addresses of the traces of results begin."""
NO_RESULT = "There is no such result here: it was deleted, or it was measured on another machine."
NO_TRACES = (
    "This link leads to no trace of a result: the result was deleted, or it was measured on another machine."
)
_stretch = msgspec.json.Decoder(Stretch)


@dataclass(frozen=True)
class ResultSummary:
    """What a list of results shows of one.

    ``began`` is this machine's local time; ``finished`` counts the settings that are measured to the
    end, of ``num_settings``; ``problem`` says what is wrong with a damaged one.
    """

    id: str
    began: str
    pair: str = ""
    dataset: str = ""
    num_settings: int = 0
    finished: int = 0
    answers: int = 0
    problem: str = ""

    @property
    def complete(self) -> bool:
        """Whether all that was planned is measured."""
        return not self.problem and self.finished == self.num_settings


def recent() -> list[ResultSummary]:
    """The results that are kept, newest first, damaged ones too."""
    if not results_dir().is_dir():
        return []
    folders = [f for f in results_dir().iterdir() if is_id(f.name) and f.is_dir() and not f.is_symlink()]
    return [_summary(folder) for folder in sorted(folders, reverse=True)]


def open_result(name: str) -> Result:
    """Read a result by its id, which may come from anywhere. Raises ``ResultError``."""
    return read_result(result_folder(name))


def delete_result(name: str) -> None:
    """Remove a result and its traces for good. Raises ``ResultError`` when there is none, or it cannot go."""
    if being_written(folder := result_folder(name)):
        raise ResultError("This result is still being measured: stop it, or wait for its end.")
    try:
        shutil.rmtree(folder)
    except OSError as error:
        raise ResultError(f"The result cannot be deleted: {error.strerror or error}.") from error


def result_folder(name: str) -> Path:
    """A result's folder, for an id that may come from anywhere. Raises ``ResultError``."""
    folder = results_dir() / name if is_id(name) else None
    if folder is None or folder.is_symlink() or not folder.is_dir():
        raise ResultError(NO_RESULT)
    return folder


def id_of(folder: Path) -> str:
    """The id of the result in a folder; empty when it is none of this app's own."""
    try:
        own = is_id(folder.name) and folder.resolve().parent == results_dir().resolve()
    except (OSError, ValueError):
        return ""
    return folder.name if own else ""


def trace_link(name: str, trace: str) -> str:
    """A link that opens an answer's trace among the recorded runs; ``trace`` is as the answer says.

    Empty for what does not lie among the traces of the result with this id.
    """
    path = PurePosixPath(trace)
    if not path.is_relative_to(TRACES):
        return ""
    return f"?run={quote(f'{RESULT}{name}/{path.relative_to(TRACES)}')}"


def trace_place(address: str) -> Path:
    """The file or folder behind an address, which may come from anywhere: inside that result's traces.

    Raises ``TraceError``.
    """
    name, _, inner = address.removeprefix(RESULT).partition("/")
    try:
        traces = (result_folder(name) / TRACES).resolve()
        place = (traces / inner).resolve()
        inside = bool(inner) and place != traces and place.is_relative_to(traces) and place.exists()
    except (ResultError, OSError, ValueError) as error:
        raise TraceError(NO_TRACES) from error
    if not inside:
        raise TraceError(NO_TRACES)
    return place


def _summary(folder: Path) -> ResultSummary:
    when = began(folder.name)
    try:
        with (folder / FILE_NAME).open("rb") as file:
            plan: Plan = decode_result(file.readline()).plan
            answers, finished = 0, set[int]()
            for line in file:  # whole answers are decoded only when the result is opened
                answers += line.startswith(b'{"type":"answer"')
                if line.startswith(b'{"type":"stretch"'):
                    finished |= _finished(line)
    except (ResultError, OSError) as error:
        return ResultSummary(folder.name, when, problem=getattr(error, "strerror", None) or str(error))
    return ResultSummary(
        folder.name, when, plan.pair, plan.dataset.name, len(plan.settings), len(finished), answers
    )


def _finished(line: bytes) -> set[int]:
    """The setting that a line says is finished; none when it is cut short or says otherwise."""
    try:
        stretch = _stretch.decode(line)
    except (msgspec.MsgspecError, ValueError):
        return set()
    return {stretch.setting} if stretch.finished else set()
