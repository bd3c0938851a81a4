"""What a smaller K would have brought: an estimate from the blocks that were recorded.

From a block of which ``num_accepted`` tokens were accepted, a block of k tokens would have had
min(num_accepted, k) accepted. That holds for one block; for a whole answer it is an estimate:

- The next block would have begun elsewhere. Where drafting is easy, shorter blocks cover the same text
  with more of them, so easy places weigh more than they do here: the estimate is rather too low.
- A drafter that drafts token after token says the same first k tokens whatever K is. DFlash's block is
  not causal: its mask slots see one another, the later ones too, so another K can change the draft.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from dflash_viz.metrics.figures import mean_verify_s
from dflash_viz.metrics.pool import alone, plain_partners, pooled_speed, require_one_lane
from dflash_viz.metrics.stats import mean
from dflash_viz.trace import Step, Trace

MIN_BLOCKS = 20
"""Blocks before a K is suggested: below, one lucky block moves the AL by a tenth and more."""
CLOSE = 0.02
"""How near to the best AL is as good: 2 %, less than AL differs between two sets of a few dozen blocks."""
TOKEN_BY_TOKEN = ("eagle", "eagle3", "mtp", "draft_model")
"""Methods of vLLM whose drafter takes one pass a token: a shorter block costs fewer passes."""


@dataclass(frozen=True)
class Smaller:
    """What blocks of ``k`` drafted tokens would have brought: AL, and decode speed in tokens/s.

    ``speed`` is None where the traces' times are not their own, or nothing was timed.
    """

    k: int
    al: float
    speed: float | None


@dataclass(frozen=True)
class WhatIf:
    """The estimates for every k from 1 to the recorded K (the last is what was measured).

    ``suggested`` is None while there is too little evidence; ``reason`` says why this k or none.
    ``plain_speed`` is the measured decode speed without speculation, if it was given.
    """

    recorded: int
    blocks: int
    rows: tuple[Smaller, ...]
    suggested: int | None
    reason: str
    assumptions: tuple[str, ...]
    plain_speed: float | None = None


def what_if(traces: Sequence[Trace], plain: Sequence[Trace] = ()) -> WhatIf:
    """AL and speed for every smaller K, from the blocks in the traces of one lane.

    Traces without speculation of the same target and device tell what a shorter block saves. Raises
    ``MixedTracesError`` when the traces are of several lanes.
    """
    require_one_lane(traces)
    blocks = _blocks(traces)
    recorded = max((step.num_drafted for step in blocks), default=0)
    accepted = Counter(step.num_accepted for step in blocks)
    timed = [trace for trace in traces if alone(trace)]
    partners = plain_partners(timed[0], plain) if timed else []
    saving, sums = _saving_per_token(timed, partners), _Sums.of(timed)
    rows = tuple(
        Smaller(
            k,
            1 + sum(min(n, k) * steps for n, steps in accepted.items()) / len(blocks),
            sums.speed(k, saving),
        )
        for k in range(1, recorded + 1)
    )
    plain_speed = pooled_speed(partners)
    suggested, reason = _suggest(rows, len(blocks), saving is not None, plain_speed)
    return WhatIf(
        recorded, len(blocks), rows, suggested, reason, _assumptions(traces, timed, saving), plain_speed
    )


@dataclass(frozen=True)
class _Sums:
    """What the speed with any k follows from: over the steps after prefill their seconds, how many emitted
    so many tokens, and how many drafted so many, with the draft seconds that a pass a token would save."""

    seconds: float
    emitted: Counter[int]
    drafted: Counter[int]
    passes_s: dict[int, float]

    @staticmethod
    def of(traces: Sequence[Trace]) -> _Sums:
        steps = [step for trace in traces for step in trace.decode_steps]
        passes_s: dict[int, float] = {}
        if traces and _token_by_token(traces[0]):
            for step in steps:
                passes_s[step.num_drafted] = passes_s.get(step.num_drafted, 0.0) + step.draft_s
        return _Sums(
            sum(step.end - step.start for step in steps),
            Counter(len(step.emitted) for step in steps),
            Counter(step.num_drafted for step in steps),
            passes_s,
        )

    def speed(self, k: int, saving: float | None) -> float | None:
        """Tokens/s with blocks of at most k drafted tokens; steps without a draft stay as they are.

        ``saving`` are the seconds that verifying one drafted token less saves; without it every step keeps
        its time, which is the longest that it could take.
        """
        tokens = sum(min(n, 1 + k) * steps for n, steps in self.emitted.items())
        seconds = self.seconds
        if saving is not None:
            seconds -= saving * sum((n - k) * steps for n, steps in self.drafted.items() if n > k)
            seconds -= sum(draft_s * (n - k) / n for n, draft_s in self.passes_s.items() if n > k)
        return tokens / seconds if seconds > 0 else None


def _saving_per_token(traces: Sequence[Trace], plain: Sequence[Trace]) -> float | None:
    """Seconds of verify time that one drafted token less saves: the line between one token and a block.

    Never negative: a plain step that takes longer than a block's is noise. None without both ends.
    """
    blocks = _blocks(traces)
    one = mean_verify_s([step for trace in plain for step in trace.steps])
    if not blocks or one is None:
        return None
    slope = (mean([s.verify_s for s in blocks]) - one) / mean([s.num_drafted for s in blocks])
    return max(0.0, slope)


def _blocks(traces: Sequence[Trace]) -> list[Step]:
    return [step for trace in traces for step in trace.steps if step.drafted]


def _token_by_token(trace: Trace) -> bool:
    return trace.header.fingerprint.method in TOKEN_BY_TOKEN


def _suggest(
    rows: Sequence[Smaller], blocks: int, timed: bool, plain_speed: float | None
) -> tuple[int | None, str]:
    if blocks < MIN_BLOCKS:
        return None, f"Too little to suggest a K: {blocks} blocks; {MIN_BLOCKS} are the least."
    speeds = {row.k: row.speed for row in rows if row.speed is not None}
    if not timed or not speeds:
        best = max(row.al for row in rows)
        near = next(row for row in rows if row.al >= best * (1 - CLOSE))
        return near.k, (
            f"K = {near.k} is the smallest whose estimated AL ({near.al:.2f}) is within {CLOSE:.0%} of the "
            f"best ({best:.2f}). What a shorter block saves is not known without a run of no speculation."
        )
    k = max(speeds, key=lambda one: speeds[one])
    reason = (
        f"The estimated speed is best at K = {k}: {speeds[k]:.1f} tokens/s, against "
        f"{speeds[rows[-1].k]:.1f} at the recorded K = {rows[-1].k}."
    )
    if plain_speed is not None and plain_speed > speeds[k]:
        reason += f" No speculation is faster than any of them: {plain_speed:.1f} tokens/s."
    return k, reason


def _assumptions(traces: Sequence[Trace], timed: Sequence[Trace], saving: float | None) -> tuple[str, ...]:
    said = [
        "An estimate: AL(k) = 1 + mean of min(accepted tokens, k) over the recorded blocks. With another K "
        "the blocks would begin elsewhere; easy text would be covered by more and shorter blocks and weigh "
        "more, so a smaller K is rather better than shown."
    ]
    engine = traces[0].header.fingerprint if traces else None
    if engine and engine.method == "dflash" and not (engine.drafter and engine.drafter.causal):
        said.append(
            "DFlash's mask slots see one another, later ones too: with another K the drafter could draft "
            "other tokens, also at the first positions. Only a run with that K tells."
        )
    if not timed:
        said.append("No speeds: these requests shared the machine with others.")
    elif saving is None:
        said.append(
            "Speeds assume that a step takes as long as with the recorded K. A shorter block takes less, so "
            "these are the least that a smaller K would reach."
        )
    else:
        said.append(
            f"Speeds assume that verifying costs {saving * 1000:.1f} ms less per drafted token (the line "
            "between a step of no speculation and a recorded block), and that drafting costs "
            + ("a pass less per token." if _token_by_token(traces[0]) else "the same for any K.")
        )
    return tuple(said)
