"""Figures of a benchmark against hand calculation and against each other."""

from __future__ import annotations

import msgspec
import pytest

from dflash_viz.metrics.measured import (
    MEASURED,
    by_kind,
    by_prompt,
    per_position,
    setting_value,
    setting_values,
)
from dflash_viz.metrics.measured.bootstrap import Estimate
from dflash_viz.results import Answer, Failure, Result, Setting, Stretch
from tests.measured import (
    change_answers,
    empty_result,
    made_answer,
    made_engine,
    made_result,
    made_settings,
)

DFLASH, PLAIN = Setting("dflash", "dflash", 3, 0.0, 1), Setting("none", "none", 0, 0.0, 1)


def value(result: Result, setting: int, key: str) -> float:
    found = setting_value(result, setting, key)
    assert found is not None
    return found.value


@pytest.fixture
def small() -> Result:
    """Two answers each of DFlash and of no speculation, with round numbers."""
    result = empty_result([DFLASH, PLAIN], 3)
    questions = list(result.questions.values())
    for number, asked in enumerate(result.plan.settings):
        result.engines[number] = made_engine(number, asked)

    def add(setting: int, question: int, **changes: object) -> None:
        asked = result.plan.settings[setting]
        result.answers.append(made_answer(setting, asked, questions[question], **changes))

    counts = {
        "num_steps": 4, "num_drafts": 4, "num_draft_tokens": 12, "num_accepted": 8, "num_decode_tokens": 12,
        "accepted_per_position": [4, 3, 1], "drafted_per_position": [4, 4, 4],
    }  # fmt: skip
    add(0, 0, **counts, decode_s=0.1, latency_s=0.3, first_token_s=0.2, draft_s=0.02, verify_s=0.06)
    counts = {
        "num_steps": 2, "num_drafts": 1, "num_draft_tokens": 3, "num_accepted": 0, "num_decode_tokens": 2,
        "accepted_per_position": [0, 0, 0], "drafted_per_position": [1, 1, 1],
    }  # fmt: skip
    add(0, 1, **counts, decode_s=0.1, latency_s=0.1, first_token_s=None, draft_s=0.04, verify_s=0.06)
    add(1, 0, num_decode_tokens=12, num_steps=12, decode_s=0.4, latency_s=0.5)
    add(1, 1, num_decode_tokens=2, num_steps=2, decode_s=0.1, latency_s=0.2)
    add(1, 2, num_decode_tokens=100, num_steps=100, decode_s=0.1, latency_s=0.2)
    result.stretches += [Stretch(0, 0.3, 1, 13, 13, 4, 12, 8), Stretch(0, 0.1, 1, 3, 3, 1, 3, 0)]
    result.stretches += [Stretch(1, 1.0, 3, 20, 20, 0, 0, 0)]
    return result


BY_HAND = {
    "al": 1 + 8 / 5,
    "al_mean": (3 + 1) / 2,
    "rate": 100 * 8 / 15,
    "per_step": 14 / 6,
    "speed": 14 / 0.2,
    "speedup": (14 / 0.2) / (14 / 0.5),
    "throughput": 16 / 0.4,
    "throughput_gain": 2.0,
    "latency": 0.2,
    "latency_p95": 0.3,
    "first_token": 0.2,
    "draft_ms": 10.0,
    "verify_ms": 20.0,
    "answers": 2.0,
    "failures": 0.0,
}


def test_by_hand(small: Result) -> None:
    found = setting_values(small, 0)
    assert {key: one.value for key, one in found.items() if one} == pytest.approx(BY_HAND)
    assert all(one.low is None for one in found.values() if one), "two prompts give no interval"


def test_without_speculation_what_concerns_drafts_cannot_be_had(small: Result) -> None:
    missing = {key for key, one in setting_values(small, 1).items() if one is None}
    assert missing == {"al", "al_mean", "rate", "draft_ms", "speedup", "throughput_gain"}


def test_nothing_measured_yet() -> None:
    found = setting_values(empty_result([DFLASH, PLAIN], 3), 0)
    assert {key for key, one in found.items() if one is not None} == {"answers", "failures"}


def test_every_figure_states_its_definition() -> None:
    keys = [figure.key for figure in MEASURED]
    assert len(set(keys)) == len(keys)
    assert all(figure.definition.endswith(".") and figure.label for figure in MEASURED)
    assert list(setting_values(made_result(), 0)) == keys
    with pytest.raises(KeyError):
        setting_value(made_result(), 0, "nonsense")


def test_figures_have_intervals_around_them() -> None:
    result = made_result(num_questions=30)
    without = {"throughput", "throughput_gain", "latency_p95", "answers", "failures"}
    for key, found in setting_values(result, 0).items():
        assert found is not None
        assert (found.low is None) == (key in without), key
        if found.low is not None and found.high is not None:
            assert found.low - 1e-9 <= found.value <= found.high + 1e-9
            assert found.num_prompts == 30


def test_turns_of_a_question_are_one_prompt() -> None:
    """Two turns that say the same twice say no more than one: the interval must not become narrower."""
    once, twice = made_result(num_questions=20), made_result(num_questions=20)
    twice.answers += [msgspec.structs.replace(answer, turn=1) for answer in once.answers]
    for key in ("al", "al_mean", "speed", "latency", "speedup"):
        assert setting_value(twice, 0, key) == setting_value(once, 0, key), key
    assert value(twice, 0, "answers") == 40


def test_the_last_answer_to_a_question_counts(small: Result) -> None:
    again = msgspec.structs.replace(small.answers[0], num_accepted=4)
    small.answers.append(again)
    assert value(small, 0, "al") == 1 + 4 / 5
    assert value(small, 0, "answers") == 2


def test_an_answer_of_one_token_has_no_speed(small: Result) -> None:
    nothing = {"num_decode_tokens": 0, "num_steps": 0, "decode_s": 0.0, "num_drafts": 0, "num_accepted": 0}
    before = setting_values(small, 0)
    small.answers.append(made_answer(0, DFLASH, small.questions["q2"], latency_s=0.2, **nothing))
    after = setting_values(small, 0)
    for key in ("al", "al_mean", "per_step", "speed"):
        assert after[key] == before[key]
    assert by_prompt(small, 0)[-1].speed is None


def test_tokens_that_were_not_timed_make_no_speed(small: Result) -> None:
    before = setting_value(small, 0, "speed")
    untimed = made_answer(0, DFLASH, small.questions["q0"], turn=1, decode_s=0.0)
    small.answers.append(untimed)
    assert setting_value(small, 0, "speed") == before


def test_no_speedup_against_another_machine(small: Result) -> None:
    for changes in ({"device": "GPU"}, {"target": msgspec.structs.replace(target(small), dtype="bfloat16")}):
        small.engines[1] = made_engine(1, PLAIN, **changes)
        assert setting_value(small, 0, "speedup") is None
        assert setting_value(small, 0, "throughput_gain") is None
        assert {one.speedup for one in by_prompt(small, 0)} == {None}
    small.engines.clear()
    assert setting_value(small, 0, "speedup") is None, "nobody knows what ran"


def target(result: Result) -> object:
    return result.engines[0].fingerprint.target


def test_speedup_is_against_the_same_temperature_and_concurrency() -> None:
    result = made_result(made_settings(("dflash", "none"), concurrencies=(1, 4)))
    slow = result.plan.settings.index(Setting("none", "none", 0, 0.0, 4))
    before = [setting_value(result, number, "speedup") for number in (0, 1)]
    result.answers = [
        msgspec.structs.replace(one, decode_s=2 * one.decode_s) if one.setting == slow else one
        for one in result.answers
    ]
    after = [setting_value(result, number, "speedup") for number in (0, 1)]
    assert after[0] == before[0]
    assert before[1] is not None
    assert after[1] is not None
    assert after[1].value == pytest.approx(2 * before[1].value)
    alone = made_result(made_settings(("dflash",)))
    assert setting_value(alone, 0, "speedup") is None


def test_failures_are_counted_until_they_are_made_good(small: Result) -> None:
    small.failures = [Failure(0, "gone", "q2"), Failure(0, "gone", "q1"), Failure(1, "gone", "q7")]
    assert value(small, 0, "failures") == 1


def test_by_kind_splits_and_adds_up() -> None:
    result = made_result(num_questions=30)
    found = by_kind(result, 0)
    assert list(found) == ["maths", "code", "chat"]
    assert all(set(values) == {"al", "al_mean", "speed", "speedup"} for values in found.values())
    means = [values["al_mean"] for values in found.values()]
    assert all(one is not None and one.num_prompts == 10 for one in means)
    assert sum(one.value for one in means if one) / 3 == pytest.approx(value(result, 0, "al_mean"))
    chat, maths = found["chat"]["speedup"], found["maths"]["speedup"]
    assert chat is not None
    assert maths is not None
    assert chat.value < maths.value, "chat is harder to draft"
    change_answers(result, 1, kind="other")
    assert list(by_kind(result, 1)) == ["other"]


def test_by_prompt_is_sorted_and_leads_to_the_traces(small: Result) -> None:
    best, worst = by_prompt(small, 0)
    assert (best.question, best.turn, best.kind, best.al) == ("q0", 0, "maths", 3.0)
    assert (best.speed, best.speedup) == pytest.approx((120, 4))
    assert (best.trace, best.text) == ("traces/0-q0-0.jsonl.gz", "Question 0 about maths, turn 0?")
    assert (worst.question, worst.al, worst.speedup) == ("q1", 1.0, pytest.approx(1))
    assert [one.question for one in by_prompt(small, 1)] == ["q2", "q0", "q1"], "the fastest first"


def test_by_prompt_without_al_comes_last() -> None:
    result = empty_result([DFLASH], 2)
    for name, drafts in (("q0", 0), ("q1", 5)):
        changes = {"num_drafts": drafts, "num_accepted": 0}
        result.answers.append(made_answer(0, DFLASH, result.questions[name], turn=9, **changes))
    found = by_prompt(result, 0)
    assert [(one.question, one.al, one.text) for one in found] == [("q1", 1.0, ""), ("q0", None, "")]


def test_per_position(small: Result) -> None:
    assert per_position(small, 0) == [(4 / 5, 5), (3 / 5, 5), (1 / 5, 5)]
    assert per_position(small, 1) == []


def test_positions_count_only_the_drafts_that_had_them(small: Result) -> None:
    short = {"accepted_per_position": [2], "drafted_per_position": [2]}
    small.answers.append(made_answer(0, DFLASH, small.questions["q2"], **short))
    assert per_position(small, 0) == [(6 / 7, 7), (3 / 5, 5), (1 / 5, 5)]


def test_pooled_and_mean_of_requests_differ_as_they_should() -> None:
    result = empty_result([DFLASH], 2)
    for name, drafts, accepted in (("q0", 90, 270), ("q1", 10, 0)):
        answer: Answer = made_answer(
            0, DFLASH, result.questions[name], num_drafts=drafts, num_accepted=accepted
        )
        result.answers.append(answer)
    assert setting_value(result, 0, "al") == Estimate(3.7, None, None, 2)
    assert setting_value(result, 0, "al_mean") == Estimate(2.5, None, None, 2)
