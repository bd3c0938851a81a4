"""Checks the engines of a preset on a GPU host without network, and prints one table.

    python3 -m gpu.verify --gguf FOLDER [--preset embedded-cuda] [--seconds 470]

For every lane, one engine at a time: does it start, is every trace complete at one and at 128 requests
at once, how fast is it. Then, on the first lane and on the one without speculation, decode speed
without hooks, with them, and with probabilities, interleaved; at last sleep level 1 and waking.

A trace is complete when its tokens are the answer's and its steps vLLM's own counts: each answer's, where
this vLLM reports them, and in any case the difference of the server's counters. Every check has its
own time limit and says how it went in a line of JSON; what is left when the time is up is skipped.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import functools
import itertools
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import msgspec

from dflash_viz.bench.engines import OwnEngines
from dflash_viz.bench.meter import settled
from dflash_viz.bench.prompts import KINDS
from dflash_viz.bench.speed import TOP_K, WARM_TOKENS, Tally, ask, watched
from dflash_viz.lanes import LaneClient, LaneSpec, load_preset
from dflash_viz.metrics import count
from dflash_viz.trace import PLAIN, End, Message, Sampling, Step
from dflash_viz.trace.counters import Counters
from dflash_viz.weights import resolve_model
from dflash_viz.weights.resolver import (
    EMBEDDED,
    GGUF_FILE,
    cache_dir,
    convert_gguf,
    embedded_target_dir,
)
from gpu.checks import MARGIN_S, Check, Checks, Made, Once, say

START_LIMIT_S = 150.0
TRACES_LIMIT_S = 60.0
SPEED_LIMIT_S = 75.0
SLEEP_LIMIT_S = 60.0
# How often each prompt is asked for the speed.
ROUNDS = 2
# Decode speed with hooks over without: tokens only, and with probabilities.
HOOKS_SHARE, TOP_K_SHARE = 0.98, 0.95
# How far the acceptance length may be from the one before the engine slept.
SLEEP_TOLERANCE = 0.02
GREEDY = 0.0


@dataclass
class Answer:
    """One request: its steps, how it ended, and how fast it was (tokens/s after the first)."""

    steps: list[Step]
    end: End
    speed: float


def prompts(number: int) -> list[str]:
    """The first of the built-in prompts, the kinds in turn; again from the start when they are used up."""
    mixed = [prompt for group in zip(*KINDS.values(), strict=True) for prompt in group]
    return list(itertools.islice(itertools.cycle(mixed), number))


async def convert(gguf: Path) -> Made:
    """The embedded target from its GGUF, unless the cache has it."""
    folder = embedded_target_dir()
    if not folder.is_dir():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
            fresh = Path(scratch) / "model"
            fresh.mkdir()
            await asyncio.to_thread(convert_gguf, gguf / GGUF_FILE, fresh, lambda _, text: say(text))
            fresh.rename(folder)
    return True, str(await asyncio.to_thread(resolve_model, EMBEDDED)), {}


async def answer(client: LaneClient, prompt: str, max_tokens: int, top_k: int = 0) -> Answer:
    """Ask one prompt, greedily."""
    sampling = Sampling(temperature=GREEDY, max_tokens=max_tokens, seed=0)
    steps: list[Step] = []
    end: End | None = None
    first = last = 0.0
    async for line in client.run([Message("user", prompt)], sampling, top_k):
        if isinstance(line, Step):
            steps.append(line)
            last = time.perf_counter()
            first = first or last
        elif isinstance(line, End):
            end = line
    assert end is not None
    later = sum(len(step.emitted) for step in steps[1:])
    return Answer(steps, end, later / (last - first) if last > first else 0.0)


async def ask_all(client: LaneClient, asked: Sequence[str], concurrency: int, tokens: int) -> list[Answer]:
    """Every prompt, so many at once."""
    room = asyncio.Semaphore(concurrency)

    async def one(prompt: str) -> Answer:
        async with room:
            return await answer(client, prompt, tokens)

    return await asyncio.gather(*map(one, asked))


def faults(answers: Sequence[Answer], counted: Counters) -> list[str]:
    """What does not agree: answers with their own counts, all of them with the server's counters."""
    found = [a.end.check.message for a in answers if a.end.check.agrees is False]
    found += [
        f"ended: {a.end.finish_reason}" for a in answers if a.end.finish_reason not in ("stop", "length")
    ]
    for a in answers:
        if (held := sum(len(step.emitted) for step in a.steps)) != a.end.num_output_tokens:
            found.append(f"the steps hold {held} tokens, the answer {a.end.num_output_tokens}")
    recorded = sum((count(a.steps) for a in answers), Counters())
    if recorded != counted:
        found.append(f"recorded {recorded}, the server counted {counted}")
    return found


def mean_ms(seconds: Sequence[float]) -> float | None:
    """The mean of some times, in ms."""
    return round(1000 * statistics.fmean(seconds), 3) if seconds else None


async def traces(client: LaneClient, number: int, concurrency: int, tokens: int) -> Made:
    """Whether every trace is complete, and how fast all that was."""
    before = await settled(client)
    began = time.perf_counter()
    answers = await ask_all(client, prompts(number), concurrency, tokens)
    seconds = time.perf_counter() - began
    counted = (await settled(client)).counters - before.counters
    found = faults(answers, counted)
    steps = [step for a in answers for step in a.steps if not step.prefill]
    written = sum(a.end.num_output_tokens for a in answers)
    al = counted.acceptance_length
    figures = {
        "answers": len(answers),
        "agree": sum(a.end.check.agrees is True for a in answers),
        "uncounted": sum(a.end.check.agrees is None for a in answers),
        "al": al and round(al, 3),
        "tokens_per_s": round(written / seconds, 1),
        "decode_tokens_per_s": round(statistics.median(a.speed for a in answers), 1),
        "draft_ms": mean_ms([step.draft_s for step in steps if step.drafted]),
        "verify_ms": mean_ms([step.verify_s for step in steps]),
        "max_batch": max((step.batch_size for step in steps), default=0),
        "faults": found[:5],
    }
    words = [f"{len(answers)} traces, {len(found)} faults", f"{figures['tokens_per_s']:,} tokens/s"]
    words += [f"AL {al:.2f}"] if al else []
    words += [f"draft {figures['draft_ms']} ms"] if figures["draft_ms"] else []
    words += [f"verify {figures['verify_ms']} ms", *found[:1]]
    return not found, ", ".join(words), figures


async def overhead(client: LaneClient, asked: Sequence[str], tokens: int, limit: float) -> Made:
    """Decode speed without hooks, with them, with probabilities: prompt by prompt, in changing order,
    as long as the limit (s) allows."""
    modes = {"off": (False, 0), "on": (True, 0), "top": (True, TOP_K)}
    rows: list[dict[str, Tally]] = []
    ends = time.monotonic() + limit
    async with client.http() as http:
        for i, prompt in enumerate(asked):
            row = {name: Tally() for name in modes}
            for name in random.Random(i).sample(list(modes), len(modes)):
                hooks, top_k = modes[name]
                await ask(http, prompt, WARM_TOKENS, 0, Tally())
                async with watched(http, hooks):
                    await ask(http, prompt, tokens, top_k, row[name])
            rows.append(row)
            if time.monotonic() > ends:
                break
    speeds = {name: sum((row[name] for row in rows), Tally()).speed for name in modes}
    on, top = speeds["on"] / speeds["off"], speeds["top"] / speeds["off"]
    figures = {f"{name}_tokens_per_s": round(speed, 1) for name, speed in speeds.items()}
    figures |= {"on": round(on, 4), "top": round(top, 4), "prompts": len(rows)}
    # A share of each prompt's own speed: what the host does meanwhile moves it less.
    for name in ("on", "top"):
        shares = [
            row[name].speed / row["off"].speed for row in rows if row["off"].tokens and row[name].tokens
        ]
        figures[f"{name}_median"] = round(statistics.median(shares), 4)
    shown = (
        f"{speeds['off']:.0f} tokens/s without hooks; with {on:.3f} of that, with top-{TOP_K} {top:.3f} "
        f"(medians over {len(rows)} prompts {figures['on_median']}, {figures['top_median']})"
    )
    return on >= HOOKS_SHARE and top >= TOP_K_SHARE, shown, figures


async def probabilities(client: LaneClient, drafter: bool) -> Made:
    """Whether a request that asks gets the target's probabilities, and they fit what happened; and
    the drafter's, where the engine keeps them."""
    got = await answer(client, prompts(1)[0], 32, TOP_K)
    drafted = [step for step in got.steps if step.drafted]
    places = [(step, i) for step in got.steps for i in range(len(step.emitted))]
    # At temperature 0 what was emitted is the target's favourite, or one of several.
    right = sum(_favoured(step, i) for step, i in places)
    theirs = sum(len(p.drafter) == TOP_K for s in drafted for p in s.positions[: s.num_drafted])
    wanted = sum(step.num_drafted for step in drafted)
    shown = f"target {right} of {len(places)} positions, drafter {theirs} of {wanted}"
    return right == len(places) and (theirs == wanted or not drafter), shown, {}


def _favoured(step: Step, i: int) -> bool:
    tops = step.positions[i].target if step.positions else []
    return any(top.id == step.emitted[i] and top.p == tops[0].p for top in tops)


def used_memory_mb() -> int | None:
    """Of the first GPU; None where nobody can say."""
    command = ["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits"]
    with contextlib.suppress(OSError, subprocess.SubprocessError, ValueError, IndexError):
        out = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True).stdout
        return int(out.split()[0])
    return None


async def sleep_and_wake(client: LaneClient, number: int, tokens: int) -> Made:
    """Sleep level 1 and back: memory, times, and the acceptance length before and after."""

    async def al() -> float:
        before = await settled(client)
        await ask_all(client, prompts(number), 8, tokens)
        return ((await settled(client)).counters - before.counters).acceptance_length or 0.0

    async def post(http: httpx.AsyncClient, route: str) -> float:
        began = time.perf_counter()
        (await http.post(route, timeout=60.0)).raise_for_status()
        return round(time.perf_counter() - began, 2)

    before, awake = await al(), used_memory_mb()
    async with client.http() as http:
        sleep_s = await post(http, "/sleep?level=1")
        asleep = used_memory_mb()
        wake_s = await post(http, "/wake_up")
    after = await al()
    figures: dict[str, Any] = {"before": round(before, 3), "after": round(after, 3)}
    figures |= {"sleep_s": sleep_s, "wake_s": wake_s, "awake_mb": awake, "asleep_mb": asleep}
    shown = (
        f"AL {before:.3f} before, {after:.3f} after; {awake} -> {asleep} MB on the GPU; sleep {sleep_s} s, "
        f"wake {wake_s} s"
    )
    return before > 1 and abs(after / before - 1) <= SLEEP_TOLERANCE, shown, figures


@contextlib.asynccontextmanager
async def engine(checks: Checks, spec: LaneSpec, name: str) -> AsyncIterator[LaneClient | None]:
    """The lane's engine, or None when it does not start; ended afterwards in any case."""
    async with contextlib.AsyncExitStack() as stack:
        started: list[LaneClient] = []

        async def start() -> Made:
            client = await stack.enter_async_context(OwnEngines().ready(spec, 1, Once()))
            started.append(client)
            shown = client.fingerprint
            words = [f"{shown.model_runner} runner", f"graphs {shown.graph_mode}"]
            words += [f"async scheduling {shown.async_scheduling}", shown.device or ""]
            return True, ", ".join(words), {"versions": shown.versions}

        if not await checks.run(f"{name}: start", START_LIMIT_S, start):
            say(last_log(spec.name))
        yield started[0] if started else None


def last_log(lane: str) -> str:
    """The end of the newest log of a lane's server."""
    logs = sorted((cache_dir() / "logs").glob(f"{lane}-*.log"), key=lambda log: log.stat().st_mtime)
    return logs[-1].read_text(errors="replace")[-6000:] if logs else "there is no log"


async def check_lane(checks: Checks, spec: LaneSpec, options: argparse.Namespace, timed: bool) -> None:
    """Everything about one lane."""
    async with engine(checks, spec, spec.name) as client:
        if client is None:
            return
        for number, concurrency in ((options.prompts, 1), (options.many, options.many)):
            check = functools.partial(traces, client, number, concurrency, options.tokens)
            await checks.run(f"{spec.name}: traces, {concurrency} at once", TRACES_LIMIT_S, check)
        drafter = client.fingerprint.draft_sample_method == "probabilistic"
        check = functools.partial(probabilities, client, drafter)
        await checks.run(f"{spec.name}: top-{TOP_K}", TRACES_LIMIT_S, check)
        if timed:
            limit = min(SPEED_LIMIT_S, checks.seconds_left - MARGIN_S)
            asked = prompts(options.prompts * ROUNDS)
            check = functools.partial(overhead, client, asked, options.tokens, limit - MARGIN_S)
            await checks.run(f"{spec.name}: what hooks cost", limit, check)


async def check_sleep(checks: Checks, spec: LaneSpec, options: argparse.Namespace) -> None:
    """The first lane once more, with an engine that may sleep."""
    sleepy = msgspec.structs.replace(
        spec,
        engine={**spec.engine, "enable-sleep-mode": True},
        environment={**spec.environment, "VLLM_SERVER_DEV_MODE": "1"},
    )
    async with engine(checks, sleepy, f"{spec.name} with sleep mode") as client:
        if client is not None:
            check = functools.partial(sleep_and_wake, client, options.prompts, options.tokens)
            await checks.run(f"{spec.name}: sleep and wake", SLEEP_LIMIT_S, check)


async def verify(options: argparse.Namespace) -> list[Check]:
    """Run all checks and print their table."""
    checks = Checks(options.seconds)
    if options.gguf is not None:
        await checks.run("embedded target", START_LIMIT_S, lambda: convert(options.gguf))
    lanes = [
        spec for spec in load_preset(options.preset).lanes if not options.lane or spec.name in options.lane
    ]
    for i, spec in enumerate(lanes):
        await check_lane(checks, spec, options, timed=i == 0 or spec.method == PLAIN)
    if lanes and not options.no_sleep:
        await check_sleep(checks, lanes[0], options)
    print(f"\n{checks.table()}", flush=True)
    return checks.done


def main() -> int:
    """Parse the command line; 0 when everything passed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--gguf", type=Path, help=f"the folder that holds {GGUF_FILE}, to convert it")
    parser.add_argument("--preset", default="embedded-cuda")
    parser.add_argument("--lane", nargs="*", help="only these lanes of the preset")
    parser.add_argument("--prompts", type=int, default=24, help="prompts that are asked one at a time")
    parser.add_argument("--many", type=int, default=128, help="requests at once")
    parser.add_argument("--tokens", type=int, default=128, help="answer tokens at most")
    parser.add_argument("--seconds", type=float, default=470.0, help="the whole run's time limit")
    parser.add_argument("--no-sleep", action="store_true", help="leave sleep mode out")
    done = asyncio.run(verify(parser.parse_args()))
    return 0 if done and all(check.passed for check in done) else 1


if __name__ == "__main__":
    sys.exit(main())
