"""A benchmark's charts. Lanes look as they do elsewhere; a lane's settings differ by the marker's filling.

Colours are legible on a light and a dark page alike (3 : 1 for lines), and text is a grey that
``assets/measured.css`` replaces by the page's own colour.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from dflash_viz.metrics.measured import (
    Estimate,
    against,
    by_prompt,
    course,
    indexed,
    lane_labels,
    per_position,
    setting_value,
)
from dflash_viz.results import Result, Setting, labels
from dflash_viz.views.lane_style import LaneStyle, lane_styles
from dflash_viz.views.measured_text import FIGURE, column, shortened

TEXT, GRID = "#767676", "rgba(128,128,128,0.3)"
VARIANTS = (("", 10), ("-open", 10), ("-open-dot", 10), ("", 6), ("-open", 6))
"""What tells the settings of one lane apart: the marker's filling, and its size in pixels."""
ROW, FRAME = 34, 150
"""Pixels of a setting's row, and of what is around the rows."""
HEIGHT = 400
PER_TITLE_LINE = 48
"""Characters of a title on one line: what a phone's width holds."""
TOP = {"y": 1, "yref": "container", "yanchor": "top", "pad": {"t": 6, "l": 4, "b": 10}, "automargin": True}
LEGEND = {"orientation": "h", "yref": "container", "y": 0, "yanchor": "bottom", "x": 0}
AXIS = {"gridcolor": GRID, "zerolinecolor": GRID, "linecolor": GRID, "automargin": True}
CURVES = ("throughput", "latency", "al", "speedup", "throughput_gain")
"""The keys of the figures that are drawn against concurrency, the one that is shown first in front."""
RATIOS = ("speedup", "throughput_gain")
"""Figures that are 1 where nothing is won."""


@dataclass(frozen=True)
class Look:
    """How one setting is drawn, and its name, which is escaped already."""

    name: str
    colour: str
    dash: str
    marker: str
    size: int

    @property
    def points(self) -> dict[str, Any]:
        """Its markers, as plotly wants them."""
        edge = {"color": self.colour, "width": 1.5}
        return {"color": self.colour, "symbol": self.marker, "size": self.size, "line": edge}

    @property
    def line(self) -> dict[str, Any]:
        """Its line, as plotly wants it."""
        return {"color": self.colour, "dash": self.dash, "width": 2}


def al_chart(result: Result) -> go.Figure:
    """The pooled AL of every setting that drafts, with its 95 % interval."""
    figure = _figure(
        "AL by setting: 1 + accepted tokens / drafts, pooled over the prompts; bars: 95 % interval"
    )
    rows, result = 0, indexed(result)
    for number, look in enumerate(_looks(result)):
        if (al := setting_value(result, number, "al")) is None:
            continue
        rows += 1
        figure.add_scatter(
            x=[al.value], y=[look.name], mode="markers", marker=look.points, name=look.name,
            error_x=_bars([al], look), hovertemplate=f"%{{x:.2f}}, {al.num_prompts} prompts",
        )  # fmt: skip
    figure.update_xaxes(title="AL, tokens")
    figure.update_yaxes(autorange="reversed", type="category")
    return _finished(figure, height=FRAME + ROW * rows, legend=False, empty="Nothing was drafted.")


def position_chart(result: Result) -> go.Figure:
    """Unconditional acceptance by drafted position: a line for every lane, K and temperature.

    Of several concurrencies the first is drawn; what a drafter guesses does not depend on it.
    """
    figure = _figure("Acceptance by position: drafts accepted there / drafts that had a token there")
    names, result = lane_labels(result.plan.settings), indexed(result)
    for look, name in zip(_lane_looks(result), dict.fromkeys(names), strict=True):
        rates = per_position(result, names.index(name))
        if not rates:
            continue
        figure.add_scatter(
            x=list(range(1, len(rates) + 1)), y=[rate for rate, _ in rates], mode="lines+markers",
            line=look.line, marker=look.points, name=look.name, customdata=[drafted for _, drafted in rates],
            hovertemplate="position %{x}: %{y:.1%} of %{customdata}",
        )  # fmt: skip
    figure.update_xaxes(title="position after the anchor", dtick=1 if _most_positions(figure) <= 10 else None)
    figure.update_yaxes(title="accepted", tickformat=".0%", range=[0, 1.02])
    return _finished(figure, empty="Nothing was drafted.")


def concurrency_chart(result: Result, key: str) -> go.Figure:
    """One of ``MEASURED`` against how many requests run at the same time, a line a lane."""
    shown = FIGURE[key]
    figure = _figure(f"{shown.label} by concurrency: {_first_sentence(shown.definition)}")
    names = dict.fromkeys(lane_labels(result.plan.settings))
    looks = dict(zip(names, _lane_looks(result), strict=True))
    for label, points in against(indexed(result), key).items():
        look = looks[label]
        estimates = [estimate for _, estimate in points]
        figure.add_scatter(
            x=[concurrency for concurrency, _ in points], y=[one.value for one in estimates],
            mode="lines+markers", line=look.line, marker=look.points, name=look.name,
            error_y=_bars(estimates, look), hovertemplate="%{x} at once: %{y:.2f}",
        )  # fmt: skip
    used = sorted({one.concurrency for one in result.plan.settings})
    figure.update_xaxes(
        title="requests at the same time", type="log", tickvals=used, ticktext=list(map(str, used))
    )
    figure.update_yaxes(title=column(shown), rangemode="tozero")
    if key in RATIOS:
        figure.add_hline(y=1, line={"color": TEXT, "dash": "dot", "width": 1})
    return _finished(figure)


def course_chart(result: Result, setting: int) -> go.Figure:
    """Throughput, AL and load of one setting over the time it was measured, from vLLM's own counters."""
    name = _looks(result)[setting].name
    figure = make_subplots(rows=3, shared_xaxes=True, vertical_spacing=0.06)
    _titled(figure, f"{name} over time, from differences of vLLM's own counters")
    points, look = course(result, setting), _looks(result)[setting]
    at = [point.at for point in points]
    plain = {"line": look.line, "marker": {**look.points, "size": 6}, "mode": "lines+markers"}
    grey = {"mode": "lines", "line": {"color": TEXT, "width": 2, "dash": "dot"}}
    for row, series, how, what in (
        (1, [point.throughput for point in points], plain, "tokens/s"),
        (2, [point.al for point in points], plain, "AL"),
        (3, [point.running for point in points], plain, "running"),
        (3, [point.waiting for point in points], grey, "waiting (dotted)"),
    ):
        figure.add_scatter(
            x=at, y=series, name=what, row=row, col=1, hovertemplate=f"%{{x:.1f}} s: %{{y:.4g}} {what}", **how
        )
    for row, title in enumerate(("tokens/s", "AL", "requests"), start=1):
        figure.update_yaxes(title=title, rangemode="tozero", row=row, col=1)
    figure.update_xaxes(title="seconds of measuring", row=3, col=1)
    figure.update_xaxes(rangemode="tozero")
    return _finished(figure, height=HEIGHT + 140, legend=False, empty="There are no samples of the counters.")


def prompts_chart(result: Result) -> go.Figure:
    """The AL of every single answer, a row a setting: how much prompts differ."""
    figure = _figure(
        "AL by prompt: each answer's own 1 + accepted tokens / drafts; box: quartiles and median"
    )
    rows, result = 0, indexed(result)
    for number, look in enumerate(_looks(result)):
        found = [one for one in by_prompt(result, number) if one.al is not None]
        if not found:
            continue
        rows += 1
        figure.add_box(
            x=[one.al for one in found], y=[look.name] * len(found), orientation="h", name=look.name,
            boxpoints="all", pointpos=0, jitter=0.5, marker={**look.points, "size": 6, "opacity": 0.7},
            line={"color": look.colour, "width": 1.5}, fillcolor="rgba(0,0,0,0)", hoveron="points",
            text=[_told(f"{one.question}: {one.text}") for one in found],
            hovertemplate="%{x:.2f}<br>%{text}<extra></extra>",
        )  # fmt: skip
    figure.update_xaxes(title="AL of one answer, tokens")
    figure.update_yaxes(autorange="reversed", type="category")
    return _finished(figure, height=FRAME + 2 * ROW * rows, legend=False, empty="Nothing was drafted.")


def both_themes(style: LaneStyle) -> str:
    """A lane's colour half-way between that of the light and that of the dark page."""
    pairs = zip(_channels(style.light), _channels(style.dark), strict=True)
    return "#" + "".join(f"{(light + dark) // 2:02x}" for light, dark in pairs)


def _channels(colour: str) -> list[int]:
    return [int(colour[i : i + 2], 16) for i in (1, 3, 5)]


def _looks(result: Result) -> list[Look]:
    return _looks_of(result.plan.settings, labels(result.plan.settings))


def _lane_looks(result: Result) -> list[Look]:
    """The looks of the curves over concurrency: one for each setting at the first concurrency it has."""
    named = dict(zip(lane_labels(result.plan.settings), result.plan.settings, strict=True))
    return _looks_of(list(named.values()), list(named))


def _looks_of(settings: Sequence[Setting], names: Sequence[str]) -> list[Look]:
    """A lane's colour, line and marker; its first, second, ... setting fill the marker differently."""
    styles = lane_styles(list(dict.fromkeys((one.lane, one.method) for one in settings)))
    before: Counter[str] = Counter()
    looks = []
    for one, name in zip(settings, names, strict=True):
        style, (filling, size) = styles[one.lane], VARIANTS[before[one.lane] % len(VARIANTS)]
        before[one.lane] += 1
        looks.append(Look(_told(name, 60), both_themes(style), style.dash, style.marker + filling, size))
    return looks


def _told(text: str, length: int = 80) -> str:
    """A text in plotly's own small markup: on one line, shortened, and nothing in it is markup."""
    return escape(shortened(text, length), quote=False)


def _first_sentence(text: str) -> str:
    return text.split(". ", maxsplit=1)[0].rstrip(".")


def _bars(estimates: Sequence[Estimate], look: Look) -> dict[str, Any]:
    """The intervals as error bars; none where an estimate has no interval."""
    above = [None if one.high is None else one.high - one.value for one in estimates]
    below = [None if one.low is None else one.value - one.low for one in estimates]
    return {"type": "data", "symmetric": False, "array": above, "arrayminus": below, "color": look.colour}


def _most_positions(figure: go.Figure) -> int:
    return max((len(line.x) for line in figure.data), default=0)


def _figure(title: str) -> go.Figure:
    return _titled(go.Figure(), title)


def _titled(figure: go.Figure, title: str) -> go.Figure:
    figure.update_layout(
        title={"text": "<br>".join(_lines(title)), "font": {"size": 13}, "x": 0, "xanchor": "left"}
    )
    return figure


def _lines(text: str) -> list[str]:
    """A title broken into lines that a phone's width holds."""
    lines = [""]
    for word in text.split():
        if lines[-1] and len(lines[-1]) + len(word) >= PER_TITLE_LINE:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return lines


def _finished(
    figure: go.Figure, height: int = HEIGHT, legend: bool = True, empty: str = "No data yet."
) -> go.Figure:
    """The style that all charts share; a sentence where there is nothing to draw."""
    lines = figure.layout.title.text.count("<br>") + 1
    figure.update_layout(
        template="none", paper_bgcolor="rgba(0,0,0,0)", plot_bgcolor="rgba(0,0,0,0)",
        font={"family": "system-ui, sans-serif", "size": 12, "color": TEXT},
        margin={"l": 8, "r": 12, "t": 30 + 20 * lines, "b": 8}, height=height + 20 * lines,
        showlegend=legend, legend=LEGEND,
        hoverlabel={"bgcolor": "#222222", "font": {"color": "#ffffff"}}, modebar={"bgcolor": "rgba(0,0,0,0)"},
    )  # fmt: skip
    figure.update_xaxes(**AXIS)
    figure.update_yaxes(**AXIS)
    if not any(len(drawn.x) for drawn in figure.data):
        figure.update_xaxes(visible=False)
        figure.update_yaxes(visible=False)
        figure.add_annotation(text=empty, showarrow=False, x=0.5, y=0.5, xref="paper", yref="paper")
    return figure
