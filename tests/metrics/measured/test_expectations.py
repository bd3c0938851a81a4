"""Expectations: which rows concern a result, what keeps a setting from being judged, and the verdict."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from dflash_viz.metrics.measured import (
    Expectation,
    ExpectationError,
    Verdict,
    judge,
    judge_rows,
    read_expectations,
    recorded_expectations,
    setting_value,
    write_expectations,
)
from dflash_viz.metrics.measured.conditions import thinking
from dflash_viz.results import Failure, Result
from dflash_viz.trace import ModelPrint
from tests.measured import change_answers, made_engine, made_result, made_settings


def row(**changes: Any) -> Expectation:
    """A row that the made result's DFlash setting fits."""
    fields: dict[str, Any] = {
        "pair": "made", "target": "target", "drafter": "dflash-drafter", "method": "dflash",
        "dataset": "builtin",
        "num_speculative_tokens": 5, "temperature": 0.0, "max_tokens": 64, "turns": "first",
        "definition": "al", "al": 2.0, "tolerance": 0.9, "source": "a paper",
    }  # fmt: skip
    return Expectation(**{**fields, **changes})


def verdict(expectation: Expectation, result: Result | None = None) -> Verdict:
    (found,) = judge(made_result() if result is None else result, [expectation])
    return found


def al(result: Result, key: str = "al") -> float:
    found = setting_value(result, 0, key)
    assert found is not None
    return found.value


# Pass and fail ---------------------------------------------------------------------------------


@pytest.mark.parametrize("definition", ["al", "al_mean"])
def test_the_bound_is_a_share_of_the_al_by_its_own_definition(definition: str) -> None:
    result = made_result()
    measured = al(result, definition)
    for tolerance, outcome in ((0.5 * measured / 2, "pass"), (0.501 * measured / 2, "fail")):
        found = verdict(row(definition=definition, al=4.0, tolerance=tolerance), result)
        assert (found.outcome, found.setting, found.reasons[:-1]) == (outcome, 0, ())
        assert found.needed == pytest.approx(4.0 * tolerance)
        assert found.measured == setting_value(result, 0, definition)


def test_the_two_definitions_are_told_apart() -> None:
    result = made_result()
    between = (al(result) + al(result, "al_mean")) / 2
    outcomes = {
        d: verdict(row(definition=d, al=between, tolerance=1.0), result).outcome for d in ("al", "al_mean")
    }
    assert sorted(outcomes.values()) == ["fail", "pass"]


def test_the_interval_is_beside_the_verdict_and_does_not_decide_it() -> None:
    result = made_result()
    found = verdict(row(al=al(result) * 1.01, tolerance=1.0), result)
    assert found.outcome == "fail"
    assert found.measured is not None
    assert found.measured.high is not None
    assert found.measured.high > found.needed


# What is compared at all -----------------------------------------------------------------------


def test_rows_of_other_pairs_and_data_sets_are_left_out() -> None:
    assert judge(made_result(), [row(target="other"), row(dataset="gsm8k")]) == []


def test_a_target_is_known_by_its_content_whatever_its_name() -> None:
    assert verdict(row(target="elsewhere", target_hash="target-hash")).outcome == "pass"
    assert judge(made_result(), [row(target_hash="another-hash")]) == []
    assert verdict(row(target_hash="target-hash")).outcome == "pass"


def named(target: str, drafter: str = "dflash-drafter") -> Result:
    """A made result whose DFlash setting ran on models of these names, whose content is not known."""
    result = made_result()
    models = {"target": ModelPrint(target), "drafter": ModelPrint(drafter)}
    result.engines[0] = made_engine(0, result.plan.settings[0], **models)
    return result


def test_a_folder_is_known_by_its_name() -> None:
    asks = row(pair="embedded-cpu", target="Qwen/Qwen3-8B", drafter="z-lab/drafter", num_questions=12)
    for target in ("Qwen/Qwen3-8B", "Qwen3-8B"):
        found = verdict(asks, named(target, "drafter"))
        assert (found.outcome, found.reasons) == ("pass", ())
    for target in ("mine/Qwen3-8B", "Qwen3-4B", "", "Qwen"):
        assert verdict(asks, named(target)).reasons == (f"the target is {target}, not Qwen/Qwen3-8B",)
    plain = row(pair="embedded-cpu", target="Qwen3-8B")
    assert verdict(plain, named("Qwen/Qwen3-8B")).outcome == "not comparable", "another owner's, perhaps"


def test_every_row_is_judged_when_asked() -> None:
    result = made_result()
    rows = [row(), row(dataset="gsm8k"), row(method="medusa"), row(pair="x", target="other")]
    assert [one.outcome for one in judge(result, rows)] == ["pass"]
    found = judge_rows(result, rows)
    assert [one.expectation for one in found] == rows
    assert [one.reasons for one in found[1:]] == [
        ("the questions are builtin, not gsm8k",),
        ("the method is dflash, not medusa",),
        ("the target is target, not other",),
    ]


def test_another_target_of_the_same_pair_is_said() -> None:
    found = verdict(row(pair="embedded-cpu", target="other"))
    assert (found.outcome, found.reasons) == ("not comparable", ("the target is target, not other",))
    found = verdict(row(pair="embedded-cpu", target_hash="another-hash"))
    assert found.reasons == ("the target target has other weights or settings than the expectation's",)


def test_rows_of_a_method_that_was_not_measured_are_left_out() -> None:
    assert judge(made_result(), [row(method="medusa")]) == []


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"num_speculative_tokens": 15}, "K is 5, not 15"),
        ({"temperature": 1.0}, "the temperature is 0, not 1"),
        ({"max_tokens": 2048}, "answers end after 64 tokens, not 2048"),
        ({"turns": "both"}, "turns asked: first, not both"),
        ({"num_questions": 80}, "12 questions, not 80"),
        ({"dataset_hash": "else"},
         "the questions are not the ones of the expectation, though both are called builtin"),
        ({"concurrency": 8}, "requests at once: 1, not 8"),
        ({"thinking": False},
         "whether the model was thinking is not known: set enable_thinking in the preset's options for the "
         "chat template"),
    ],
)  # fmt: skip
def test_another_condition_is_no_comparison(changes: dict[str, Any], reason: str) -> None:
    found = verdict(row(**changes))
    assert (found.outcome, found.setting, found.reasons) == ("not comparable", 0, (reason,))
    assert found.measured is not None, "what was measured is shown all the same"


def test_every_obstacle_is_named() -> None:
    assert len(verdict(row(num_speculative_tokens=15, max_tokens=2048, concurrency=8)).reasons) == 3


def test_conditions_that_are_met_or_left_open() -> None:
    met = {"num_questions": 12, "dataset_hash": "content", "concurrency": 1, "target_hash": "target-hash"}
    assert verdict(row(**met)).outcome == "pass"
    assert verdict(row(num_questions=5)).outcome == "pass", "more questions than needed"


def test_turns_of_questions_that_have_but_one() -> None:
    """Asking both turns of a data set without second ones is asking the first."""
    single = made_result()
    dataset = msgspec.structs.replace(single.plan.dataset, turns="both")
    single.head = msgspec.structs.replace(
        single.head, plan=msgspec.structs.replace(single.plan, dataset=dataset)
    )
    assert verdict(row(), single).outcome == "pass"
    assert recorded_expectations(single, "embedded", 0.9, "")[0].turns == "first"
    double = made_result(num_turns=2)
    assert verdict(row(turns="both"), double).outcome == "pass"
    assert verdict(row(), double).reasons == ("turns asked: both, not first",)


def test_top_p_matters_where_tokens_are_drawn() -> None:
    warm = made_result(made_settings(temperatures=(1.0,)), top_p=0.9)
    assert verdict(row(temperature=1.0), warm).reasons == ("top-p is 0.9, not 1",)
    assert verdict(row(), made_result(top_p=0.9)).outcome == "pass"


def _unfinished(result: Result) -> None:
    result.stretches = [msgspec.structs.replace(one, finished=False) for one in result.stretches]


def _failed(result: Result) -> None:
    result.failures = [
        Failure(0, "gone", "nobody"),
        Failure(0, "gone", "no one"),
        Failure(1, "gone", "nobody"),
    ]


def _no_engine(result: Result) -> None:
    del result.engines[0]


def _not_started(result: Result) -> None:
    """Its engine did not start, so that there is nothing of it."""
    del result.engines[0]
    result.answers = [one for one in result.answers if one.setting]
    result.stretches = [one for one in result.stretches if one.setting]
    result.failures = [Failure(0, "No room."), Failure(1, "Another's.")]


def _engine_died(result: Result) -> None:
    _unfinished(result)
    result.failures = [Failure(0, "It died."), Failure(0, "gone", "nobody"), Failure(1, "Another's.")]


def _nothing_drafted(result: Result) -> None:
    change_answers(result, 0, num_drafts=0, num_accepted=0)


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (_unfinished, "the measurement is not finished"),
        (_failed, "2 questions got no answer"),
        (_no_engine, "the engine did not start, or is not recorded"),
        (_not_started, "the engine did not start: No room"),
        (_nothing_drafted, "nothing was drafted"),
    ],
)
def test_what_was_not_measured_whole_is_not_judged(damage: Callable[[Result], None], reason: str) -> None:
    result = made_result()
    damage(result)
    found = verdict(row(), result)
    assert (found.outcome, found.reasons) == ("not comparable", (reason,))


def test_an_engine_that_ended_early_is_said() -> None:
    result = made_result()
    _engine_died(result)
    assert verdict(row(), result).reasons == (
        "the engine ended: It died",
        "a question got no answer",
        "the measurement is not finished",
    )


def test_the_setting_that_fits_is_chosen() -> None:
    result = made_result(made_settings(ks=(3, 5), temperatures=(1.0, 0.0), concurrencies=(8, 1)))
    for changes in ({}, {"concurrency": 8}, {"temperature": 1.0}, {"num_speculative_tokens": 3}):
        expected = row(**changes)
        found = verdict(expected, result)
        assert found.setting is not None
        asked = result.plan.settings[found.setting]
        assert (asked.lane, asked.num_speculative_tokens) == ("dflash", expected.num_speculative_tokens)
        assert asked.temperature == expected.temperature
        assert asked.concurrency == (expected.concurrency or 1), "any: the fewest at once"
        assert found.outcome != "not comparable"
    nearest = verdict(row(num_speculative_tokens=16), result)
    assert nearest.reasons == ("K is 3, not 16",), "only one thing keeps it from fitting"


# Another drafter is what a check is to find -----------------------------------------------------


def test_another_drafter_is_judged_and_named() -> None:
    result = made_result()
    for share, outcome in ((0.9, "pass"), (1.2, "fail")):
        found = verdict(row(al=al(result) * share, tolerance=1.0, drafter_hash="0123456789abcdef"), result)
        assert found.outcome == outcome
        assert found.reasons[0] == (
            "the drafter is not the one of the expectation: its content is dflash-hash, expected was "
            "0123456789ab"
        )
    assert (
        "the drafter is dflash-drafter, the expectation's is z-lab/x"
        in verdict(row(drafter="z-lab/x")).reasons
    )


def test_nothing_is_remarked_on_the_recorded_drafter() -> None:
    same = row(drafter_hash="dflash-hash", drafter="renamed", num_questions=12)
    assert verdict(same).reasons == ()


def test_a_part_of_a_data_set_is_said() -> None:
    assert verdict(row()).reasons == (
        "12 of 60 questions were asked; the interval says how much that leaves open",
    )


# Thinking --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "text", "known"),
    [
        ({"enable_thinking": False}, "42", False),
        ({"enable_thinking": True}, "42", True),
        ({}, "42", None),
        ({}, "", None),
        ({"enable_thinking": "false"}, "42", None),
        ({}, "<think>\nLet me see", True),
        ({}, "Let me see.\n</think>\n42", True),
        ({}, "<think>\n\n</think>\n\n42", None),
        ({"enable_thinking": False}, "<think>\n\n</think>\n\n42", False),
        ({"enable_thinking": False}, "<think>\nHm.\n</think>\n\n42", True),
        ({}, "<think>\n", None),
    ],
)
def test_whether_a_model_was_thinking(options: dict[str, Any], text: str, known: bool | None) -> None:
    result = made_result(num_questions=2)
    engine = result.engines[0]
    result.engines[0] = msgspec.structs.replace(engine, template_options=options)
    last = result.answers_of(0)[-1]
    result.answers.append(msgspec.structs.replace(last, text=text))
    assert thinking(result, 0) is known


def test_thinking_where_it_matters() -> None:
    result = made_result()
    result.engines[0] = msgspec.structs.replace(
        result.engines[0], template_options={"enable_thinking": False}
    )
    assert verdict(row(thinking=False), result).outcome == "pass"
    assert verdict(row(thinking=True), result).reasons == ("the model was not thinking",)
    change_answers(result, 0, text="Hm. </think> 42")
    assert verdict(row(thinking=False), result).reasons == ("the model was thinking",)
    assert verdict(row(), result).outcome == "pass"


# Recording -------------------------------------------------------------------------------------


def test_a_result_meets_its_own_recorded_rows(tmp_path: Path) -> None:
    result = made_result()
    write_expectations(
        recorded_expectations(result, "embedded", 0.95, "two cores"), tmp_path / "embedded.json"
    )
    rows = read_expectations(tmp_path)
    assert [one.method for one in rows] == ["dflash", "eagle3", "ngram"]
    verdicts = judge(result, rows)
    assert [(one.setting, one.outcome, one.reasons) for one in verdicts] == [
        (n, "pass", ()) for n in range(3)
    ]
    first = rows[0]
    assert (first.pair, first.tolerance, first.note, first.definition) == (
        "embedded",
        0.95,
        "two cores",
        "al",
    )
    assert (first.target_hash, first.drafter_hash, first.dataset_hash) == (
        "target-hash",
        "dflash-hash",
        "content",
    )
    assert (first.num_questions, first.concurrency, first.thinking) == (12, None, None)
    assert first.source == "recorded 2026-01-01 by version 0.5.0 on CPU"
    assert first.al == pytest.approx(al(result), abs=0.001)
    assert rows[2].drafter == "", "n-gram has no drafter"


def test_a_damaged_drafter_fails_a_recorded_row() -> None:
    rows = recorded_expectations(made_result(), "embedded", 0.9, "")
    damaged = made_result()
    shuffled = ModelPrint("dflash-drafter", content_hash="shuffled")
    damaged.engines[0] = made_engine(0, damaged.plan.settings[0], drafter=shuffled)
    change_answers(damaged, 0, num_accepted=1)
    found = judge(damaged, rows)
    assert [one.outcome for one in found] == ["fail", "pass", "pass"]
    assert "its content is shuffled" in found[0].reasons[0]


def test_settings_of_one_method_are_recorded_each() -> None:
    result = made_result(made_settings(ks=(3, 5)))
    rows = recorded_expectations(result, "embedded", 1.0, "")
    assert len(rows) == 6
    assert [one.setting for one in judge(result, rows)] == list(range(6))


@pytest.mark.parametrize("damage", [_unfinished, _failed, _no_engine, _nothing_drafted])
def test_nothing_is_recorded_of_half_a_result(damage: Callable[[Result], None]) -> None:
    result = made_result()
    damage(result)
    with pytest.raises(ExpectationError, match="Nothing can be expected by dflash"):
        recorded_expectations(result, "embedded", 0.9, "")


def test_no_drafts_no_expectations() -> None:
    with pytest.raises(ExpectationError, match="Nothing in this result drafts"):
        recorded_expectations(made_result(made_settings(("none",))), "embedded", 0.9, "")
