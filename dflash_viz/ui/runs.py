"""Keeps every run on disk: a folder a run, a trace a lane, line by line, so that a crash loses nothing."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from dflash_viz.lanes.spec import file_name
from dflash_viz.trace import Line, Trace, TraceError, TraceWriter, read_summary, read_traces
from dflash_viz.trace.ids import began, is_id, new_id
from dflash_viz.trace.reader import readable, trace_files
from dflash_viz.weights.resolver import cache_dir

KEPT_RUNS = 250
NO_RUN = (
    "There is no such run here: it was deleted, nothing of it has been recorded yet, or it was recorded on "
    "another machine."
)


def runs_dir() -> Path:
    """Where the traces of this user's runs lie."""
    return cache_dir() / "runs"


# The folders that recorders write into now; a run that is deleted meanwhile would come back in part.
_written: dict[Recorder, Path] = {}


class Recorder:
    """Writes one lane's trace. A full or read-only disk stops the recording, never the run."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.problem = ""
        self._writer: TraceWriter | None = None

    def write(self, lines: Iterable[Line]) -> str:
        """Write some lines; returns a message the first time it cannot, else nothing."""
        if self.problem:
            return ""
        try:
            for line in lines:
                self._open().write(line)
        except OSError as error:
            self.problem = f"This run's trace is not saved: {error.strerror or error}."
        return self.problem

    def _open(self) -> TraceWriter:
        if self._writer is None:
            if not self.path.parent.exists():
                _forget_oldest()
            self._writer = TraceWriter(self.path)
            _written[self] = self.path.parent
        return self._writer

    @property
    def saved(self) -> Path | None:
        """The file, if all that was written so far is in it."""
        return None if self.problem or self._writer is None else self.path

    def close(self) -> None:
        """Finish the file."""
        _written.pop(self, None)
        if self._writer is not None:
            try:
                self._writer.close()
            except OSError as error:
                self.problem = self.problem or str(error)


@dataclass(frozen=True)
class RunFolder:
    """Where one run is kept. Nothing is on disk before the first line is written."""

    id: str
    path: Path
    _taken: set[str] = field(default_factory=set)

    def recorder(self, lane: str) -> Recorder:
        """A recorder for one lane; lanes whose names differ only in odd characters get files apart."""
        name = file_name(lane)
        while name in self._taken:
            name += "_"
        self._taken.add(name)
        return Recorder(self.path / f"{name}.jsonl")


@dataclass(frozen=True)
class RunSummary:
    """What a list of runs shows of one.

    ``began`` is this machine's local time; ``tokens`` counts the answer tokens of all lanes;
    ``complete``: every lane's trace has its end; ``problem`` says what is wrong with a damaged run,
    whose other fields then hold what is known.
    """

    id: str
    began: str
    prompt: str = ""
    lanes: tuple[str, ...] = ()
    tokens: int = 0
    complete: bool = False
    problem: str = ""


def new_run() -> RunFolder:
    """A place for the traces of a run that begins now."""
    made = new_id()
    return RunFolder(made, runs_dir() / made)


def recent() -> list[RunSummary]:
    """The runs that are kept, newest first, damaged ones too. Reads the ends of files only."""
    return [_summary(folder) for folder in _folders()]


def open_run(run: str) -> list[Trace]:
    """The traces of a run, in the order in which its lanes began.

    Raises ``TraceError`` for an unknown run, and when a file of it cannot be read at all, or it has none.
    """
    return read_traces(_folder(run))


def delete_run(run: str) -> None:
    """Remove a run and its traces for good. Raises ``TraceError`` when there is none, or it cannot go."""
    folder = _folder(run)
    if folder in _written.values():
        raise TraceError("This run is still being recorded: stop it, or wait for its end.")
    try:
        shutil.rmtree(folder)
    except OSError as error:
        raise TraceError(f"The run cannot be deleted: {error.strerror or error}.") from error


def _folder(run: str) -> Path:
    """A run's folder, for an id that may come from anywhere."""
    folder = runs_dir() / run if is_id(run) else None
    if folder is None or folder.is_symlink() or not folder.is_dir():
        raise TraceError(NO_RUN)
    return folder


def _folders() -> list[Path]:
    """The folders of all runs, newest first: their names begin with the time."""
    if not runs_dir().is_dir():
        return []
    return sorted((f for f in runs_dir().iterdir() if is_id(f.name) and f.is_dir()), reverse=True)


def _summary(folder: Path) -> RunSummary:
    when = began(folder.name)
    try:
        lanes, faults = readable(trace_files(folder), read_summary)
    except TraceError as error:
        return RunSummary(folder.name, when, problem=str(error))
    if not lanes:
        return RunSummary(folder.name, when, problem=" ".join(faults) or "It holds no traces.")
    lanes.sort(key=lambda lane: lane.header.recorded_at)
    first = lanes[0].header
    return RunSummary(
        folder.name,
        when,
        first.question,
        tuple(lane.header.lane for lane in lanes),
        sum(lane.tokens for lane in lanes),
        not faults and all(lane.complete for lane in lanes),
    )


def _forget_oldest() -> None:
    for old in _folders()[KEPT_RUNS - 1 :]:  # one more is about to be written
        shutil.rmtree(old, ignore_errors=True)
