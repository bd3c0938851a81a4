"""What leaves Python for the page."""

from __future__ import annotations

import json
import re
from typing import Any

import msgspec
import pytest

from dflash_viz.metrics import FIGURES, lane_values
from dflash_viz.trace import Draw, Fingerprint, ModelPrint, Position, TokenProb, Trace
from dflash_viz.views.engine_status import Chip, chips_html
from dflash_viz.views.lane_style import lane_styles
from dflash_viz.views.page_lines import (
    LaneFigures,
    definitions_line,
    format_value,
    lanes_line,
    problem_line,
    recorded_document,
    run_line,
    steps_line,
    text_line,
    trace_line,
    values_line,
)
from dflash_viz.views.text_verdict import NO_REFERENCE, REFERENCE, SAMPLED, judge, no_comparison
from tests.conftest import make_header
from tests.metrics.test_lossless import answer

HOSTILE = "</textarea><img src=x onerror=alert(1)><script>"
STYLE = lane_styles([("dflash", "dflash")])["dflash"]


def lines_of(document: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in document.splitlines()]


def test_lines_are_inert_wherever_they_land() -> None:
    for line in (
        run_line("live", HOSTILE),
        problem_line(HOSTILE, HOSTILE),
        lanes_line([(HOSTILE, "x", 3)], lane_styles([(HOSTILE, "x")])),
    ):
        assert "<" not in line
        assert line.count("\n") == 1
        assert HOSTILE in str(json.loads(line))


def test_every_value_has_a_definition(trace: Trace) -> None:
    defined = {figure["key"] for figure in json.loads(definitions_line())["figures"]}
    line = json.loads(LaneFigures("dflash").line(trace.steps))
    assert line["values"]["al"] == "3.00"
    assert line["values"]["rate"] == "67"
    assert set(line["values"]) <= defined == {figure.key for figure in FIGURES}
    assert {format_value(key, value) for key, value in lane_values([]).items()} == {"–", "0"}
    assert json.loads(values_line("none", {"speedup": None}))["values"] == {"speedup": "–"}


def test_every_chart_has_its_data_and_a_definition(trace: Trace) -> None:
    charts = json.loads(definitions_line())["charts"]
    line = json.loads(LaneFigures("dflash").line(trace.steps))
    assert all(chart["definition"] and chart["key"] in line for chart in charts)
    assert line["histogram"] == [0, 1, 1, 1]
    assert sum(line["split"].values()) == pytest.approx(0.15)


def test_courses_hold_only_what_is_new(trace: Trace) -> None:
    figures = LaneFigures("dflash")
    first, second = (json.loads(figures.line(part)) for part in (trace.steps[:2], trace.steps[2:]))
    whole = json.loads(LaneFigures("dflash").line(trace.steps))
    assert first["al"] + second["al"] == whole["al"]
    assert first["race"] + second["race"] == whole["race"]
    assert (first["after"], second["after"]) == (2, 4)
    for key in ("values", "histogram", "positions", "split"):
        assert second[key] == whole[key]


def test_in_a_long_run_a_point_stands_for_several_steps(trace: Trace) -> None:
    line = json.loads(LaneFigures("dflash", 2).line(trace.steps))
    assert line["bin"] == 2
    assert line["al"] == [[1, 2, 2], [3, 3.5, 3]]  # prefill has no AL; steps 2 and 3 have 4 and 3
    assert line["race"] == [[0.15, 3], [0.25, 9]]


def test_recorded_document_holds_the_whole_run(trace: Trace) -> None:
    other = Trace(msgspec.structs.replace(trace.header, lane="none"), trace.steps, trace.end)
    lines = lines_of(recorded_document([trace, other], "note", text_line("none", REFERENCE)))
    assert (lines[0]["origin"], lines[0]["play"], lines[0]["contended"]) == ("recorded", True, False)
    assert [lane["name"] for lane in lines[2]["lanes"]] == ["dflash", "none"]
    for lane in ("dflash", "none"):
        (steps,) = (line for line in lines if line["type"] == "steps" and line["lane"] == lane)
        assert steps["count"] == 4
        assert steps["num_drafted"] == [0, 3, 3, 3]
        assert steps["own"] == [5, 7, 9, 2]
        assert steps["cut"] == {"3": 2}
        assert steps["start"] == [0]  # each begins where the one before ends
        assert (steps["last"], steps["prefill"], steps["batch_size"]) == ("prb-", [0], [])
        assert lines[[*lines].index(steps) + 1]["after"] == 1
    assert [line["type"] for line in lines[-2:]] == ["text", "finish"]


def test_a_contended_run_says_so(trace: Trace) -> None:
    header = msgspec.structs.replace(trace.header, contended_with=["none"])
    assert lines_of(recorded_document([Trace(header, trace.steps)]))[0]["contended"] is True


def test_probabilities_go_to_the_page_in_both_forms(trace: Trace) -> None:
    position = Position([TokenProb(6, 0.1234567)], [], 0.5, draw=Draw(0.25, 1.0, 0.75))
    trace.steps[1] = msgspec.structs.replace(trace.steps[1], positions=[position])
    shown = [{"target": [[6, 0.12346]], "drafter": [], "p_target_drafted": 0.5, "draw": [0.25, 1, 0.75]}]
    assert json.loads(trace_line(trace.steps[1], "dflash"))["positions"] == shown
    assert json.loads(steps_line(trace))["positions"] == {"1": shown}


def test_the_page_is_told_where_ngram_copied(trace: Trace) -> None:
    header = make_header(
        prompt_token_ids=[6, 7, 8, 9, 5, 6, 7],
        fingerprint=Fingerprint("ngram", ModelPrint("t"), prompt_lookup_min=1, prompt_lookup_max=3),
    )
    first = msgspec.structs.replace(trace.steps[0], emitted=[5])
    copied = msgspec.structs.replace(trace.steps[1], drafted=[6, 7])
    assert json.loads(steps_line(Trace(header, [first, copied])))["source"] == {"1": [5, 1]}


def test_lanes_look_different_from_each_other() -> None:
    lanes = [("dflash", "dflash"), ("eagle3", "eagle3"), ("ngram", "ngram"), ("none", "none")]
    lanes += [("wide", "dflash"), ("suffix", "suffix")]
    styles = lane_styles(lanes)
    assert [styles[n].title for n, _ in lanes] == [
        "DFlash", "EAGLE-3", "n-gram", "no speculation", "wide", "suffix",
    ]  # fmt: skip
    for what in ("light", "dark", "dash", "marker", "sign"):
        assert len({getattr(style, what) for style in styles.values()}) == len(styles), what


def test_verdicts() -> None:
    reference = answer(1, 2, 3)
    assert no_comparison(reference, reference) is REFERENCE
    assert no_comparison(answer(1), None) is NO_REFERENCE
    assert no_comparison(answer(1), reference) is None
    warm = answer(1, 2)
    warm.header = make_header(sampling=msgspec.structs.replace(warm.header.sampling, temperature=1.0))
    assert no_comparison(warm, reference) is SAMPLED
    same = judge(answer(1, 2, 3), reference, None)
    assert (same.verdict, same.at) == ("same", None)
    assert "3 tokens" in same.message


def near(dtype: str, *best: TokenProb) -> Any:
    target = msgspec.structs.replace(make_header().fingerprint.target, dtype=dtype)
    reference, other = answer(1, 2), answer(1, 5)
    other.header = make_header(
        fingerprint=msgspec.structs.replace(other.header.fingerprint, target=target),
        tokens={5: "<b>"},
    )
    return judge(other, reference, best or None)


def test_a_near_tie_is_called_one_and_its_margin_is_shown() -> None:
    verdict = near("bfloat16", TokenProb(2, 0.412), TokenProb(5, 0.405))
    assert (verdict.verdict, verdict.at) == ("near-tie", 1)
    for part in ("“<b>” instead of “b”", "0.405 and 0.412", "margin 0.007", "bfloat16"):
        assert part in verdict.message


def test_more_than_a_near_tie_is_called_a_difference() -> None:
    assert near("float32", TokenProb(2, 0.412), TokenProb(5, 0.405)).verdict == "differs"
    assert near("bfloat16", TokenProb(2, 0.8), TokenProb(5, 0.1)).verdict == "differs"
    assert "not the target's two" in near("bfloat16", TokenProb(2, 0.8), TokenProb(9, 0.1)).message
    assert "not known" in near("bfloat16").message


def test_chips_escape_and_speak() -> None:
    html = chips_html([Chip(STYLE, "failed", HOSTILE)])
    assert "<img" not in html
    assert "failed" in html
    bar = chips_html([Chip(STYLE, "loading", "loading the target", 0.4, 24)])
    assert 'aria-valuenow="40"' in bar
    assert "about 24 s left" in bar
    assert "progressbar" not in chips_html([Chip(STYLE, "ready", "ready")])
    assert "recorded runs only" in chips_html([])


@pytest.mark.parametrize(
    ("state", "mark", "words"), [("asleep", "☾", "memory"), ("waking", "◓", "acceptance length")]
)
def test_a_state_that_words_alone_do_not_explain_has_a_title(state: str, mark: str, words: str) -> None:
    html = chips_html([Chip(STYLE, state, state)])
    assert f"dv-{state}" in html
    assert f"{mark}</span> {state}<" in html
    title = re.search(r' title="([^"]+)"', html)
    assert title is not None
    assert words in title[1]
    assert "title=" not in chips_html([Chip(STYLE, "ready", "ready")])


def test_what_all_lanes_share_is_said_once() -> None:
    html = chips_html([Chip(STYLE, "asleep"), Chip(STYLE, "ready")], HOSTILE)
    assert html.count("dv-chips-note") == 1
    assert "<img" not in html
    assert "dv-chips-note" not in chips_html([Chip(STYLE, "ready")])
