"""What a run can be saved as."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from dflash_viz.lanes.spec import file_name
from dflash_viz.trace import Trace, write_trace
from dflash_viz.views.export import FILES


@dataclass(frozen=True)
class Export:
    """A format: its name on the page, and how it is written into a folder, returning the files."""

    label: str
    write: Callable[[Sequence[Trace], Path], list[Path]]


def _into(key: str) -> Callable[..., list[Path]]:
    name, write = FILES[key]

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
    "csv": Export("CSV, a row a step", _into("csv")),
    "parquet": Export("Parquet, a row a step", _into("parquet")),
    "chrome": Export("Chrome trace events (Perfetto)", _into("chrome")),
}
