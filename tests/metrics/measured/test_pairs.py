"""Two settings on the same questions."""

from __future__ import annotations

import msgspec
import pytest

from dflash_viz.metrics.measured import MAX_PAIRS, indexed, pairs, setting_value, setting_values
from dflash_viz.metrics.measured.pairs import Pair
from dflash_viz.metrics.measured.sums import cells
from dflash_viz.results import Failure, Result
from tests.measured import change_answers, made_engine, made_result, made_settings


def pair_of(result: Result, first: int, second: int) -> Pair:
    return next(one for one in pairs(result) if (one.first, one.second) == (first, second))


def test_every_two_settings_of_one_temperature_and_concurrency() -> None:
    result = made_result(made_settings(("dflash", "none"), temperatures=(0.0, 1.0), concurrencies=(1, 4)))
    assert [(one.first, one.second) for one in pairs(result)] == [(0, 4), (1, 5), (2, 6), (3, 7)]
    assert len(pairs(made_result())) == 6


def test_no_speculation_is_always_the_second() -> None:
    result = made_result(made_settings(("none", "dflash")))
    assert [(one.first, one.second) for one in pairs(result)] == [(1, 0)]


def test_against_no_speculation_the_ratio_of_speeds_is_the_speedup() -> None:
    result = made_result(num_questions=20)
    found = pair_of(result, 0, 3)
    assert found.speed == setting_value(result, 0, "speedup")
    assert found.al is None, "nothing was drafted on one side"
    assert found.num_prompts == 20


def test_only_common_questions_count() -> None:
    result = made_result(num_questions=20)
    before = pair_of(result, 0, 1)
    extra = [
        msgspec.structs.replace(one, question="other", num_accepted=0, latency_s=99.0, decode_s=99.0)
        for one in result.answers_of(0)[:1]
    ]
    result.answers += extra
    assert pair_of(result, 0, 1) == before
    result.answers = [one for one in result.answers if one.setting != 1 or one.question in ("q0", "q1")]
    assert pair_of(result, 0, 1).num_prompts == 2
    result.answers = [one for one in result.answers if one.setting != 1]
    assert not [one for one in pairs(result) if 1 in (one.first, one.second)]


def test_a_difference_is_that_of_the_two_als() -> None:
    result = made_result(num_questions=20)
    found, first, second = (
        pair_of(result, 0, 1).al,
        setting_value(result, 0, "al"),
        setting_value(result, 1, "al"),
    )
    assert found is not None
    assert first is not None
    assert second is not None
    assert found.value == pytest.approx(first.value - second.value)
    assert found.low is not None
    assert found.low < found.value


def test_times_of_two_machines_are_not_compared() -> None:
    result = made_result()
    result.engines[1] = made_engine(1, result.plan.settings[1], device="GPU")
    found = pair_of(result, 0, 1)
    assert (found.speed, found.latency) == (None, None)
    assert found.al is not None


def test_the_same_text_is_looked_for_at_temperature_0_alone() -> None:
    result = made_result(made_settings(("dflash", "none"), temperatures=(0.0, 1.0)))
    assert [one.same_text for one in pairs(result)] == [(12, 12), (0, 0)]
    change_answers(result, 0, text="something else")
    assert pairs(result)[0].same_text == (0, 12)


def test_a_turn_after_a_difference_is_another_prompt() -> None:
    result = made_result(made_settings(("dflash", "none")), num_questions=6, num_turns=2)
    assert pairs(result)[0].same_text == (12, 12)
    result.answers = [
        msgspec.structs.replace(one, text="other")
        if one.setting == 0 and (one.question, one.turn) in (("q0", 0), ("q1", 1))
        else one
        for one in result.answers
    ]
    assert pairs(result)[0].same_text == (9, 11), "q0's second turn was not the same prompt"


def test_no_more_pairs_than_can_be_read() -> None:
    result = made_result(made_settings(("dflash", "none"), ks=range(1, 16)), num_questions=1)
    assert len(result.plan.settings) * (len(result.plan.settings) - 1) / 2 == 120
    found = pairs(result)
    assert len(found) == MAX_PAIRS == 100
    assert [(one.first, one.second) for one in found[:2]] == [(0, 1), (0, 2)]


def test_an_indexed_result_has_the_same_figures() -> None:
    result = made_result(made_settings(concurrencies=(1, 4)), num_questions=5, num_turns=2)
    result.answers.append(msgspec.structs.replace(result.answers[0], num_accepted=0, latency_s=99.0))
    result.failures = [Failure(0, "late"), Failure(1, "gone", "q9"), Failure(1, "gone again", "q9")]
    whole = indexed(result)
    assert indexed(whole) is whole
    assert whole.open_failures() == result.open_failures() == [Failure(1, "gone again", "q9")]
    for number in range(len(result.plan.settings)):
        mine = [one for one in result.answers if one.setting == number]
        assert list(cells(whole, number).values()) == list(cells(result, number).values())
        assert set(cells(whole, number)) == {(one.question, one.turn) for one in mine}
        assert setting_values(whole, number) == setting_values(result, number)
    latency = setting_value(whole, 0, "latency")
    assert latency is not None
    assert latency.value > 9, "the last answer counts"


def test_a_file_of_many_settings_is_sorted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Looking through all answers for each pair would take a hostile file's square."""
    result = made_result(made_settings(("dflash", "none"), ks=range(1, 40)), num_questions=1)
    monkeypatch.setattr(Result, "answers_of", None)
    assert len(pairs(result)) == MAX_PAIRS
