"""What the checks on a GPU ask the engines, and what they call a fault.

A trace is complete when its tokens are the answer's and its steps vLLM's own counts: each answer's, where
this vLLM reports them, and in any case the difference of the server's counters.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import statistics
import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from dflash_viz.bench.meter import settled
from dflash_viz.bench.prompts import KINDS
from dflash_viz.bench.speed import TOP_K
from dflash_viz.lanes import LaneClient
from dflash_viz.metrics import count
from dflash_viz.trace import End, Message, Sampling, Step
from dflash_viz.trace.counters import Counters
from dflash_viz.weights import resolve_model
from dflash_viz.weights.resolver import (
    EMBEDDED,
    GGUF_FILE,
    cache_dir,
    convert_gguf,
    embedded_target_dir,
)
from gpu.checks import Made, say

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


def last_log(lane: str) -> str:
    """The end of the newest log of a lane's server."""
    logs = sorted((cache_dir() / "logs").glob(f"{lane}-*.log"), key=lambda log: log.stat().st_mtime)
    return logs[-1].read_text(errors="replace")[-6000:] if logs else "there is no log"
