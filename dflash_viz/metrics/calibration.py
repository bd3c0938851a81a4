"""Whether the drafter knows when it is right: its own probability against what verification kept.

Only positions that verification reached count: position i of a block does when the i before it were
accepted. What comes after a rejection was verified against a text that was never written.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dflash_viz.metrics.figures import Figure
from dflash_viz.metrics.pool import drafters_blocks, require_one_lane
from dflash_viz.metrics.stats import mean, wilson
from dflash_viz.trace import Step, Trace

BINS = 10

CALIBRATION_FIGURES = (
    Figure(
        "ece", "expected calibration error", "",
        "Mean over all counted positions of how far their bin's accepted share lies from the bin's mean "
        "drafter probability. 0: the drafter is right as often as it says.",
    ),
    Figure(
        "brier", "Brier score", "",
        "Mean of (drafter probability - outcome)², where the outcome is 1 if the drafted token was accepted, "
        "else 0. 0 is best; 0.25 is what always saying 0.5 gets.",
    ),
    Figure(
        "mean_p", "mean drafter probability", "",
        "Mean of the probability that the drafter itself gave the token it drafted, at temperature 1 and "
        "before top-p, over the counted positions.",
    ),
    Figure(
        "accepted_share", "accepted share", "",
        "Accepted positions / counted positions. Counted are the drafted positions that verification "
        "reached: those before which everything was accepted.",
    ),
)  # fmt: skip


@dataclass(frozen=True)
class Bin:
    """The counted positions whose drafter probability lies from ``low`` to ``high`` (the upper end
    belongs to the next bin, 1 to the last). ``mean_p`` and ``share`` (accepted / n) are None while it is
    empty; ``interval`` is Wilson's 95 % interval of the share."""

    low: float
    high: float
    n: int
    mean_p: float | None
    share: float | None
    interval: tuple[float, float]

    @property
    def distance(self) -> float:
        """How far the accepted share lies from the mean probability; 0 while the bin is empty."""
        return abs(self.mean_p - self.share) if self.mean_p is not None and self.share is not None else 0.0


@dataclass(frozen=True)
class Calibration:
    """The reliability curve's bins and the figures of ``CALIBRATION_FIGURES``, which are None while
    nothing was counted. ``n`` positions were counted, ``unknown`` more had no recorded probability."""

    bins: tuple[Bin, ...]
    n: int
    unknown: int
    mean_p: float | None = None
    accepted_share: float | None = None
    ece: float | None = None
    brier: float | None = None


def drafter_probability(step: Step, position: int) -> float | None:
    """The drafter's own probability of the token it drafted at ``position`` (from 0), if recorded.

    Traces of schema 1.1 hold it only in the list of the most probable tokens.
    """
    if position >= min(len(step.positions), step.num_drafted):
        return None
    recorded, token = step.positions[position], step.drafted[position]
    p = recorded.p_drafter_drafted
    if p is None:
        p = next((one.p for one in recorded.drafter if one.id == token), None)
    # A softmax in float32 can come out a little over 1.
    return None if p is None else min(p, 1.0)


def calibrate(traces: Sequence[Trace]) -> Calibration:
    """The drafter's calibration over the traces of one lane.

    Raises ``MixedTracesError`` when they are of several.
    """
    require_one_lane(traces)
    blocks = drafters_blocks(traces)
    known = [
        (p, step.num_accepted > i)
        for step in blocks
        if step.positions
        for i in range(_reached(step))
        if (p := drafter_probability(step, i)) is not None
    ]
    held: list[list[tuple[float, bool]]] = [[] for _ in range(BINS)]
    for p, accepted in known:
        held[min(BINS - 1, int(p * BINS))].append((p, accepted))
    bins = tuple(_bin(index, inside) for index, inside in enumerate(held))
    unknown = sum(map(_reached, blocks)) - len(known)
    if not known:
        return Calibration(bins, 0, unknown)
    return Calibration(
        bins,
        len(known),
        unknown,
        mean_p=mean([p for p, _ in known]),
        accepted_share=mean([accepted for _, accepted in known]),
        ece=sum(one.n * one.distance for one in bins) / len(known),
        brier=mean([(p - accepted) ** 2 for p, accepted in known]),
    )


def _reached(step: Step) -> int:
    """Drafted positions that verification reached: the accepted ones and the first that was not."""
    return min(step.num_accepted + 1, step.num_drafted)


def _bin(index: int, inside: Sequence[tuple[float, bool]]) -> Bin:
    hits, n = sum(accepted for _, accepted in inside), len(inside)
    return Bin(
        low=index / BINS,
        high=(index + 1) / BINS,
        n=n,
        mean_p=mean([p for p, _ in inside]) if n else None,
        share=hits / n if n else None,
        interval=wilson(hits, n),
    )
