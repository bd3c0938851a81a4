"""Rules on the traces of one lane: what is probably wrong, with the numbers that show it.

A rule finds nothing when there is too little to judge by: short answers fire none. Sources of the
rules are reports of people who run DFlash and vLLM's speculation; each threshold states its reason
where it is defined.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dflash_viz.metrics.pool import require_one_lane
from dflash_viz.metrics.rules.acceptance import collapse, position_zero, small_block, uniformly_low
from dflash_viz.metrics.rules.case import MIN_BLOCKS, Case, Finding
from dflash_viz.metrics.rules.course import LONG, decay, repetition
from dflash_viz.metrics.rules.speed import slower
from dflash_viz.trace import Trace


@dataclass(frozen=True)
class Rule:
    """One thing that is looked for: its name, what it asks, and what it needs to judge at all."""

    key: str
    question: str
    needs: str
    check: Callable[[Case], Finding | None]


RULES = (
    Rule(
        "position_zero", "Is the first drafted token nearly never right although the text is good?",
        f"{MIN_BLOCKS} blocks of a drafting model, in answers that look like text", position_zero,
    ),
    Rule(
        "collapse", "Does acceptance collapse after the first drafted token?",
        f"{MIN_BLOCKS} blocks of a drafting model that got past the first position", collapse,
    ),
    Rule(
        "uniformly_low", "Is acceptance low at every position?",
        f"{MIN_BLOCKS} blocks of a drafting model", uniformly_low,
    ),
    Rule(
        "small_block", "Is K far below the block that the drafter was trained with?",
        f"{MIN_BLOCKS} blocks, and a trained block size in the fingerprint", small_block,
    ),
    Rule(
        "repetition", "Is the AL high because the answer repeats itself?",
        f"{LONG} tokens and {MIN_BLOCKS} blocks in repeating answers", repetition,
    ),
    Rule(
        "decay", "Does the AL fall as the answer grows?",
        f"{MIN_BLOCKS} blocks each in the first and the last third of an answer", decay,
    ),
    Rule(
        "slower", "Is it slower than no speculation in spite of a good AL?",
        f"{MIN_BLOCKS} blocks, and a run of the same prompt without speculation, each alone on the device",
        slower,
    ),
)  # fmt: skip


def diagnose(traces: Sequence[Trace], plain: Sequence[Trace] = ()) -> list[Finding]:
    """What the rules find in the traces of one lane, in the order of ``RULES``.

    ``plain`` are runs of the same prompts without speculation, for the rule on speed. Raises
    ``MixedTracesError`` when the traces are of several lanes.
    """
    require_one_lane(traces)
    if not traces:
        return []
    case = Case(tuple(traces), tuple(plain))
    return [finding for rule in RULES if (finding := rule.check(case)) is not None]
