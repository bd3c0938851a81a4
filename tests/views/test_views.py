"""What leaves Python for the page."""

from __future__ import annotations

import json

from dflash_viz.metrics import running_figures
from dflash_viz.trace import Trace
from dflash_viz.views.engine_status import engine_status
from dflash_viz.views.page_lines import (
    figures_line,
    format_figure,
    problem_line,
    recorded_document,
    run_line,
)

HOSTILE = "</textarea><img src=x onerror=alert(1)><script>"


def test_lines_are_inert_wherever_they_land() -> None:
    for line in (run_line("live", HOSTILE), problem_line(HOSTILE, HOSTILE)):
        assert "<" not in line
        assert line.count("\n") == 1
        assert HOSTILE in json.loads(line).values()


def test_figures_line_has_value_and_definition(trace: Trace) -> None:
    line = json.loads(figures_line(trace.steps, "dflash"))
    shown = {f["key"]: f for f in line["figures"]}
    assert shown["al"]["value"] == "3.00"
    assert shown["rate"]["value"] == "67"
    assert all(f["definition"] for f in shown.values())
    assert {format_figure(f) for f in running_figures([])} == {"–", "0"}


def test_recorded_document_holds_the_whole_run(trace: Trace) -> None:
    lines = [json.loads(line) for line in recorded_document(trace).splitlines()]
    assert (lines[0]["origin"], lines[0]["play"]) == ("recorded", True)
    steps = [line for line in lines if line["type"] == "step"]
    assert [s["index"] for s in steps] == [0, 1, 2, 3]
    assert {line["lane"] for line in lines[1:]} == {"dflash"}
    assert lines[-1]["type"] == "end"


def test_engine_status_escapes_and_speaks() -> None:
    html = engine_status("DFlash", "failed", HOSTILE)
    assert "<img" not in html
    assert "failed" in html
    bar = engine_status("DFlash", "loading", "loading the target", 0.4, 24)
    assert 'aria-valuenow="40"' in bar
    assert "about 24 s left" in bar
    assert "progressbar" not in engine_status("DFlash", "ready", "ready")
