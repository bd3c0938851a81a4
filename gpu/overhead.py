"""What the hooks cost: the time between an answer's pieces without them, with them, with probabilities.

In one server process, in changing order, and once more without hooks as a control, which shows how far two
of the same kind differ. Each way is warm when it is measured. No piece is left out: what the hooks cost may
lie in a few.
"""

from __future__ import annotations

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
    """Every way for every prompt, as long as the limit (s) allows."""
    found: dict[str, list[Pieces]] = {way: [] for way in WAYS}
    ends = time.monotonic() + limit
    async with client.http() as http:
        for i in range(0, len(asked), TOGETHER):
            group = asked[i : i + TOGETHER]
            for way in random.Random(i).sample(list(WAYS), len(WAYS)):
                hooks, top_k = WAYS[way]
                async with watched(http, hooks):
                    await ask(http, group[-1], 2 * WARM_TOKENS, top_k, Tally())
                    found[way] += [await pieces(http, prompt, tokens, top_k) for prompt in group]
            if time.monotonic() > ends:
                break
        async with watched(http, True):  # whoever has the client expects them
            pass
    return judge(found)


def judge(found: dict[str, list[Pieces]]) -> Made:
    """Whether the hooks are as cheap as they should be; shares are of the speed without them."""
    shares = {way: share(found["off"], found[way]) for way in WAYS if way != "off"}
    seconds, number = map(sum, zip(*found["off"], strict=True))
    figures: dict[str, Any] = {"prompts": len(found["off"]), "piece_ms": round(1000 * seconds / number, 4)}
    figures |= {way: [round(part, 4) for part in _parts(e)] for way, e in shares.items()}
    shown = (
        f"{figures['piece_ms']:.2f} ms a piece without hooks; speed with them {_words(shares['on'])} of "
        f"that, with top-{TOP_K} {_words(shares['top'])}, without them again {_words(shares['control'])} "
        f"({figures['prompts']} prompts)"
    )
    good = shares["on"].value >= HOOKS_SHARE and shares["top"].value >= TOP_K_SHARE
    return good, shown, figures


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
