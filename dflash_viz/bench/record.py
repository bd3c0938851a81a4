"""``python -m dflash_viz.bench.record``: record the gallery again, on real engines."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import shutil
from collections.abc import Sequence
from pathlib import Path

import msgspec

from dflash_viz.lanes import Fleet, LaneError, Race, Text, Turn, load_preset
from dflash_viz.lanes.spec import file_name
from dflash_viz.trace import Header, Message, Run, Sampling, Trace, read_trace, write_trace
from dflash_viz.weights.resolver import ROOT

RECORDED = ROOT / "assets" / "recorded"
GALLERY = RECORDED / "gallery"
TOP_K = 5
"""Probabilities per position: as many as the inspector shows without scrolling."""


class Entry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One run of the gallery: what is asked, and what it shows."""

    name: str
    title: str
    note: str
    prompt: str
    tokens: int
    temperature: float = 0.0
    seed: int | None = None

    @property
    def sampling(self) -> Sampling:
        """How its tokens are chosen."""
        return Sampling(self.temperature, self.tokens, self.seed)


def read_entries() -> list[Entry]:
    """What the gallery holds, in the order of the page."""
    return msgspec.yaml.decode((RECORDED / "gallery.yaml").read_bytes(), type=list[Entry])


def read_gallery(folder: Path = GALLERY) -> list[Run]:
    """The recorded runs that ship, a trace a lane; what has not been recorded is left out.

    Raises ``TraceError`` for a file that cannot be read.
    """
    runs = []
    for entry in read_entries():
        traces = [read_trace(path) for path in sorted((folder / entry.name).glob("*.jsonl.gz"))]
        if traces:
            runs.append(Run(entry.title, traces, entry.note, f"gallery/{entry.name}"))
    return runs


async def record(fleet: Fleet, entry: Entry) -> list[Trace]:
    """Run one prompt on every lane, one after another; returns the traces, marked as recorded."""
    traces: dict[str, Trace] = {}
    race = Race(fleet, list(fleet.lanes), [Message("user", entry.prompt)], entry.sampling, TOP_K)
    async with contextlib.aclosing(race.events()) as events:
        async for lane, event in events:
            if isinstance(event, Turn):
                if event.state == "failed":
                    raise LaneError(f"{lane}: {event.message}")
            elif isinstance(event, Header):
                traces[lane] = Trace(msgspec.structs.replace(event, origin="recorded"))
            elif isinstance(event, Text):
                raise LaneError(f"{lane}: {traces[lane].header.counts_only}")
            else:
                traces[lane].add(event)
    for trace in traces.values():
        _check(trace)
    return [traces[lane] for lane in fleet.lanes]


def _check(trace: Trace) -> None:
    assert trace.end is not None
    if trace.end.check.agrees is False:
        raise LaneError(f"The recording disagrees with vLLM's counts: {trace.end.check.message}")


async def _record_all(fleet: Fleet, entries: Sequence[Entry], out: Path) -> None:
    """An idle engine is slow at first: what is recorded first is recorded twice."""
    await record(fleet, entries[0])
    for number, entry in enumerate(entries, start=1):
        traces = await record(fleet, entry)
        shutil.rmtree(out / entry.name, ignore_errors=True)
        for place, trace in enumerate(traces, start=1):
            write_trace(trace, out / entry.name / f"{place}-{file_name(trace.header.lane)}.jsonl.gz")
        steps = ", ".join(f"{trace.header.lane} {len(trace.steps)}" for trace in traces)
        print(f"{number} of {len(entries)}  {entry.name}: steps {steps}", flush=True)


def main() -> None:
    """Start the preset's lanes, record, stop."""
    entries = read_entries()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--preset", default="embedded-cpu")
    parser.add_argument("--only", nargs="+", choices=[entry.name for entry in entries], help="these runs")
    parser.add_argument("--out", type=Path, default=GALLERY, help="gets a folder a run, a trace a lane")
    options = parser.parse_args()
    fleet = Fleet(load_preset(options.preset).lanes)
    fleet.start()
    try:
        for lane in fleet.lanes.values():
            lane.wait_ready()  # times are fair only when nothing starts beside them
        chosen = [entry for entry in entries if options.only is None or entry.name in options.only]
        asyncio.run(_record_all(fleet, chosen, options.out))
    finally:
        fleet.close()


if __name__ == "__main__":
    main()
