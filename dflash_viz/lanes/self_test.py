"""A fixed question whose acceptance length tells whether a drafter is still whole after its engine slept.

Drafts are what a damaged sleep costs (vllm#52479, #55013), and nothing else shows it: the text stays the
target's own. Nothing is compared where nothing is drafted. The text itself would be no better sign there:
in half precision a near-tie may fall the other way in an engine that was started anew.
"""

from __future__ import annotations

import asyncio

from dflash_viz.lanes.client import LaneClient
from dflash_viz.lanes.errors import LaneError
from dflash_viz.trace import End, Message, Sampling, Step

# A list to repeat: n-gram has something to copy, too.
QUESTION = [
    Message(
        "user",
        "Repeat this list three times, word for word: apples, oranges, bananas, grapes, lemons, cherries.",
    )
]
MAX_TOKENS = 64
# The share of the AL before that is needed, and how far it may be off to count as the same.
NEEDED, SAME = 0.9, 0.02
# An answer takes seconds; the very first one may have kernels to compile.
TIME_LIMIT_S = 120.0


def measure_al(client: LaneClient) -> float | None:
    """The pooled AL of the greedy answer; None where nothing is drafted.

    Raises ``LaneError`` when the engine does not answer, or not within the time limit: nobody else watches
    an engine that wakes, and the other lanes wait for it. Not to be called inside an event loop.
    """
    return asyncio.run(_within_limit(client))


async def _within_limit(client: LaneClient) -> float | None:
    try:
        async with asyncio.timeout(TIME_LIMIT_S):
            return await _measure_al(client)
    except TimeoutError as error:
        raise LaneError(
            f"The engine did not answer the test of its drafts within {TIME_LIMIT_S:g} s."
        ) from error


async def _measure_al(client: LaneClient) -> float | None:
    accepted: list[int] = []
    end: End | None = None
    async for line in client.run(QUESTION, Sampling(temperature=0.0, max_tokens=MAX_TOKENS)):
        if isinstance(line, Step) and line.drafted:
            accepted.append(line.num_accepted)
        elif isinstance(line, End):
            end = line
    assert end is not None
    if end.error is not None:
        raise LaneError(end.error)
    drafts, total = len(accepted), sum(accepted)
    if client.counts_only:
        drafts, total = _counted(end)
    return 1 + total / drafts if drafts else None


def _counted(end: End) -> tuple[int, int]:
    """Drafts and accepted tokens as the engine counted them."""
    if end.engine_drafted or end.window is None:
        return len(end.engine_drafted), sum(end.engine_accepted)
    return end.window.num_drafts or 0, end.window.num_accepted or 0


def is_worse(before: float | None, now: float | None) -> bool:
    """Whether an AL is too far below what it was before."""
    return before is not None and (now is None or now < NEEDED * before)


def al_words(before: float | None, now: float | None) -> str:
    """Both in words; nothing where nothing was drafted before."""
    if before is None:
        return ""
    if now is None:
        return f"no drafts, AL {before:.2f} before"
    same = abs(now / before - 1) <= SAME
    return f"AL {now:.2f} as before" if same else f"AL {now:.2f}, {before:.2f} before"
