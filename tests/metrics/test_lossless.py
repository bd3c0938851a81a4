"""Same text, near-tie or real difference."""

from __future__ import annotations

import msgspec
import pytest

from dflash_viz.metrics import Difference, first_difference, is_near_tie, log_ratio, recorded_best
from dflash_viz.trace import Position, Step, TokenProb, Trace
from tests.conftest import make_header


def answer(*tokens: int) -> Trace:
    """A trace without speculation that emitted these tokens."""
    steps = [Step(i, i, i + 1, 1.0, [t], last="plain", prefill=not i, offset=i) for i, t in enumerate(tokens)]
    return Trace(make_header(), steps)


def test_first_difference() -> None:
    assert first_difference(answer(1, 2, 3), answer(1, 2, 3)) is None
    assert first_difference(answer(1, 2, 3), answer(1, 2)) is None, "shorter, but the same as far as it goes"
    assert first_difference(answer(1, 2, 3, 4), answer(1, 5, 3, 9)) == Difference(1, 2, 5)


def test_near_ties_depend_on_the_number_format() -> None:
    difference = Difference(1, 2, 5)
    ratio = log_ratio(difference, [TokenProb(5, 0.400), TokenProb(2, 0.396)])
    assert ratio == pytest.approx(0.01005, abs=1e-4)
    assert is_near_tie(ratio, "bfloat16")
    assert not is_near_tie(ratio, "float32")
    assert not is_near_tie(ratio, None)


def test_a_token_the_target_does_not_favour_is_no_tie() -> None:
    assert log_ratio(Difference(1, 2, 5), [TokenProb(2, 0.5), TokenProb(7, 0.49)]) is None
    # In float32 the second of two probabilities can be 0.
    assert not is_near_tie(log_ratio(Difference(1, 2, 5), [TokenProb(2, 1.0), TokenProb(5, 0.0)]), "bfloat16")
    assert not is_near_tie(None, "bfloat16")


def test_probabilities_from_the_recording() -> None:
    best = [TokenProb(2, 0.5), TokenProb(5, 0.4)]
    trace = answer(1, 2, 3)
    assert recorded_best(trace, 1) is None
    trace.steps[1] = msgspec.structs.replace(trace.steps[1], positions=[Position(target=best)])
    assert recorded_best(trace, 1) == best
