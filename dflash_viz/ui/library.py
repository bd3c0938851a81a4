"""Every run that can be opened, by where it lies: the gallery, this app's own runs, benchmarks, files."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from dflash_viz.trace import Run, Trace, TraceError, read_trace, read_traces
from dflash_viz.ui.results import RESULT, trace_place
from dflash_viz.ui.runs import RunSummary, open_run

GALLERY = "gallery/"
MAX_TITLE = 60
NO_LINK = "This link leads to no run of this app: it was deleted, or recorded on another machine."


@dataclass(frozen=True)
class Place:
    """Where a run lies: an address that links carry, or files. Addresses may come from anywhere, files
    only from the visitor's own uploads, or on the app's own machine from a path that was typed."""

    address: str = ""
    files: tuple[Path, ...] = ()


class Library:
    """Opens runs. Every method raises ``TraceError`` with a message that says what to do."""

    def __init__(self, gallery: Sequence[Run]) -> None:
        self.gallery = {run.address: run for run in gallery}

    def open(self, place: Place) -> Run:
        """The run that lies there."""
        if place.files:
            return _from_files(place.files)
        if place.address.startswith(GALLERY):
            if (run := self.gallery.get(place.address)) is None:
                raise TraceError(NO_LINK)
            return run
        if place.address.startswith(RESULT):
            traces = _of_benchmark(trace_place(place.address))
            return Run(_title(traces), traces, "A prompt of a benchmark, on its settings.", place.address)
        traces = distinct(open_run(place.address))
        return Run(_title(traces), traces, "A run of this app, from its traces.", place.address)


def place_of_path(text: str) -> Place:
    """A trace file, or a folder of them, on the app's own machine. Raises ``TraceError`` without one."""
    if not text.strip():
        raise TraceError("Type the path of a trace file, or of a folder of them.")
    return Place(files=(Path(os.path.expanduser(text.strip())),))


def distinct(traces: Iterable[Trace]) -> list[Trace]:
    """The traces with lanes of different names: the page tells them apart by these."""
    taken: set[str] = set()
    found = []
    for trace in traces:
        lane, number = trace.header.lane, 2
        while lane in taken:
            lane, number = f"{trace.header.lane} ({number})", number + 1
        taken.add(lane)
        header = msgspec.structs.replace(trace.header, lane=lane)
        found.append(Trace(header, trace.steps, trace.end, trace.notices))
    return found


def _title(traces: Sequence[Trace]) -> str:
    return _shortened(traces[0].header.question)


def label_of(summary: RunSummary) -> str:
    """A run in the list: when, what was asked, how it went."""
    when = summary.began.replace("T", " ")[:16]
    if summary.problem:
        return f"{when} · damaged: {summary.problem}"
    lanes, cut = ", ".join(summary.lanes), "" if summary.complete else " · cut short"
    return f"{when} · {_shortened(summary.prompt)} · {lanes} · {summary.tokens} tokens{cut}"


def _shortened(text: str) -> str:
    return text if len(text) <= MAX_TITLE else f"{text[: MAX_TITLE - 1]}…"


def _from_files(files: Sequence[Path]) -> Run:
    traces = _of_one_prompt([trace for file in files for trace in read_traces(file)])
    names = ", ".join(file.name for file in files)
    return Run(_title(traces), traces, f"From {names}.")


def _of_benchmark(place: Path) -> list[Trace]:
    """A folder of a benchmark's traces, or one of them with those beside it that answer the same prompt:
    in the later turns of a conversation the prompts hold the lanes' own answers."""
    if place.is_dir():
        return _of_one_prompt(read_traces(place))
    prompt = read_trace(place).header.prompt_token_ids
    beside = read_traces(place.parent)
    return distinct(trace for trace in beside if trace.header.prompt_token_ids == prompt)


def _of_one_prompt(traces: Sequence[Trace]) -> list[Trace]:
    """Traces of several files, which must answer one prompt: the page sets lanes side by side."""
    prompts = {tuple(trace.header.prompt_token_ids) for trace in traces}
    if len(prompts) > 1:
        raise TraceError(
            f"These files answer {len(prompts)} different prompts: open those of one prompt together, the "
            "others by themselves."
        )
    return distinct(traces)
