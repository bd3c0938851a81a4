"""Two settings on the same questions: what differs between them, with what both have in common gone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations, islice

from dflash_viz.metrics.measured.bootstrap import Estimate
from dflash_viz.metrics.measured.sums import (
    LATENCY,
    LENGTH,
    SPEED,
    cells,
    common,
    difference,
    indexed,
    quotient,
    same_machine,
    same_text,
)
from dflash_viz.results import Result

MAX_PAIRS = 100
"""More nobody reads, and their number grows with the square of the settings'."""


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
    """Every two settings of one temperature and concurrency that answered a question in common, the first
    ``MAX_PAIRS`` of them.

    The one without speculation is always the second.
    """
    return list(islice(_every_pair(indexed(result)), MAX_PAIRS))


def _every_pair(result: Result) -> Iterator[Pair]:
    for first, second in combinations(range(len(result.plan.settings)), 2):
        a, b = result.plan.settings[first], result.plan.settings[second]
        if (a.temperature, a.concurrency) == (b.temperature, b.concurrency):
            pair = _pair(result, second, first) if a.plain else _pair(result, first, second)
            if pair is not None:
                yield pair


def _pair(result: Result, first: int, second: int) -> Pair | None:
    a, b = common(cells(result, first), cells(result, second))
    if not a:
        return None
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
