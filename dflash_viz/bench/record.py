"""``python -m dflash_viz.bench.record``: record the run that the page greets with, on real engines."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
from pathlib import Path

import msgspec

from dflash_viz.lanes import Fleet, LaneError, Race, Turn, load_preset
from dflash_viz.lanes.spec import file_name
from dflash_viz.trace import Header, Message, Sampling, Trace, read_trace, write_trace
from dflash_viz.weights.resolver import ROOT

WELCOME = ROOT / "assets" / "recorded" / "welcome"
PROMPT = "What is photosynthesis?"


def read_welcome() -> list[Trace]:
    """The traces of the greeting run, one a lane, in the order of the page; none if none ship."""
    return [read_trace(path) for path in sorted(WELCOME.glob("*.jsonl.gz"))]


async def record(fleet: Fleet, prompt: str, sampling: Sampling, top_k: int) -> dict[str, Trace]:
    """Run one prompt on every lane, one after another; returns the traces, marked as recorded."""
    traces: dict[str, Trace] = {}
    race = Race(fleet, list(fleet.lanes), [Message("user", prompt)], sampling, top_k)
    async with contextlib.aclosing(race.events()) as events:
        async for lane, event in events:
            if isinstance(event, Turn):
                print(f"{lane}: {event.message}", flush=True)
                if event.state == "failed":
                    raise LaneError(f"{lane}: {event.message}")
            elif isinstance(event, Header):
                traces[lane] = Trace(msgspec.structs.replace(event, origin="recorded"))
            else:
                traces[lane].add(event)
    for trace in traces.values():
        _check(trace)
    return traces


def _check(trace: Trace) -> None:
    assert trace.end is not None
    if trace.end.check.agrees is False:
        raise LaneError(f"The recording disagrees with vLLM's counts: {trace.end.check.message}")


def main() -> None:
    """Start the preset's lanes, record, stop."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--preset", default="embedded-cpu")
    parser.add_argument("--prompt", default=PROMPT)
    parser.add_argument("--tokens", type=int, default=200)
    parser.add_argument("--top-k", type=int, default=5, help="probabilities per position")
    parser.add_argument("--out", type=Path, default=WELCOME, help="folder for a trace per lane")
    options = parser.parse_args()
    fleet = Fleet(load_preset(options.preset).lanes)
    fleet.start()
    try:
        for lane in fleet.lanes.values():
            lane.wait_ready()  # times are fair only when nothing starts beside them
        sampling = Sampling(max_tokens=options.tokens)
        traces = asyncio.run(record(fleet, options.prompt, sampling, options.top_k))
    finally:
        fleet.close()
    for number, (name, trace) in enumerate(traces.items(), start=1):
        path = options.out / f"{number}-{file_name(name)}.jsonl.gz"
        write_trace(trace, path)
        print(f"{path}: {len(trace.steps)} steps")


if __name__ == "__main__":
    main()
