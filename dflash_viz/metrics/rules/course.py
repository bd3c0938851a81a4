"""Rules on the course of an answer: repetition that flatters the AL, and an AL that falls off."""

from __future__ import annotations

from dflash_viz.metrics.rules.case import MIN_BLOCKS, Case, Finding, distinct_share
from dflash_viz.metrics.stats import mean, z_score
from dflash_viz.trace import Step, Trace

RUN = 4
"""Tokens in a run: three repeat in ordinary prose (names, set phrases), four seldom do."""
REPEATED = 0.5
"""Under half of the runs distinct: the answer is written more than twice over. Prose has over 0.9."""
HIGH_RATE = 0.6
"""Acceptance rate that calls for a reason; published averages reach 0.55 (AL 3.8 with K = 5)."""
LONG = 64
"""Answer tokens before repetition is judged: a short list or table repeats its own pattern."""
FALL = 0.8
"""The last third's AL against the first's. Published: 0.74 from 1K to 16K of context."""
CLEARLY = 3.0
"""Standard errors between the thirds. Two would do for independent blocks, but neighbours are alike (easy
text comes in stretches), which makes the error look smaller than it is."""


def repetition(case: Case) -> Finding | None:
    """The AL is high because the answer repeats itself."""
    own = Case(tuple(trace for trace in case.traces if _repeats(trace)))
    rate = own.counters.acceptance_rate
    if len(own.blocks) < MIN_BLOCKS or rate is None or rate < HIGH_RATE:
        return None
    shares = [distinct_share(trace.output_token_ids, RUN) for trace in own.traces]
    others = Case(tuple(trace for trace in case.traces if not _repeats(trace)))
    return Finding(
        "repetition",
        "The AL is high because the text repeats itself",
        "An answer that goes round in circles is easy to draft, so its AL says nothing about other text. It "
        "is the target that repeats; speculation only makes it faster.",
        (
            f"{len(shares)} of {len(case.traces)} answers repeat; distinct runs of {RUN} tokens: "
            f"{', '.join(f'{one:.0%}' for one in shares)} (ordinary text: over 90 %).",
            own.al_sentence,
            f"The other answers: {others.al_sentence}"
            if others.blocks
            else "No other answer to compare with.",
        ),
        "Leave such answers out of averages. Against the repetition itself: a temperature above 0, another "
        "prompt, or a larger target.",
    )


def decay(case: Case) -> Finding | None:
    """The AL falls as the answer grows."""
    thirds = [cut for trace in case.traces if (cut := _thirds(trace)) is not None]
    early = [step.num_accepted for first, _ in thirds for step in first]
    late = [step.num_accepted for _, last in thirds for step in last]
    if not thirds:
        return None
    before, after, z = 1 + mean(early), 1 + mean(late), z_score(early, late)
    if after > FALL * before or z < CLEARLY:
        return None
    longest = max(len(trace.header.prompt_token_ids) + len(trace.output_token_ids) for trace in case.traces)
    return Finding(
        "decay",
        "The AL falls as the answer grows",
        "Blocks late in the answer are accepted less than early ones. Drafters lose hold of long contexts "
        "(they are trained on short ones), and a text can also grow harder; only other long answers tell "
        "these apart.",
        (
            f"AL {before:.2f} in the first third of the answer's tokens ({len(early)} blocks), {after:.2f} "
            f"in the last ({len(late)} blocks).",
            f"The difference is {z:.1f} standard errors; at least {CLEARLY:g} are asked for.",
            f"{len(thirds)} of {len(case.traces)} answers are long enough; the longest context is {longest}.",
        ),
        "See whether other long answers fall as well. If so, compare the context with the drafter's trained "
        "length, look for a sliding window in it, and measure speed at the length you need.",
    )


def _repeats(trace: Trace) -> bool:
    tokens = trace.output_token_ids
    return len(tokens) >= LONG and distinct_share(tokens, RUN) < REPEATED


def _thirds(trace: Trace) -> tuple[list[Step], list[Step]] | None:
    """The drafter's blocks in the first and the last third of the answer's tokens, if enough."""
    tokens = len(trace.output_token_ids)
    blocks = [step for step in trace.steps if step.drafted and not step.padded]
    first = [step for step in blocks if step.offset * 3 < tokens]
    last = [step for step in blocks if step.offset * 3 >= 2 * tokens]
    return (first, last) if min(len(first), len(last)) >= MIN_BLOCKS else None
