"""A benchmark's charts show its figures, tell lanes apart without colours, and hold no markup of others."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Any

import plotly.graph_objects as go
import pytest

from dflash_viz.metrics.measured import against, by_prompt, course, per_position, setting_value
from dflash_viz.views.lane_style import lane_styles
from dflash_viz.views.measured_charts import (
    PER_TITLE_LINE,
    al_chart,
    both_themes,
    concurrency_chart,
    course_chart,
    position_chart,
    prompts_chart,
)
from tests.measured import empty_result, made_result, made_settings
from tests.views.made_measured import busy, hostile_result

GROUNDS = ("#ffffff", "#0f1419")
"""The pages' backgrounds: of the report on a light and on a dark system."""


def drawn(figure: go.Figure) -> dict[str, Any]:
    """The figure's traces by name."""
    return {trace.name: trace for trace in figure.data}


def test_the_al_chart_holds_the_pooled_al_and_its_interval() -> None:
    result = made_result()
    traces = drawn(al_chart(result))
    assert list(traces) == ["dflash", "eagle3", "ngram"], "nothing is drafted without speculation"
    al = setting_value(result, 0, "al")
    assert al is not None
    assert al.low is not None
    assert al.high is not None
    one = traces["dflash"]
    assert one.x == (al.value,)
    assert one.error_x.array[0] == pytest.approx(al.high - al.value)
    assert one.error_x.arrayminus[0] == pytest.approx(al.value - al.low)


def test_too_few_prompts_have_no_bars() -> None:
    (bars,) = {trace.error_x.array for trace in al_chart(made_result(num_questions=4)).data}
    assert bars == (None,)


def test_positions_are_counted_after_the_anchor() -> None:
    result = busy(6)
    traces = drawn(position_chart(result))
    assert list(traces) == ["dflash", "eagle3", "ngram"], "a line a lane, not one for every concurrency"
    assert traces["dflash"].x == (1, 2, 3, 4, 5)
    rates = per_position(result, 0)
    assert traces["dflash"].y == tuple(rate for rate, _ in rates)
    assert traces["dflash"].customdata == tuple(drafted for _, drafted in rates)


def test_every_k_and_temperature_has_its_own_line() -> None:
    result = made_result(made_settings(("dflash", "none"), ks=(3, 5), temperatures=(0.0, 1.0)), 5)
    assert list(drawn(position_chart(result))) == [
        "dflash, K = 3, temperature 0", "dflash, K = 5, temperature 0",
        "dflash, K = 3, temperature 1", "dflash, K = 5, temperature 1",
    ]  # fmt: skip


@pytest.mark.parametrize("key", ["al", "speed", "speedup", "throughput", "throughput_gain", "latency"])
def test_curves_over_concurrency(key: str) -> None:
    result = busy(6)
    figure = concurrency_chart(result, key)
    curves = against(result, key)
    assert list(drawn(figure)) == list(curves)
    for label, points in curves.items():
        assert drawn(figure)[label].x == (1, 4, 16)
        assert drawn(figure)[label].y == tuple(estimate.value for _, estimate in points)
    has_line = [shape.y0 for shape in figure.layout.shapes] == [1]
    assert has_line == (key in ("speedup", "throughput_gain")), "where nothing is won"


def test_the_course_is_of_one_setting() -> None:
    result = busy(6)
    figure, points = course_chart(result, 1), course(result, 1)
    traces = drawn(figure)
    assert traces["tokens/s"].y == tuple(point.throughput for point in points)
    assert traces["AL"].y == tuple(point.al for point in points)
    assert traces["running"].y == (4, 4, 4, 4)
    assert "dflash, 4 at once" in figure.layout.title.text


def test_every_answer_is_a_point_with_its_question() -> None:
    result = made_result(num_questions=7)
    traces = drawn(prompts_chart(result))
    found = by_prompt(result, 0)
    assert traces["dflash"].x == tuple(one.al for one in found)
    assert traces["dflash"].text[0] == f"{found[0].question}: {found[0].text}"
    assert "none" not in traces


def charts(result: Any) -> list[go.Figure]:
    return [
        al_chart(result), position_chart(result), prompts_chart(result),
        *(concurrency_chart(result, key) for key in ("throughput", "speedup", "latency")),
        *(course_chart(result, setting) for setting in (0, 3)),
    ]  # fmt: skip


def test_nothing_measured_says_so() -> None:
    for figure in charts(empty_result(made_settings(), 3)):
        assert [note.text for note in figure.layout.annotations if note.text], figure.layout.title.text


def test_titles_say_what_is_shown_and_fit_a_phone() -> None:
    for figure in charts(busy(5)):
        lines = figure.layout.title.text.split("<br>")
        assert len(" ".join(lines)) > 30
        assert all(len(line) <= PER_TITLE_LINE for line in lines)
        assert figure.layout.paper_bgcolor == figure.layout.plot_bgcolor == "rgba(0,0,0,0)"


def test_settings_differ_by_form_and_lanes_look_as_elsewhere() -> None:
    result = busy(5)
    markers = {trace.name: (trace.marker.symbol, trace.marker.size) for trace in al_chart(result).data}
    assert len(set(markers.values())) == len(markers) == 9
    styles = lane_styles([(lane, lane) for lane in ("dflash", "eagle3", "ngram", "none")])
    for name, trace in drawn(concurrency_chart(result, "speed")).items():
        assert (trace.line.dash, trace.marker.symbol) == (styles[name].dash, styles[name].marker)


def luminance(colour: str) -> float:
    """Relative luminance (WCAG 2)."""
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return sum(weight * c for weight, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


@pytest.mark.parametrize("ground", GROUNDS)
def test_lines_are_legible_on_both_themes(ground: str) -> None:
    methods = ("dflash", "eagle3", "ngram", "none", "a", "b", "c", "d")
    for style in lane_styles([(name, name) for name in methods]).values():
        dark, light = sorted((luminance(both_themes(style)), luminance(ground)))
        assert (light + 0.05) / (dark + 0.05) >= 3, style.title


def texts(value: Any) -> list[str]:
    """Every text in a figure."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict):
        return [text for inner in value.values() for text in texts(inner)]
    return [text for inner in value for text in texts(inner)] if isinstance(value, list | tuple) else []


def test_no_text_is_markup_to_plotly() -> None:
    found = 0
    for figure in charts(hostile_result('<a href="http://x">x</a><b>&amp;')):
        for text in texts(figure.to_dict()):
            assert set(re.findall(r"<[^>]*>", text)) <= {"<br>", "<extra>", "</extra>"}, text
            found += text.count("&lt;a href")
    assert found > 10


def test_two_curves_of_one_lane_are_apart_in_form() -> None:
    result = made_result(made_settings(("dflash", "none"), ks=(3, 5, 7), concurrencies=(1, 2)), 5)
    figure = concurrency_chart(result, "speed")
    symbols = [trace.marker.symbol for trace in figure.data if trace.name.startswith("dflash")]
    assert all(before != after for before, after in pairwise(symbols))
