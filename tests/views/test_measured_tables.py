"""A benchmark's tables: the figures are those of the metrics, and what cannot be had is missing."""

from __future__ import annotations

import msgspec
import pandas as pd
import pytest

from dflash_viz.metrics.measured import MEASURED, by_kind, pairs, setting_value
from dflash_viz.results import Result
from dflash_viz.trace import Check
from dflash_viz.views.measured_tables import (
    answers_frame,
    compare_frame,
    kinds_frame,
    pairs_frame,
    samples_frame,
    settings_frame,
    verdicts_frame,
)
from tests.measured import empty_result, made_answer, made_engine, made_result, made_settings
from tests.views.made_measured import BUILTIN, busy, verdicts


@pytest.fixture(scope="module")
def result() -> Result:
    return made_result()


def test_a_row_a_setting_with_every_figure_and_its_interval(result: Result) -> None:
    frame = settings_frame(result)
    assert frame.label.tolist() == ["dflash", "eagle3", "ngram", "none"]
    for number in range(4):
        for figure in MEASURED:
            estimate, cells = setting_value(result, number, figure.key), frame.iloc[number]
            if estimate is None:
                assert cells[[figure.key, f"{figure.key}_low", f"{figure.key}_high"]].isna().all()
                continue
            assert cells[figure.key] == estimate.value
            assert pd.isna(cells[f"{figure.key}_low"]) == (estimate.low is None)
            if estimate.low is not None:
                assert (cells[f"{figure.key}_low"], cells[f"{figure.key}_high"]) == (
                    estimate.low,
                    estimate.high,
                )
    assert frame.al.isna().tolist() == [False, False, False, True]
    first = frame.iloc[0]
    assert (first.K, first.prompts, first.finished) == (5, 12, True)
    assert (first.target, first.target_hash, first.drafter) == ("target", "target-hash", "dflash-drafter")
    assert (first["dtype"], first.device, frame.iloc[2].drafter) == ("float32", "CPU", "")


def test_turns_of_a_question_are_one_prompt() -> None:
    frame = settings_frame(made_result(num_questions=6, num_turns=2))
    assert frame.prompts.tolist() == [6] * 4
    assert frame.answers.tolist() == [12.0] * 4


def test_an_answer_that_was_asked_for_again_counts_once() -> None:
    result = made_result(num_questions=6)
    again = made_answer(0, result.plan.settings[0], result.questions["q3"], text="again")
    result.answers.append(again)
    frame = answers_frame(result)
    mine = frame[(frame.setting == 0) & (frame.question == "q3")]
    assert mine.text.tolist() == ["again"]
    assert len(frame) == 4 * 6


def test_a_row_an_answer(result: Result) -> None:
    frame = answers_frame(result)
    answer, cells = result.answers[0], frame.iloc[0]
    assert (cells.label, cells.question, cells.kind, cells.turn) == ("dflash", "q0", "maths", 0)
    for name in ("latency_s", "decode_s", "num_decode_tokens", "num_accepted", "text", "trace", "draft_s"):
        assert cells[name] == getattr(answer, name), name
    assert cells.acceptance_length == answer.acceptance_length
    assert frame.agrees.all()
    assert frame[frame.lane == "none"].acceptance_length.isna().all()


def test_what_vllm_did_not_count_is_missing() -> None:
    result = made_result(num_questions=3)
    result.answers[0] = msgspec.structs.replace(result.answers[0], check=Check(None, "no counts"))
    result.answers[1] = msgspec.structs.replace(result.answers[1], check=Check(False, "differs"))
    agrees = answers_frame(result).agrees
    assert agrees.isna().tolist()[:3] == [True, False, False]
    assert agrees.dropna().tolist()[:2] == [False, True]


def test_a_row_a_kind(result: Result) -> None:
    frame = kinds_frame(result)
    assert frame.kind.tolist()[:3] == ["maths", "code", "chat"]
    assert frame.prompts.tolist() == [4] * 12
    values = by_kind(result, 0)["code"]
    assert values["al"] is not None
    assert frame.iloc[1].al == values["al"].value
    assert pd.isna(frame.iloc[1].al_low), "four prompts are too few for an interval"


def test_a_row_a_pair(result: Result) -> None:
    frame, found = pairs_frame(result), pairs(result)
    assert len(frame) == len(found) == 6
    for (_, cells), pair in zip(frame.iterrows(), found, strict=True):
        assert (cells["first"], cells["second"], cells.prompts) == (pair.first, pair.second, pair.num_prompts)
        assert pair.speed is not None
        assert (cells.speed_ratio, cells.speed_ratio_low) == (pair.speed.value, pair.speed.low)
        assert pd.isna(cells.al_difference) == (pair.al is None)
        assert (cells.same_text, cells.compared_texts) == pair.same_text


def test_a_row_a_verdict(result: Result) -> None:
    frame = verdicts_frame(verdicts(result, note="a note"))
    assert frame.outcome.tolist() == ["pass", "fail", "not comparable"]
    assert frame.setting.tolist() == [0, 0, 0]
    assert frame.measured.isna().tolist() == [False, False, True]
    assert (frame.iloc[1].expected, frame.iloc[1].needed, frame.iloc[1].reasons) == (
        6.5,
        5.85,
        "another drafter",
    )
    assert (frame.iloc[1].source, frame.iloc[1].note, frame.iloc[1].expected_speedup) == (
        "Table 1",
        "a note",
        5.15,
    )


def test_a_row_a_sample(result: Result) -> None:
    frame = samples_frame(result)
    sample, cells = result.samples[0], frame.iloc[0]
    assert (cells["at"], cells.seconds, cells.output_tokens) == (
        sample.at,
        sample.seconds,
        sample.output_tokens,
    )
    assert cells.throughput == pytest.approx(sample.output_tokens / sample.seconds)
    assert cells.acceptance_length == pytest.approx(1 + sample.num_accepted / sample.num_drafts)
    assert frame[frame.lane == "none"].acceptance_length.isna().all()


def test_nothing_measured_has_columns_too() -> None:
    empty = empty_result(made_settings(), 3)
    for frame in (answers_frame(empty), kinds_frame(empty), pairs_frame(empty), samples_frame(empty)):
        assert frame.empty
        assert len(frame.columns) > 8
    whole = settings_frame(empty)
    assert whole.finished.tolist() == [False] * 4
    assert (whole.target == "").all()
    assert verdicts_frame([]).empty


def slower(factor: float, num_questions: int = 12) -> Result:
    """The default result with DFlash's decoding so many times as long."""
    result = made_result(num_questions=num_questions, dataset=BUILTIN)
    result.answers = [
        msgspec.structs.replace(one, decode_s=one.decode_s * factor) if one.setting == 0 else one
        for one in result.answers
    ]
    return result


def test_two_results_are_compared_on_the_prompts_both_answered() -> None:
    a, b = made_result(dataset=BUILTIN), slower(2.0, num_questions=9)
    frame = compare_frame(a, b)
    assert frame.lane.tolist() == ["dflash", "eagle3", "ngram", "none"]
    assert frame.common_prompts.tolist() == [9] * 4
    dflash = frame.iloc[0]
    assert dflash.speed_ratio == pytest.approx(0.5)
    assert dflash.speed_ratio_low == pytest.approx(0.5)
    assert dflash.al_difference == dflash.al_difference_low == 0
    assert frame.iloc[1].speed_ratio == pytest.approx(1)
    ours, theirs = setting_value(a, 0, "speed"), setting_value(b, 0, "speed")
    assert ours is not None
    assert theirs is not None
    assert (dflash.speed_a, dflash.speed_b) == (ours.value, theirs.value)
    assert pd.isna(frame.iloc[3].al_difference)


def test_the_difference_is_b_less_a() -> None:
    a, b = made_result(dataset=BUILTIN), made_result(dataset=BUILTIN)
    b.answers = [
        msgspec.structs.replace(one, num_accepted=one.num_accepted + one.num_drafts)
        if one.num_drafts
        else one
        for one in b.answers
    ]
    assert compare_frame(a, b).al_difference.tolist()[:3] == pytest.approx([1, 1, 1])


def test_other_questions_have_no_difference() -> None:
    a = made_result(dataset=BUILTIN)
    for content in ("another", ""):
        b = made_result(dataset=msgspec.structs.replace(BUILTIN, content_hash=content))
        frame = compare_frame(a, b)
        assert frame.common_prompts.tolist() == [0] * 4
        assert frame.speed_ratio.isna().all()
        assert frame.speed_a.notna().all()
    blank = made_result(dataset=msgspec.structs.replace(BUILTIN, content_hash=""))
    assert compare_frame(blank, blank).speed_ratio.isna().all(), "an unknown content is no common one"


def test_settings_match_by_what_they_are_not_by_their_number() -> None:
    frame = compare_frame(busy(5), made_result(made_settings(("none", "dflash"), concurrencies=(16, 2)), 5))
    assert list(zip(frame.lane, frame.concurrency, frame.setting_a, frame.setting_b, strict=True)) == [
        ("dflash", 16, 2, 2),
        ("none", 16, 11, 0),
    ]


def test_an_engine_that_never_started_leaves_its_cells_empty() -> None:
    result = made_result(num_questions=3)
    result.engines = {1: made_engine(1, result.plan.settings[1])}
    assert settings_frame(result).target.tolist() == ["", "target", "", ""]
