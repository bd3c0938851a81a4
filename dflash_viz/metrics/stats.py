"""How much a share or a difference of means can be trusted: what keeps short answers from saying much."""

from __future__ import annotations

import math
from collections.abc import Sequence

Z_95 = 1.959964
"""The normal distribution's 97.5 % quantile: two-sided 95 %."""


def wilson(hits: int, n: int) -> tuple[float, float]:
    """Wilson's 95 % interval of the share ``hits`` / ``n``; (0, 1) while nothing was counted.

    Unlike the plain normal interval it stays within 0 and 1 and is usable at shares near them.
    """
    if not n:
        return 0.0, 1.0
    share, square = hits / n, Z_95 * Z_95
    centre = (share + square / (2 * n)) / (1 + square / n)
    half = Z_95 * math.sqrt(share * (1 - share) / n + square / (4 * n * n)) / (1 + square / n)
    return max(0.0, centre - half), min(1.0, centre + half)


def mean(values: Sequence[float]) -> float:
    """The mean; ``values`` must not be empty."""
    return math.fsum(values) / len(values)


def z_score(first: Sequence[float], second: Sequence[float]) -> float:
    """By how many standard errors the mean of ``first`` lies over that of ``second`` (Welch).

    Both need two values at least. 0 where neither varies and the means are equal, infinite where
    they are not.
    """
    difference = mean(first) - mean(second)
    error = math.sqrt(_variance(first) / len(first) + _variance(second) / len(second))
    if error > 0:
        return difference / error
    return math.copysign(math.inf, difference) if difference else 0.0


def _variance(values: Sequence[float]) -> float:
    centre = mean(values)
    return math.fsum((value - centre) ** 2 for value in values) / (len(values) - 1)
