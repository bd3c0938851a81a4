"""The course of a measurement, and figures against the number of requests at once."""

from __future__ import annotations

import msgspec
import pytest

from dflash_viz.metrics.measured import against, course, few_questions, setting_value, stops_paying
from dflash_viz.metrics.measured.course import CoursePoint
from dflash_viz.results import Result, Sample, Stretch
from tests.measured import empty_result, made_engine, made_result, made_settings


def test_samples_are_differences() -> None:
    result = empty_result(made_settings(("dflash", "none")))
    result.samples = [
        Sample(0, 2.0, 2.0, 40, 10, 50, 15, 4, 1),
        Sample(1, 2.0, 2.0, 99, 0, 0, 0, 1, 0),
        Sample(0, 4.0, 2.0, 10, 0, 0, 0, 2, 0),
        Sample(0, 4.0, 0.0, 10, 0, 0, 0, 2, 0),
    ]
    assert course(result, 0) == [CoursePoint(2.0, 20.0, 2.5, 4, 1), CoursePoint(4.0, 5.0, None, 2, 0)]
    assert course(result, 1) == [CoursePoint(2.0, 49.5, None, 1, 0)]


@pytest.mark.parametrize("second", [[2.0, 4.0], [2.05, 4.0], [1.0], [6.5]])
def test_stretches_follow_one_another(second: list[float]) -> None:
    """A new stretch is known by where its first sample begins, also when that ends later than the last."""
    result = empty_result(made_settings(("dflash",)))
    for ends in ([2.0, 4.0, 6.0], second):
        begin = 0.0
        for at in ends:
            result.samples.append(Sample(0, at, at - begin, 10, 5, 25, 5, 1, 0))
            begin = at
    found = [point.at for point in course(result, 0)]
    assert found == pytest.approx([2, 4, 6, *(6 + at for at in second)])


def test_intervals_that_are_not_quite_even_are_one_stretch() -> None:
    result = empty_result(made_settings(("dflash",)))
    result.samples = [
        Sample(0, 2.0, 2.0, 10, 5, 25, 5, 1, 0), Sample(0, 4.01, 2.02, 10, 5, 25, 5, 1, 0),
    ]  # fmt: skip
    assert [point.at for point in course(result, 0)] == [2.0, 4.01]


def test_a_course_adds_up_to_the_whole() -> None:
    result = made_result()
    points = course(result, 0)
    whole = setting_value(result, 0, "throughput")
    assert whole is not None
    assert sum(point.throughput for point in points) / len(points) == pytest.approx(whole.value)


def test_curves_are_by_lane_and_sorted() -> None:
    result = made_result(made_settings(ks=(3, 5), concurrencies=(16, 1, 4)))
    curves = against(result, "al")
    assert list(curves) == [f"{lane}, K = {k}" for lane in ("dflash", "eagle3", "ngram") for k in (3, 5)]
    assert [number for number, _ in curves["dflash, K = 3"]] == [1, 4, 16]
    at_four = next(n for n, one in enumerate(result.plan.settings) if one.concurrency == 4)
    assert curves["dflash, K = 3"][1][1] == setting_value(result, at_four, "al")
    assert "none" in against(result, "throughput")


def gains(of: dict[int, float]) -> Result:
    """DFlash with these throughputs, in multiples of that without speculation."""
    result = empty_result(made_settings(("dflash", "none"), concurrencies=list(of)))
    for number, asked in enumerate(result.plan.settings):
        tokens = 1000 if asked.plain else round(1000 * of[asked.concurrency])
        result.engines[number] = made_engine(number, asked)
        result.stretches.append(Stretch(number, 10.0, 5, tokens, tokens, 0, 0, 0))
    return result


@pytest.mark.parametrize(
    ("of", "sentence"),
    [
        ({1: 2.0, 8: 1.21, 16: 0.93, 32: 0.8}, "up to 8 at once (1.21 ×), slower at 16 (0.93 ×)."),
        ({16: 0.9, 1: 2.0}, "up to 1 at once (2.00 ×), slower at 16 (0.90 ×)."),
        ({1: 2.0, 16: 1.1}, "faster than no speculation throughout, from 1 to 16 at once (1.10 × at 16)."),
        ({1: 0.7, 16: 0.9}, "not faster than no speculation at any number measured, from 1 to 16 at once "
         "(at best 0.90 ×)."),
        ({1: 0.9, 4: 1.2, 8: 0.8}, "at 4 (1.20 ×) at once, slower at 1 (0.90 ×), 8 (0.80 ×)."),
    ],
)  # fmt: skip
def test_where_speculation_stops_paying(of: dict[int, float], sentence: str) -> None:
    (said,) = stops_paying(gains(of))
    assert said.startswith("dflash: ")
    assert said.endswith(sentence)


def test_one_concurrency_says_nothing_of_others() -> None:
    assert stops_paying(gains({1: 2.0})) == []
    assert stops_paying(made_result(made_settings(("none",), concurrencies=(1, 2)))) == []


def test_what_is_not_finished_says_nothing_of_where_it_stops_paying() -> None:
    result = gains({1: 2.0, 8: 1.2, 16: 0.9, 32: 0.8})
    unfinished = (1, 6)  # DFlash at 8 at once, no speculation at 16
    result.stretches = [
        msgspec.structs.replace(one, finished=one.setting not in unfinished) for one in result.stretches
    ]
    assert stops_paying(result) == [
        "dflash: faster than no speculation up to 1 at once (2.00 ×), slower at 32 (0.80 ×)."
    ]
    assert [number for number, _ in against(result, "throughput_gain")["dflash"]] == [1, 8, 16, 32]


@pytest.mark.parametrize(
    ("num_questions", "concurrencies", "said"),
    [
        (1, [1], ""),
        (64, [1, 16, 4], ""),
        (63, [1, 16, 4], "Few questions (63) for 16 at once: the beginning and the end, with fewer at once, "
         "weigh in throughput and speedup. 64 questions or more are enough."),
        (60, [128, 8, 64, 16], "Few questions (60) for 16, 64 and 128 at once: no more than 60 ever run at "
         "once; the beginning and the end, with fewer at once, weigh in throughput and speedup. 512 "
         "questions or more are enough."),
    ],
)  # fmt: skip
def test_few_questions_for_many_at_once_are_told(
    num_questions: int, concurrencies: list[int], said: str
) -> None:
    assert few_questions(num_questions, concurrencies) == said


def test_no_gain_without_a_measurement_without_speculation() -> None:
    result = gains({1: 2.0, 2: 1.5})
    result.stretches = [
        msgspec.structs.replace(one, seconds=0.0) if one.setting == 3 else one for one in result.stretches
    ]
    assert [number for number, _ in against(result, "throughput_gain")["dflash"]] == [1]


def test_a_short_last_interval_is_part_of_the_one_before() -> None:
    result = empty_result(made_settings(("dflash",)))
    result.samples = [
        Sample(0, 1.0, 1.0, 40, 10, 50, 15, 4, 0),
        Sample(0, 2.0, 1.0, 40, 10, 50, 15, 4, 0),
        Sample(0, 2.1, 0.1, 60, 5, 25, 25, 0, 0),
    ]
    whole = CoursePoint(2.1, 100 / 1.1, 1 + 40 / 15, 0, 0)
    assert course(result, 0)[0] == CoursePoint(1.0, 40.0, 2.5, 4, 0)
    assert course(result, 0)[1:] == [whole]
