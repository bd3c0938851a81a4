"""Figures against hand calculation on a small trace."""

from __future__ import annotations

import pytest

from dflash_viz import metrics
from dflash_viz.metrics import Tally
from dflash_viz.trace import Step, Trace
from dflash_viz.trace.counters import Counters, read_prometheus


@pytest.fixture
def plain() -> list[Step]:
    """The same answer without speculation: 20 ms a token, 18 of them in the target's pass."""
    first = Step(0, 0.0, 0.1, 0.1, [5], last="plain", prefill=True)
    rest = [Step(i, 0.08 + 0.02 * i, 0.1 + 0.02 * i, 0.018, [6], last="plain", offset=i) for i in range(1, 5)]
    return [first, *rest]


def test_values(trace: Trace) -> None:
    steps = trace.steps
    assert metrics.tokens_per_engine_step(steps) == (2 + 4 + 2) / 3
    assert metrics.decode_tokens_per_second(steps) == pytest.approx(8 / 0.15)
    assert metrics.mean_draft_s(steps) == pytest.approx(0.01)
    assert metrics.mean_verify_s(steps) == pytest.approx(0.03)
    assert metrics.draft_share(steps) == pytest.approx(0.2)
    split = metrics.time_split(steps)
    assert (split.draft, split.verify, split.rest) == pytest.approx((0.03, 0.09, 0.03))


def test_counters_are_vllms(trace: Trace) -> None:
    counters = metrics.count(trace.steps)
    assert counters == Counters(3, 9, 6, (3, 2, 1))
    assert counters.acceptance_length == 1 + 6 / 3
    assert counters.acceptance_rate == 6 / 9


def test_a_window_holds_the_last_steps_alone(trace: Trace) -> None:
    assert metrics.windowed(trace.steps) == metrics.count(trace.steps)
    many = [trace.steps[2]] * 10 + [trace.steps[1]] * 15
    assert metrics.windowed(many).acceptance_length == 1 + (3 + 15 * 1) / 16


def test_tallies_add_up(trace: Trace) -> None:
    for cut in range(len(trace.steps) + 1):
        parts = Tally.of(trace.steps[:cut]) + Tally.of(trace.steps[cut:])
        whole = Tally.of(trace.steps)
        assert metrics.lane_values(parts) == pytest.approx(metrics.lane_values(trace.steps))
        assert parts.counters == whole.counters
        assert metrics.conditional_acceptance(parts) == metrics.conditional_acceptance(trace.steps)
        assert metrics.unconditional_acceptance(parts) == metrics.unconditional_acceptance(trace.steps)
        assert (parts.lengths, parts.recent) == (whole.lengths, whole.recent)
    assert whole.counters - Tally.of(trace.steps[:2]).counters == metrics.count(trace.steps[2:])


def test_acceptance_by_position(trace: Trace) -> None:
    assert metrics.unconditional_acceptance(trace.steps) == [1, 2 / 3, 1 / 3]
    assert metrics.conditional_acceptance(trace.steps) == [1, 2 / 3, 1 / 2]
    never = [Step(1, 0.0, 0.1, 0.1, [1], 0.01, [2, 3], 0, "recovered")]
    assert metrics.conditional_acceptance(never) == [0, None]


def test_positions_count_only_the_steps_that_drafted_them() -> None:
    short = Step(1, 0.0, 0.1, 0.1, [4, 5], 0.01, [4], 1, "bonus")
    long = Step(2, 0.1, 0.2, 0.1, [4, 5, 6], 0.01, [4, 5], 2, "bonus")
    assert metrics.unconditional_acceptance([short, long]) == [1, 1]


def test_histogram(trace: Trace) -> None:
    assert metrics.length_histogram(trace.steps) == [0, 1, 1, 1]
    assert sum(metrics.length_histogram(trace.steps)) == metrics.count(trace.steps).num_drafts


def test_pooled_and_mean_weigh_differently(trace: Trace) -> None:
    short = [Step(1, 0.0, 0.1, 0.1, [1], 0.01, [2, 3], 0, "recovered")]
    assert metrics.mean_of_requests([trace.steps, short]) == (3 + 1) / 2
    assert metrics.count([*trace.steps, *short]).acceptance_length == 1 + 6 / 4
    assert metrics.mean_of_requests([[]]) is None


def test_speed_against_no_speculation(trace: Trace, plain: list[Step]) -> None:
    assert metrics.speedup(trace.steps, plain) == pytest.approx((8 / 0.15) / 50)
    assert metrics.break_even_length(trace.steps, plain) == pytest.approx(0.04 / 0.018)
    assert metrics.predicted_speedup(trace.steps, plain) == pytest.approx((8 / 3) * 0.018 / 0.04)
    assert metrics.race_values(plain, plain) == {"speedup": 1, "break_even": None, "predicted": None}


def test_courses_continue_where_they_were_left(trace: Trace) -> None:
    whole = metrics.length_course(trace.steps)
    assert whole == [(1, 2, 2.0), (2, 4, 3.0), (3, 3, 3.0)]
    before = metrics.count(trace.steps[:2])
    assert metrics.length_course(trace.steps[:2]) + metrics.length_course(trace.steps[2:], before) == whole
    assert metrics.token_course(trace.steps[1:]) == [(0.15, 3), (0.2, 7), (0.25, 9)]


def test_nothing_yet(trace: Trace) -> None:
    for steps in ([], trace.steps[:1]):
        values = metrics.lane_values(steps)
        assert values.pop("steps") == 0
        assert set(values.values()) == {None}


def test_every_figure_states_its_definition(trace: Trace, plain: list[Step]) -> None:
    keys = [figure.key for figure in metrics.FIGURES]
    assert len(set(keys)) == len(keys)
    assert all(f.definition.endswith(".") and f.label for f in metrics.FIGURES)
    shown = metrics.lane_values(plain) | metrics.race_values(plain, plain) | metrics.chat_values([trace])
    assert set(shown) == set(keys)


PROMETHEUS = """\
# TYPE vllm:spec_decode_num_drafts_total counter
vllm:spec_decode_num_drafts_total{engine="0",model_name="m"} 3.0
vllm:spec_decode_num_drafts_total{engine="1",model_name="m"} 1.0
vllm:spec_decode_num_draft_tokens_total{engine="0",model_name="m"} 9.0
vllm:spec_decode_num_accepted_tokens_total{engine="0",model_name="m"} 6.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",model_name="m",position="0"} 3.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",model_name="m",position="1"} 2.0
vllm:spec_decode_num_accepted_tokens_per_pos_created{engine="0",model_name="m",position="1"} 1e9
vllm:generation_tokens_total{engine="0",model_name="m"} 77.0
"""


def test_counters_from_a_servers_metrics() -> None:
    assert read_prometheus(PROMETHEUS) == Counters(4, 9, 6, (3, 2))
    assert read_prometheus("") == Counters()
