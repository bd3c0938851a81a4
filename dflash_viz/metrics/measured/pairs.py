"""Two settings on the same questions: what differs between them, with what both have in common gone."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

from dflash_viz.metrics.measured.bootstrap import Estimate
from dflash_viz.metrics.measured.sums import (
    LATENCY,
    LENGTH,
    SPEED,
    cells,
    common,
    difference,
    quotient,
    same_machine,
    same_text,
)
from dflash_viz.results import Result


@dataclass(frozen=True)
class Pair:
    """``first`` against ``second`` (numbers of settings), on ``num_prompts`` questions that both answered.

    ``al``: AL of the first - AL of the second, pooled, on the questions where both drafted. ``speed`` and
    ``latency``: decode speed and mean latency of the first / those of the second; None where the two did
    not run the same target on the same device. ``same_text``: so many answers have the same text, of so
    many compared; (0, 0) above temperature 0, where every setting draws for itself.
    """

    first: int
    second: int
    num_prompts: int
    al: Estimate | None
    speed: Estimate | None
    latency: Estimate | None
    same_text: tuple[int, int]


def pairs(result: Result) -> list[Pair]:
    """Every two settings of one temperature and concurrency that answered a question in common.

    The one without speculation is always the second.
    """
    found = []
    for first, second in combinations(range(len(result.plan.settings)), 2):
        a, b = result.plan.settings[first], result.plan.settings[second]
        if (a.temperature, a.concurrency) == (b.temperature, b.concurrency):
            found.append(_pair(result, second, first) if a.plain else _pair(result, first, second))
    return [pair for pair in found if pair.num_prompts]


def _pair(result: Result, first: int, second: int) -> Pair:
    a, b = common(cells(result, first), cells(result, second))
    comparable = same_machine(result, (first, second))
    greedy = result.plan.settings[first].temperature == 0
    return Pair(
        first,
        second,
        len({question for question, _ in a}),
        al=difference(a, b, LENGTH),
        speed=quotient(a, b, SPEED) if comparable else None,
        latency=quotient(a, b, LATENCY) if comparable else None,
        same_text=same_text(a, b) if greedy else (0, 0),
    )
