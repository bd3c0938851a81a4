"""``python -m dflash_viz.bench.record``: record the run that the page greets with, on a real engine."""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path

import msgspec

from dflash_viz.lanes import Lane, load_preset
from dflash_viz.trace import End, Header, Message, Sampling, Trace, write_trace
from dflash_viz.weights.resolver import ROOT

WELCOME = ROOT / "assets" / "recorded" / "welcome.jsonl.gz"
PROMPT = "What is photosynthesis?"


async def record(lane: Lane, prompt: str, sampling: Sampling) -> Trace:
    """Run one request and return its trace, marked as recorded."""
    assert lane.client is not None
    lines = [line async for line in lane.client.run([Message("user", prompt)], sampling)]
    header, end = lines[0], lines[-1]
    assert isinstance(header, Header)
    assert isinstance(end, End)
    if not end.check.agrees:
        raise SystemExit(f"The recording disagrees with vLLM's counts: {end.check.message}")
    steps = [line for line in lines[1:-1] if not isinstance(line, Header | End)]
    return Trace(msgspec.structs.replace(header, origin="recorded"), steps, end)


def main() -> None:
    """Start the preset's first lane, record, stop."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--preset", default="embedded-cpu")
    parser.add_argument("--prompt", default=PROMPT)
    parser.add_argument("--tokens", type=int, default=200)
    parser.add_argument("--out", type=Path, default=WELCOME)
    options = parser.parse_args()
    lane = Lane(load_preset(options.preset).lanes[0])
    lane.start()
    try:
        lane.wait_ready()
        trace = asyncio.run(record(lane, options.prompt, Sampling(max_tokens=options.tokens)))
    finally:
        lane.close()
    write_trace(trace, options.out)
    print(f"{options.out}: {len(trace.steps)} steps")


if __name__ == "__main__":
    main()
