"""How far a figure would move with other prompts of the same kind: the bootstrap over prompts.

Every function takes one number (or two) per prompt, all turns of a conversation summed up in one: what
one prompt brings belongs together, so prompts are what is drawn, not answers or steps. The interval
is the percentile interval of ``RESAMPLES`` draws with replacement (Efron and Tibshirani, An
Introduction to the Bootstrap, chapter 13), from a fixed seed, so that a figure is the same at every look.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

RESAMPLES = 2000
MIN_PROMPTS = 5
"""Prompts below which no interval is given: it would be far too narrow."""
SEED = 0
_PERCENTILES = (2.5, 97.5)
_MAX_DRAWN = 4_000_000  # prompts drawn at once, so that a large data set stays within 100 MB

Numbers = NDArray[np.float64]
Statistic = Callable[..., Numbers]


@dataclass(frozen=True)
class Estimate:
    """A figure with its 95 % interval, and the number of prompts that it rests on.

    ``low`` and ``high`` are None with fewer than ``MIN_PROMPTS`` prompts, and for figures of which the
    definition says that they have none.
    """

    value: float
    low: float | None
    high: float | None
    num_prompts: int


def ratio(numerators: Sequence[float], denominators: Sequence[float], offset: float = 0.0) -> Estimate | None:
    """``offset`` + sum of numerators / sum of denominators, from one of each per prompt.

    Prompts whose denominator is 0 say nothing about the ratio and are left out (an n-gram lane that
    never drafted has no AL). None when all are. Raises ``ValueError`` for unequal lengths.
    """
    columns = _known([numerators, denominators], [denominators])
    return _estimate(lambda a, b: offset + a / b, columns)


def mean(values: Sequence[float]) -> Estimate | None:
    """The mean of one value per prompt; None without any."""
    return ratio(values, [1.0] * len(values))


def paired_ratio(
    num_a: Sequence[float], den_a: Sequence[float], num_b: Sequence[float], den_b: Sequence[float]
) -> Estimate | None:
    """(sum ``num_a`` / sum ``den_a``) / (sum ``num_b`` / sum ``den_b``), prompt i in both a and b.

    A prompt is drawn for both at once: what makes it hard or easy for both falls out. Prompts are
    left out as by ``ratio``, for both when for one. None where b is 0, and without prompts.
    """
    columns = _known([num_a, den_a, num_b, den_b], [den_a, den_b])
    return _estimate(lambda a, b, c, d: (a / b) / (c / d), columns)


def paired_difference(
    num_a: Sequence[float], den_a: Sequence[float], num_b: Sequence[float], den_b: Sequence[float]
) -> Estimate | None:
    """sum ``num_a`` / sum ``den_a`` - sum ``num_b`` / sum ``den_b``, drawn as by ``paired_ratio``."""
    columns = _known([num_a, den_a, num_b, den_b], [den_a, den_b])
    return _estimate(lambda a, b, c, d: a / b - c / d, columns)


def _known(columns: Sequence[Sequence[float]], denominators: Sequence[Sequence[float]]) -> Numbers:
    """The columns as rows of an array, without the prompts that have a denominator of 0."""
    if len({len(column) for column in columns}) != 1:
        raise ValueError("Every prompt needs one value in each of the columns.")
    known = np.all(np.asarray(denominators, dtype=np.float64) > 0, axis=0)
    return np.asarray(columns, dtype=np.float64)[:, known]


def _estimate(statistic: Statistic, columns: Numbers) -> Estimate | None:
    num_prompts = columns.shape[1]
    if num_prompts == 0:
        return None
    with np.errstate(all="ignore"):  # draws that divide by 0 are left out below
        value = float(statistic(*columns.sum(axis=1)))
        if not np.isfinite(value):
            return None
        if num_prompts < MIN_PROMPTS:
            return Estimate(value, None, None, num_prompts)
        drawn = np.concatenate([statistic(*sums) for sums in _resampled(columns)])
    if not np.isfinite(drawn).any():
        return Estimate(value, None, None, num_prompts)
    low, high = np.percentile(drawn[np.isfinite(drawn)], _PERCENTILES)
    return Estimate(value, float(low), float(high), num_prompts)


def _resampled(columns: Numbers) -> Iterator[Numbers]:
    """The sums of each column over the prompts of every draw, some draws at a time."""
    random, num_prompts = np.random.default_rng(SEED), columns.shape[1]
    at_once = max(1, _MAX_DRAWN // num_prompts)
    for begin in range(0, RESAMPLES, at_once):
        drawn = random.integers(0, num_prompts, (min(at_once, RESAMPLES - begin), num_prompts))
        yield np.stack([column[drawn].sum(axis=1) for column in columns])
