"""Attaches to servers on several GPUs as ``python app.py --server`` does, and prints one table.

    python3 -m gpu.parallel --gguf FOLDER [--preset embedded-cuda] [--ahead 3] [--seconds 360]

The embedded pair, padded for two GPUs (gpu/pad.py): on one GPU, with tensor parallel size 2, and with data
parallel size 2, there with the hooks and without. vLLM's own command starts each server, with the hooks' two
flags; the app's lane attaches to it, and then: is every trace complete at one and at 128 requests at once,
does an answer end that is stopped, which engines report, and is the acceptance length that of one GPU?
Without the hooks the answers' windows must add up to what the server counted. The servers start together, as
most of the time goes into that, and are checked one after another; those that wait do nothing.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import functools
import re
import statistics
import sys
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import msgspec

from dflash_viz.bench.meter import settled
from dflash_viz.hooks.wire import ROUTE, EngineStep, Record
from dflash_viz.lanes import LaneClient, LaneError, Text, load_preset
from dflash_viz.lanes.attached import AttachedLane
from dflash_viz.trace import End, Message, Sampling, Step
from dflash_viz.trace.counters import Counters
from dflash_viz.weights import resolve_model
from dflash_viz.weights.resolver import EMBEDDED, GGUF_FILE
from gpu.asking import GREEDY, ask_all, convert, prompts, traces
from gpu.checks import Check, Checks, Made, say
from gpu.layouts import LAYOUTS, ONE, Layout, Running, in_turn, served
from gpu.pad import pad_pair

METHOD = "dflash"
START_LIMIT_S = 200.0
LIMIT_S = 60.0
LOOK_EVERY_S = 0.5
# Stopped answers: after so many steps each, and so many more until the engine has heard of it.
STOP_AFTER, LATE_STEPS = 3, 40
STORIES = ("a ship", "a mountain", "a winter", "two sisters", "a railway", "an island", "a war", "a garden")
STORY_TOKENS = 768
_WRITTEN = re.compile(r'^vllm:generation_tokens_total\{[^}]*engine="(\d+)"[^}]*\} (\S+)$', re.MULTILINE)
_record_decoder = msgspec.json.Decoder(Record)


async def attach(lane: AttachedLane, running: Running, hooks: bool) -> Made:
    """Wait until the lane is ready; whether there are steps as there should be."""
    lane.start()
    while (client := lane.client) is None:
        if running.process.poll() is not None:
            raise RuntimeError(f"the server has ended with status {running.process.returncode}")
        await asyncio.sleep(LOOK_EVERY_S)
    told = client.fingerprint
    shown = f"{told.model_runner} runner, graphs {told.graph_mode}, {told.device}"
    return (client.counts_only == "") == hooks, client.counts_only or shown, {"versions": told.versions}


class Reports:
    """What the engines of a server report: how many records of each request, by engine."""

    def __init__(self) -> None:
        self.requests: dict[str, Counter[int]] = {}
        self.faults: list[str] = []

    def take(self, record: Record) -> None:
        """One record arrived."""
        if not isinstance(record, EngineStep):
            self.faults.append(record.message)
            return
        for row in record.rows:
            self.requests.setdefault(row.request_id, Counter())[record.engine] += 1

    async def judged(self, engines: int) -> Made:
        """Whether so many engines report, and of each request only one."""
        several = sum(len(by) > 1 for by in self.requests.values())
        each = Counter(engine for by in self.requests.values() for engine in by)
        shown = [f"engine {engine}: {number} requests" for engine, number in sorted(each.items())]
        shown += [f"{several} of them by several engines"] if several else []
        good = sorted(each) == list(range(engines)) and not several and not self.faults
        figures = {"requests": {str(engine): number for engine, number in sorted(each.items())}}
        return good, ", ".join([*shown, *self.faults[:1]]), figures


@contextlib.asynccontextmanager
async def listening(client: LaneClient) -> AsyncIterator[Reports]:
    """Hear all steps of the server meanwhile."""
    heard, begun = Reports(), asyncio.Event()

    async def listen() -> None:
        async with client.http() as http, http.stream("GET", f"{ROUTE}/steps") as events:
            async for line in events.aiter_lines():
                begun.set()
                if line.startswith("data: "):
                    heard.take(_record_decoder.decode(line[6:]))

    task = asyncio.create_task(listen())
    try:
        await asyncio.wait_for(begun.wait(), LIMIT_S)
        yield heard
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def stopped(client: LaneClient) -> Made:
    """Whether answers that are stopped end so, whole, and the engines do not go on with them."""

    async def one(about: str) -> End:
        asked = [Message("user", f"Write a very long story about {about}.")]
        run = client.run(asked, Sampling(temperature=GREEDY, max_tokens=STORY_TOKENS, seed=0))
        seen, last = 0, None
        async for last in run:
            seen += isinstance(last, Step | Text)
            if seen == STOP_AFTER:
                await run.stop()
        assert isinstance(last, End)
        return last

    before = await settled(client)
    ends = await asyncio.gather(*map(one, STORIES))
    after = await settled(client)
    drafts, running = (after.counters - before.counters).num_drafts, after.load.running
    found = [f"ended: {end.finish_reason}" for end in ends if end.finish_reason != "abort"]
    found += [end.check.message for end in ends if end.check.agrees is False]
    found += [f"{running} still run"] if running else []
    found += [f"{drafts} drafts were made"] if drafts > len(STORIES) * (STOP_AFTER + LATE_STEPS) else []
    return not found, f"{len(ends)} answers, {drafts} drafts; {len(found)} faults {found[:2]}", {}


async def windows(client: LaneClient, number: int, concurrency: int, tokens: int) -> Made:
    """Counts alone: whether the answers are whole, and their windows and the engines what was counted."""
    before, wrote = await settled(client), written(await client.metrics())
    ends = [a.end for a in await ask_all(client, prompts(number), concurrency, tokens)]
    counted = (await settled(client)).counters - before.counters
    each = written(await client.metrics()) - wrote
    found = [f"ended: {end.finish_reason}" for end in ends if end.finish_reason not in ("stop", "length")]
    found += window_faults(ends, counted, concurrency == 1)
    if each.total() != (held := sum(end.num_output_tokens for end in ends)):
        found.append(f"the engines wrote {each.total()} tokens, the answers hold {held}")
    al = counted.acceptance_length or 0.0
    speed = statistics.median(
        end.window.decode_tokens / end.window.decode_s for end in ends if end.window and end.window.decode_s
    )
    shown = [f"{len(ends)} answers, {len(found)} faults", f"AL {al:.2f}", f"{speed:.0f} tokens/s each"]
    shown += [f"engine {engine}: {count} tokens" for engine, count in sorted(each.items())]
    figures = {"al": round(al, 3), "decode_tokens_per_s": round(speed, 1), "faults": found[:5]}
    return not found, ", ".join([*shown, *found[:1]]), figures


def written(metrics: str) -> Counter[int]:
    """The tokens that each engine of a server has written since it began."""
    return Counter({int(engine): int(float(count)) for engine, count in _WRITTEN.findall(metrics)})


def window_faults(ends: Sequence[End], counted: Counters, alone: bool) -> list[str]:
    """Which windows are missing, and where each answer ran ``alone``, whether their sum was counted."""
    seen = [end.window for end in ends if end.window is not None and end.window.num_drafts is not None]
    if len(seen) < len(ends):
        return [f"{len(ends) - len(seen)} answers have no counts"]
    total = sum(
        (
            Counters(
                w.num_drafts or 0, w.num_draft_tokens or 0, w.num_accepted or 0, (*w.accepted_per_position,)
            )
            for w in seen
        ),
        Counters(),
    )
    agree = total == counted or not alone
    return [] if agree else [f"the windows hold {total}, the server counted {counted}"]


async def compared(al: float | None, reference: float | None, tolerance: float) -> Made:
    """Whether the acceptance length is that of one GPU."""
    if al is None or reference is None:
        return False, f"AL {al}, on one GPU {reference}", {}
    share = al / reference
    shown = f"AL {al:.3f}, {share:.4f} of that on one GPU"
    return abs(share - 1) <= tolerance, shown, {"al": round(al, 4), "share": round(share, 4)}


async def check_answers(
    checks: Checks, layout: Layout, client: LaneClient, options: argparse.Namespace
) -> float | None:
    """The answers of a server at both loads, and those that are stopped; the AL over both loads."""
    measure, what = (traces, "traces") if layout.hooks else (windows, "windows")
    before = await settled(client)
    for number, concurrency in ((options.prompts, 1), (options.many, options.many)):
        check = functools.partial(measure, client, number, concurrency, options.tokens)
        await checks.run(f"{layout.name}: {what}, {concurrency} at once", LIMIT_S, check)
    al = ((await settled(client)).counters - before.counters).acceptance_length
    await checks.run(f"{layout.name}: stopped answers", LIMIT_S, lambda: stopped(client))
    return al


async def check_server(
    checks: Checks, layout: Layout, client: LaneClient, options: argparse.Namespace
) -> float | None:
    """Everything about a server that answers; its acceptance length."""
    if not layout.hooks:
        return await check_answers(checks, layout, client, options)
    async with listening(client) as heard:
        al = await check_answers(checks, layout, client, options)
    await checks.run(f"{layout.name}: who reports", LIMIT_S, lambda: heard.judged(layout.engines))
    return al


async def check_layout(
    checks: Checks, layout: Layout, running: Running, options: argparse.Namespace
) -> float | None:
    """Attach to a server and check it; its acceptance length."""
    lane = AttachedLane(running.server)
    try:
        start = functools.partial(attach, lane, running, layout.hooks)
        if await checks.run(f"{layout.name}: start and attach", START_LIMIT_S, start):
            assert lane.client is not None
            return await check_server(checks, layout, lane.client, options)
        say(running.tail(6000))
    except (LaneError, TimeoutError) as error:  # between two checks; the next server may still answer
        checks.done.append(Check(f"{layout.name}: answers", False, f"{type(error).__name__}: {error}"))
    finally:
        await asyncio.to_thread(lane.close)
    return None


async def verify(options: argparse.Namespace) -> list[Check]:
    """Run all checks and print their table."""
    checks = Checks(options.seconds)
    if options.gguf is not None:
        await checks.run("embedded target", START_LIMIT_S, lambda: convert(options.gguf))
    spec = next(lane for lane in load_preset(options.preset).lanes if lane.method == METHOD)
    layouts = [one for one in LAYOUTS if one is ONE or not options.layout or one.name in options.layout]
    with tempfile.TemporaryDirectory() as scratch:
        pair = pad_pair(resolve_model(EMBEDDED), resolve_model(spec.drafter or ""), Path(scratch))
        reference = None
        with contextlib.closing(
            in_turn(layouts, functools.partial(served, spec, pair), options.ahead)
        ) as turns:
            for layout, running in turns:
                al = await check_layout(checks, layout, running, options)
                if layout is ONE:
                    reference = al
                    continue
                check = functools.partial(compared, al, reference, layout.al_tolerance)
                await checks.run(f"{layout.name}: acceptance length", LIMIT_S, check)
    print(f"\n{checks.table()}", flush=True)
    return checks.done


def main() -> int:
    """Parse the command line; 0 when everything passed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    names = [layout.name for layout in LAYOUTS[1:]]
    parser.add_argument("--gguf", type=Path, help=f"the folder that holds {GGUF_FILE}, to convert it")
    parser.add_argument("--preset", default="embedded-cuda", help="its first lane of method dflash is taken")
    parser.add_argument("--layout", nargs="*", choices=names, help="only these, beside one GPU")
    parser.add_argument("--ahead", type=int, default=3, help="servers that start while one is checked")
    parser.add_argument("--prompts", type=int, default=24, help="prompts that are asked one at a time")
    parser.add_argument("--many", type=int, default=128, help="requests at once")
    parser.add_argument("--tokens", type=int, default=128, help="answer tokens at most")
    parser.add_argument("--seconds", type=float, default=360.0, help="the whole run's time limit")
    done = asyncio.run(verify(parser.parse_args()))
    return 0 if done and all(check.passed for check in done) else 1


if __name__ == "__main__":
    sys.exit(main())
