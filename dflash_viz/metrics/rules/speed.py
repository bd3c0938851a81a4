"""The rule on speed: drafting that goes well and still does not pay."""

from __future__ import annotations

from dflash_viz.metrics.figures import (
    break_even_length,
    draft_share,
    mean_draft_s,
    mean_verify_s,
    tokens_per_engine_step,
)
from dflash_viz.metrics.pool import alone, plain_partners, pooled_speed
from dflash_viz.metrics.rules.case import MIN_BLOCKS, Case, Finding
from dflash_viz.metrics.tally import Tally
from dflash_viz.trace import Trace

SLOWER = 0.95
"""Speedup under which a lane is called slower: two runs of one lane differ by a few per cent."""
GOOD_AL = 1.5
"""AL from which drafting itself works: half a token a block for nothing but its cost."""
DEAR_DRAFT = 0.3
"""Share of the time that drafting may take; DFlash and EAGLE-3 take 0.1 to 0.2 on the embedded models."""
DEAR_VERIFY = 1.5
"""A block's verify time over a plain step's. Where memory bounds the speed a block costs little more."""
RARE = 0.5
"""Share of the steps that draft, under which the AL speaks for a minority."""


def slower(case: Case) -> Finding | None:
    """The lane is slower than no speculation although its AL is good."""
    pairs = [(trace, partner) for trace in case.traces if (partner := _partner(trace, case)) is not None]
    ours, plain = [trace for trace, _ in pairs], [partner for _, partner in pairs]
    own, speeds = Case(tuple(ours)), (pooled_speed(ours), pooled_speed(plain))
    length = own.counters.acceptance_length
    if len(own.blocks) < MIN_BLOCKS or length is None or length <= GOOD_AL:
        return None
    if speeds[0] is None or speeds[1] is None or speeds[0] >= SLOWER * speeds[1]:
        return None
    steps, without = _tally(ours), _tally(plain)
    return Finding(
        "slower",
        "Slower than no speculation in spite of a good AL",
        "The drafts are good, but a step costs more than the tokens that it saves. Whether drafting pays is "
        "the break-even AL's to say, not the AL's.",
        (
            f"Decode speed {speeds[0]:.1f} tokens/s, without speculation {speeds[1]:.1f}: speedup "
            f"{speeds[0] / speeds[1]:.2f} over {len(pairs)} {'prompt' if len(pairs) == 1 else 'prompts'}.",
            own.al_sentence,
            f"Tokens per engine step {tokens_per_engine_step(steps) or 0:.2f}, break-even AL "
            f"{break_even_length(steps, without) or 0:.2f}.",
            f"Drafting takes {(mean_draft_s(steps) or 0) * 1000:.1f} ms a block, "
            f"{draft_share(steps) or 0:.0%} of the time.",
            f"Verifying takes {(mean_verify_s(steps) or 0) * 1000:.1f} ms a step, a plain step "
            f"{(mean_verify_s(without) or 0) * 1000:.1f} ms.",
        ),
        _advice(own, steps, without),
    )


def _partner(trace: Trace, case: Case) -> Trace | None:
    """The run of the same prompt without speculation, where both had the machine to themselves."""
    same = [p for p in case.plain if p.header.prompt_token_ids == trace.header.prompt_token_ids]
    return next(iter(plain_partners(trace, same)), None) if alone(trace) else None


def _tally(traces: list[Trace]) -> Tally:
    return Tally.of([step for trace in traces for step in trace.steps])


def _advice(case: Case, steps: Tally, plain: Tally) -> str:
    """What the numbers point at, the largest cost first."""
    advice = []
    if len(case.blocks) < RARE * steps.num_steps:
        advice.append(
            "Most steps draft nothing, so the AL speaks for few of them: try a method that always drafts."
        )
    if (draft_share(steps) or 0) > DEAR_DRAFT:
        advice.append(
            "Drafting is dear: try a smaller drafter, one that drafts in one pass, or CUDA graphs for it."
        )
    if (mean_verify_s(steps) or 0) > DEAR_VERIFY * (mean_verify_s(plain) or 0):
        advice.append(
            "Verifying a block costs much more than a token: try a smaller K, fewer requests at once, or a "
            "number format and attention backend that this device computes quickly."
        )
    return (
        " ".join(advice)
        or "The engine's own work makes the difference: try CUDA graphs instead of eager mode."
    )
