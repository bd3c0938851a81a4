"""The bootstrap against what is known analytically, and its coverage on simulated prompts."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dflash_viz.metrics.measured import bootstrap
from dflash_viz.metrics.measured.bootstrap import Estimate, mean, paired_difference, paired_ratio, ratio
from dflash_viz.metrics.stats import Z_95


def bounds(estimate: Estimate | None) -> tuple[float, float]:
    assert estimate is not None
    assert estimate.low is not None
    assert estimate.high is not None
    return estimate.low, estimate.high


def width(estimate: Estimate | None) -> float:
    low, high = bounds(estimate)
    return high - low


def test_the_mean_of_normals_has_the_z_interval() -> None:
    values = np.random.default_rng(1).normal(10, 2, 400)
    found = mean(list(values))
    half = Z_95 * values.std() / math.sqrt(len(values))
    assert found is not None
    assert found.value == pytest.approx(values.mean())
    assert found.num_prompts == 400
    assert bounds(found) == pytest.approx((values.mean() - half, values.mean() + half), abs=half * 0.1)


def test_a_ratio_is_of_sums_and_has_the_delta_methods_interval() -> None:
    random = np.random.default_rng(2)
    below = random.uniform(20, 60, 300)
    above = below * random.normal(2.5, 0.4, 300)
    found = ratio(list(above), list(below), offset=1.0)
    value = above.sum() / below.sum()
    half = Z_95 * (above - value * below).std() / below.mean() / math.sqrt(300)
    assert found is not None
    assert found.value == pytest.approx(1 + value)
    assert bounds(found) == pytest.approx((1 + value - half, 1 + value + half), abs=half * 0.15)


def test_by_hand() -> None:
    found = ratio([1, 2, 9], [1, 1, 2], offset=1)
    assert found == Estimate(4.0, None, None, 3), "no interval from three prompts"
    assert paired_ratio([2, 4], [1, 1], [1, 1], [1, 1]) == Estimate(3.0, None, None, 2)
    assert paired_difference([2, 4], [1, 1], [1, 1], [1, 1]) == Estimate(2.0, None, None, 2)


def test_the_interval_covers_the_truth_as_often_as_it_says() -> None:
    """200 simulated benchmarks of 40 prompts: 95 % expected; percentile intervals are a little narrow."""
    random, covered = np.random.default_rng(3), 0
    for _ in range(200):
        drafts = random.integers(10, 60, 40)
        share = random.beta(4, 2, 40)  # prompts differ in how easy they are; the mean is 2/3
        low, high = bounds(ratio(list(drafts * 5 * share), list(drafts), offset=1))
        covered += low <= 1 + 5 * 2 / 3 <= high
    assert 0.90 <= covered / 200 <= 0.985


def test_more_prompts_narrow_the_interval_with_the_root_of_their_number() -> None:
    values = list(np.random.default_rng(4).normal(5, 1, 1600))
    assert width(mean(values[:100])) / width(mean(values)) == pytest.approx(4, rel=0.25)


def test_pairing_takes_out_what_both_have_in_common() -> None:
    random = np.random.default_rng(5)
    hard = random.uniform(1, 6, 60)  # of each prompt, for both
    a, b, ones = list(hard + random.normal(0.5, 0.1, 60)), list(hard), [1.0] * 60
    paired = paired_difference(a, ones, b, ones)
    assert width(paired) < width(mean(a)) / 5
    assert bounds(paired)[0] > 0, "the difference is clear although the two intervals overlap"
    assert bounds(mean(a))[0] < bounds(mean(b))[1]
    quotient = paired_ratio([3 * value for value in b], ones, b, ones)
    assert quotient is not None
    assert (quotient.value, *bounds(quotient)) == pytest.approx((3, 3, 3))


def test_equal_prompts_leave_nothing_open() -> None:
    assert ratio([3.0] * 20, [2.0] * 20) == Estimate(1.5, 1.5, 1.5, 20)
    assert paired_ratio([3.0] * 9, [2.0] * 9, [1.0] * 9, [2.0] * 9) == Estimate(3.0, 3.0, 3.0, 9)


@pytest.mark.parametrize(("num_prompts", "has_interval"), [(1, False), (4, False), (5, True)])
def test_an_interval_needs_prompts(num_prompts: int, has_interval: bool) -> None:
    found = mean([float(i) for i in range(num_prompts)])
    assert found is not None
    assert (found.low is not None, found.high is not None) == (has_interval, has_interval)
    assert found.num_prompts == num_prompts


def test_prompts_without_a_denominator_are_left_out() -> None:
    found = ratio([4, 0, 6, 0], [2, 0, 3, 0])
    assert found == Estimate(2.0, None, None, 2)
    paired = paired_difference([4, 5, 6], [2, 1, 3], [1, 0, 2], [1, 0, 2])
    assert paired == Estimate(1.0, None, None, 2), "left out on both sides"


def test_nothing_to_estimate_from() -> None:
    assert mean([]) is None
    assert ratio([1.0], [0.0]) is None
    assert paired_ratio([1.0], [1.0], [0.0], [1.0]) is None, "there is no multiple of zero"
    with pytest.raises(ValueError, match="one value in each"):
        ratio([1.0, 2.0], [1.0])


def test_the_same_data_give_the_same_interval() -> None:
    values = list(np.random.default_rng(6).normal(5, 1, 30))
    assert mean(values) == mean(values)


def test_drawing_in_parts_stays_right(monkeypatch: pytest.MonkeyPatch) -> None:
    values = list(np.random.default_rng(7).normal(5, 1, 50))
    whole = mean(values)
    monkeypatch.setattr(bootstrap, "_MAX_DRAWN", 50 * 300)
    assert mean(values) == whole, "the draws are the same, whatever is drawn at once"


@given(
    st.lists(st.tuples(st.floats(0, 1e6), st.floats(0, 1e6)), max_size=12),
)
def test_an_interval_is_in_order_and_finite(data: list[tuple[float, float]]) -> None:
    found = ratio([a for a, _ in data], [b for _, b in data])
    if found is None or found.low is None or found.high is None:
        assert found is None or found.num_prompts < bootstrap.MIN_PROMPTS
        return
    assert found.low <= found.high
    assert all(map(math.isfinite, (found.value, found.low, found.high)))
