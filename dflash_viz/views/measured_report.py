"""A benchmark's report: one HTML file that opens without a network, the same as Markdown, and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

import msgspec
import plotly.graph_objects as go
import plotly.io
from plotly.offline import get_plotlyjs

from dflash_viz.metrics.measured import (
    MEASURED,
    Estimate,
    Verdict,
    by_kind,
    indexed,
    pairs,
    per_position,
    quality,
    quality_warnings,
    server_checks,
    setting_values,
)
from dflash_viz.results import Result, labels
from dflash_viz.views.markup import paragraph
from dflash_viz.views.measured_charts import (
    CURVES,
    al_chart,
    concurrency_chart,
    course_chart,
    position_chart,
    prompts_chart,
)
from dflash_viz.views.measured_page import result_html
from dflash_viz.views.measured_parts import to_markdown
from dflash_viz.views.measured_sections import result_parts
from dflash_viz.views.measured_text import INTERVALS, check_counts, few, num_prompts, title

ASSETS = Path(__file__).resolve().parents[2] / "assets"
STYLES = ("findings.css", "measured.css")
MAX_COURSES = 30
"""More charts nobody scrolls through; the tables have every setting."""
VERSION = "1.0"
"""Of the JSON document: the first number changes when a key goes or changes its meaning."""
CONFIG = {"displaylogo": False, "responsive": True}


def report_html(result: Result, verdicts: Sequence[Verdict]) -> str:
    """The whole report as one page, with charts: nothing in it is loaded from elsewhere.

    Light or dark, as the reader's system is.
    """
    charts = "".join(_embedded(figure, number) for number, figure in enumerate(_charts(result)))
    styles = "\n".join((ASSETS / name).read_text() for name in STYLES)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta name="color-scheme" content="light dark"><title>{escape(title(result))}</title>'
        f"<style>{styles}</style><script>{get_plotlyjs()}</script></head>"
        f'<body class="dv-report"><main><h1>DFlash Viz: a benchmark</h1>{result_html(result, verdicts)}'
        f'<section class="dv-charts" aria-label="Charts">{charts}{_left_out(result)}</section></main></body>'
        "</html>\n"
    )


def markdown(result: Result, verdicts: Sequence[Verdict]) -> str:
    """The report's words and tables as Markdown that GitHub renders."""
    return to_markdown(result_parts(result, verdicts))


def document(result: Result, verdicts: Sequence[Verdict]) -> dict[str, Any]:
    """The result as one document of plain values: numbers are numbers, None is what cannot be had."""
    result = indexed(result)
    plan, names = result.plan, labels(result.plan.settings)
    return {
        "format": "dflash-viz-measured",
        "version": VERSION,
        "result": {
            "id": result.head.result_id, "created_at": result.head.created_at,
            "program": result.head.program, "pair": plan.pair, "complete": result.complete,
            "dataset": _plain(plan.dataset), "max_tokens": plan.max_tokens, "top_p": plan.top_p,
            "seed": plan.seed, "top_k": plan.top_k,
        },
        "figures": [_plain(figure) for figure in MEASURED],
        "intervals": INTERVALS,
        "settings": [_setting(result, number, name) for number, name in enumerate(names)],
        "pairs": [_plain(pair) for pair in pairs(result)],
        "verdicts": [_plain(verdict) for verdict in verdicts],
        "quality": [_plain(one) for one in quality(result)],
        "warnings": [*filter(None, [few(result)]), *quality_warnings(result)],
        "checks": _checks(result),
        "server_checks": [_plain(one) for one in server_checks(result)],
        "failures": [_plain(failure) for failure in result.open_failures()],
        "notices": result.notices,
    }  # fmt: skip


def _setting(result: Result, number: int, name: str) -> dict[str, Any]:
    one, engine = result.plan.settings[number], result.engines.get(number)
    return {
        "setting": number,
        "label": name,
        **_plain(one),
        "finished": result.finished(number),
        "num_prompts": num_prompts(result, number),
        "figures": _estimates(setting_values(result, number)),
        "kinds": {kind: _estimates(values) for kind, values in by_kind(result, number).items()},
        "positions": [
            {"position": place, "accepted": rate, "drafted": drafted}
            for place, (rate, drafted) in enumerate(per_position(result, number), start=1)
        ],
        "engine": None if engine is None else _plain(engine),
    }


def _estimates(values: Mapping[str, Estimate | None]) -> dict[str, Any]:
    return {key: None if value is None else _plain(value) for key, value in values.items()}


def _checks(result: Result) -> dict[str, int]:
    found = check_counts(result)
    return {"agree": found[True], "disagree": found[False], "unknown": found[None]}


def _plain(value: Any) -> Any:
    """A struct or dataclass with every field it has, those at their defaults too."""
    if isinstance(value, msgspec.Struct) or hasattr(value, "__dataclass_fields__"):
        names = getattr(value, "__struct_fields__", None) or value.__dataclass_fields__
        return {name: _plain(getattr(value, name)) for name in names}
    if isinstance(value, Mapping):
        return {str(key): _plain(inner) for key, inner in value.items()}
    return [_plain(inner) for inner in value] if isinstance(value, list | tuple) else value


def _charts(result: Result) -> Iterator[go.Figure]:
    yield al_chart(result)
    yield position_chart(result)
    yield prompts_chart(result)
    if len({one.concurrency for one in result.plan.settings}) > 1:
        yield from (concurrency_chart(result, key) for key in CURVES)
    yield from (course_chart(result, setting) for setting in _courses(result)[:MAX_COURSES])


def _courses(result: Result) -> list[int]:
    """The settings that have a course."""
    return sorted({sample.setting for sample in result.samples})


def _left_out(result: Result) -> str:
    """A sentence where not every course is drawn."""
    total = len(_courses(result))
    said = f"The course over time is drawn for the first {MAX_COURSES} of {total} settings."
    return paragraph(said, "note") if total > MAX_COURSES else ""


def _embedded(figure: go.Figure, number: int) -> str:
    """A chart with its data. plotly writes ``<``, ``>`` and ``/`` in texts as escapes, so that none of
    them can end the script."""
    drawn = plotly.io.to_html(
        figure, full_html=False, include_plotlyjs=False, div_id=f"dv-chart-{number}", config=CONFIG
    )
    return f'<div class="dv-chart">{drawn}</div>'
