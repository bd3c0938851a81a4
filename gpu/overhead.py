"""What the hooks cost: the time between an answer's pieces without them, with them, with probabilities.

In one server process, in changing order, and once more without hooks as a control, which shows how far two
of the same kind differ. Each way is warm when it is measured. No piece is left out: what the hooks cost may
lie in a few. A host's own noise can be larger than what is asked for, so the prompts are asked again until
the shares are settled, as long as there is time.
"""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Sequence
from typing import Any

import httpx

from dflash_viz.bench.speed import TOP_K, WARM_TOKENS, Tally, ask, watched
from dflash_viz.hooks.wire import TOP_K_ARG
from dflash_viz.lanes import LaneClient
from dflash_viz.lanes.server import MODEL_NAME
from dflash_viz.metrics.measured.bootstrap import Estimate, paired_ratio
from gpu.asking import GREEDY
from gpu.checks import Made

# Decode speed with hooks over without: tokens only, and with probabilities.
HOOKS_SHARE, TOP_K_SHARE = 0.98, 0.95
# The shares are settled when their 95 % intervals reach no further to either side.
SETTLED = 0.01
# How each way is asked: with hooks, with so many probabilities.
WAYS = {"off": (False, 0), "control": (False, 0), "on": (True, 0), "top": (True, TOP_K)}
# Prompts that one way is asked before the next one is set up.
TOGETHER = 3

Pieces = tuple[float, int]
"""The seconds between an answer's pieces, and their number."""


async def pieces(http: httpx.AsyncClient, prompt: str, tokens: int, top_k: int) -> Pieces:
    """Ask one prompt, greedily: the time from the first piece of its answer to the last."""
    body: dict[str, Any] = {
        "model": MODEL_NAME,
        "messages": [{"role": "user", "content": prompt}],
        "temperature": GREEDY,
        "max_tokens": tokens,
        "stream": True,
    }
    if top_k:
        body["vllm_xargs"] = {TOP_K_ARG: top_k}
    times = []
    async with http.stream("POST", "/v1/chat/completions", json=body) as answer:
        async for line in answer.aiter_lines():
            if '"content":"' in line and '"content":""' not in line:
                times.append(time.perf_counter())
    return times[-1] - times[0], len(times) - 1


async def overhead(client: LaneClient, asked: Sequence[str], tokens: int, limit: float) -> Made:
    """Every way for every prompt, and again until the shares are settled, as long as the limit (s) allows."""
    found: dict[str, list[Pieces]] = {way: [] for way in WAYS}
    ends = time.monotonic() + limit
    async with client.http() as http:
        for i in itertools.count():
            began = time.monotonic()
            group = [asked[(i * TOGETHER + j) % len(asked)] for j in range(TOGETHER)]
            for way in random.Random(i).sample(list(WAYS), len(WAYS)):
                hooks, top_k = WAYS[way]
                async with watched(http, hooks):
                    await ask(http, group[-1], 2 * WARM_TOKENS, top_k, Tally())
                    found[way] += [await pieces(http, prompt, tokens, top_k) for prompt in group]
            now = time.monotonic()
            if 2 * now - began > ends or (len(found["off"]) >= len(asked) and settled(shares(found))):
                break
        async with watched(http, True):  # whoever has the client expects them
            pass
    return judge(found)


def judge(found: dict[str, list[Pieces]]) -> Made:
    """Whether the hooks are as cheap as they should be; shares are of the speed without them."""
    seen = shares(found)
    seconds, number = map(sum, zip(*found["off"], strict=True))
    figures: dict[str, Any] = {"answers": len(found["off"]), "piece_ms": round(1000 * seconds / number, 4)}
    figures |= {way: [round(part, 4) for part in _parts(e)] for way, e in seen.items()}
    shown = (
        f"{figures['piece_ms']:.2f} ms a piece without hooks; speed with them {_words(seen['on'])} of "
        f"that, with top-{TOP_K} {_words(seen['top'])}, without them again {_words(seen['control'])} "
        f"({figures['answers']} answers each way{'' if settled(seen) else '; not settled'})"
    )
    good = seen["on"].value >= HOOKS_SHARE and seen["top"].value >= TOP_K_SHARE
    return good, shown, figures


def shares(found: dict[str, list[Pieces]]) -> dict[str, Estimate]:
    """The speed of every way over that without hooks."""
    return {way: share(found["off"], found[way]) for way in WAYS if way != "off"}


def settled(seen: dict[str, Estimate]) -> bool:
    """Whether more answers would change the shares of both ways with hooks little."""
    return all(
        e.low is not None and e.high is not None and e.high - e.low <= 2 * SETTLED
        for e in (seen["on"], seen["top"])
    )


def share(off: Sequence[Pieces], other: Sequence[Pieces]) -> Estimate:
    """Speed of the one way over that without hooks, over all prompts, with its interval."""
    columns = [*map(list, zip(*other, strict=True)), *map(list, zip(*off, strict=True))]
    seconds, number, seconds_off, number_off = columns
    made = paired_ratio(number, seconds, number_off, seconds_off)
    assert made is not None
    return made


def _parts(estimate: Estimate) -> list[float]:
    return [part for part in (estimate.value, estimate.low, estimate.high) if part is not None]


def _words(estimate: Estimate) -> str:
    value, *bounds = (f"{part:.3f}" for part in _parts(estimate))
    return f"{value} [{', '.join(bounds)}]" if bounds else value
