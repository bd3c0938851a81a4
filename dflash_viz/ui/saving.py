"""What a run can be saved as."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from dflash_viz.lanes.spec import file_name
from dflash_viz.trace import Trace, write_trace
from dflash_viz.views.export import write_chrome, write_csv, write_parquet


@dataclass(frozen=True)
class Export:
    """A format: its name on the page, and how it is written into a folder, returning the files."""

    label: str
    write: Callable[[Sequence[Trace], Path], list[Path]]


def _into(name: str, write: Callable[[Sequence[Trace], Path], None]) -> Callable[..., list[Path]]:
    def save(traces: Sequence[Trace], folder: Path) -> list[Path]:
        write(traces, folder / name)
        return [folder / name]

    return save


def _save_traces(traces: Sequence[Trace], folder: Path) -> list[Path]:
    """A file a lane, numbered in the order of the page."""
    files = []
    for number, trace in enumerate(traces, start=1):
        files.append(folder / f"{number}-{file_name(trace.header.lane)}.jsonl.gz")
        write_trace(trace, files[-1])
    return files


EXPORTS = {
    "traces": Export("Traces (JSON Lines)", _save_traces),
    "csv": Export("CSV, a row a step", _into("steps.csv", write_csv)),
    "parquet": Export("Parquet, a row a step", _into("steps.parquet", write_parquet)),
    "chrome": Export("Chrome trace events (Perfetto)", _into("run.trace.json", write_chrome)),
}
