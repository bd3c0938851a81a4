"""The lines that the page's script draws: JSON objects, one a line, with a ``type`` each.

A document is a string of such lines that only grows at its end; a trace's own lines stand in it as
they are (see ``dflash_viz.trace``), with the lane's name added.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import msgspec

from dflash_viz.metrics import (
    FIGURES,
    conditional_acceptance,
    lane_values,
    length_course,
    length_histogram,
    time_split,
    token_course,
    unconditional_acceptance,
)
from dflash_viz.trace import Header, Line, Origin, Step, Trace
from dflash_viz.views.lane_style import LaneStyle, lane_styles
from dflash_viz.views.text_verdict import TextVerdict

_encoder = msgspec.json.Encoder()
# Real time is over before one has looked: 45 steps in two seconds.
RECORDED_SPEED = 0.25
FIGURES_IN_A_RECORDING = 150
_DIGITS = {"speed": 1, "rate": 0, "draft_share": 0, "steps": 0, "draft_ms": 1, "verify_ms": 1}

CHARTS = (
    (
        "al", "Acceptance length per step",
        "Markers: AL of a step = accepted tokens + 1, the target's own. Lines: pooled AL so far. Steps "
        "without a draft have none. Drag to zoom, double-click to reset.",
    ),
    (
        "race", "Tokens against time",
        "Answer tokens so far against seconds on each lane's own clock, which starts with the engine step "
        "that read the prompt: the steeper, the faster.",
    ),
    (
        "histogram", "How long the steps were",
        "Share of the drafting steps that had acceptance length 1, 2, ... K + 1.",
    ),
    (
        "positions", "Acceptance by position",
        "Filled marks: of the steps that drafted this position, how many had it accepted. Open marks: the "
        "same, counting only steps in which the position before it was accepted.",
    ),
    (
        "split", "Where the time went",
        "Seconds of the steps after the prompt's own: drafting, the target's pass with the decision "
        "(verify), and the rest, which is the engine's own work.",
    ),
)  # fmt: skip


def _line(**fields: Any) -> str:
    # "<" can only stand inside a JSON string; written as an escape it is inert wherever it lands.
    return _encoder.encode(fields).decode().replace("<", "\\u003c") + "\n"


def run_line(
    origin: Origin,
    prompt: str,
    *,
    play: bool = False,
    speed: float = 1,
    note: str = "",
    contended: bool = False,
) -> str:
    """The first line of a document. ``play`` lets the page pace the steps by their times, at first
    ``speed`` times as fast as they were; ``contended``: the lanes ran at the same time."""
    return _line(
        type="run", origin=origin, prompt=prompt, play=play, speed=speed, note=note, contended=contended
    )


def definitions_line() -> str:
    """The figures and charts of the page, with what each means."""
    charts = [dict(zip(("key", "title", "definition"), chart, strict=True)) for chart in CHARTS]
    return _line(type="definitions", figures=[asdict(figure) for figure in FIGURES], charts=charts)


def lanes_line(lanes: Sequence[tuple[str, str, int]], styles: Mapping[str, LaneStyle]) -> str:
    """The lanes of the run, as (name, method, K) in the order of the page."""
    return _line(
        type="lanes",
        lanes=[{"name": name, "method": method, "k": k, **asdict(styles[name])} for name, method, k in lanes],
    )


def turn_line(
    lane: str, state: str, message: str, progress: float | None = None, seconds_left: float | None = None
) -> str:
    """Where a lane stands in this run."""
    return _line(
        type="turn", lane=lane, state=state, message=message, progress=progress, seconds_left=seconds_left
    )


def problem_line(message: str, action: str = "", lane: str | None = None) -> str:
    """Something went wrong: what, and what to do; with ``lane``, in that lane only."""
    return _line(type="problem", message=message, action=action, **({"lane": lane} if lane else {}))


def trace_line(line: Line, lane: str) -> str:
    """One line of a trace, for the card of its lane; the page draws no probabilities."""
    if isinstance(line, Step) and line.positions:
        line = msgspec.structs.replace(line, positions=[])
    return _line(**{**msgspec.to_builtins(line, str_keys=True), "lane": lane})


def format_value(key: str, value: float | None) -> str:
    """A figure's value as it is shown; a dash while there is none."""
    return "–" if value is None else f"{value:.{_DIGITS.get(key, 2)}f}"


def values_line(lane: str, values: Mapping[str, float | None]) -> str:
    """Some figures of a lane, by key."""
    return _line(type="figures", lane=lane, values={k: format_value(k, v) for k, v in values.items()})


def figures_line(steps: Sequence[Step], lane: str, begin: int = 0) -> str:
    """The running figures of a lane after its steps so far, and its charts' data.

    Courses hold the points of the steps from position ``begin`` on, everything else the whole.
    """
    return _line(
        type="figures",
        lane=lane,
        values={key: format_value(key, value) for key, value in lane_values(steps).items()},
        al=[(index, length, round(mean, 4)) for index, length, mean in length_course(steps, begin)],
        race=[(round(seconds, 5), tokens) for seconds, tokens in token_course(steps, begin)],
        histogram=length_histogram(steps),
        positions={
            "unconditional": [round(share, 4) for share in unconditional_acceptance(steps)],
            "conditional": [
                None if share is None else round(share, 4) for share in conditional_acceptance(steps)
            ],
        },
        split={part: round(seconds, 5) for part, seconds in asdict(time_split(steps)).items()},
    )


def text_line(lane: str, verdict: TextVerdict) -> str:
    """Whether a lane's text is the one of the lane without speculation."""
    return _line(type="text", lane=lane, **asdict(verdict))


def finish_line() -> str:
    """All lanes have ended: the race can be replayed."""
    return _line(type="finish")


def recorded_document(
    traces: Sequence[Trace],
    note: str = "",
    extra: str = "",
    speed: float = RECORDED_SPEED,
    styles: Mapping[str, LaneStyle] | None = None,
) -> str:
    """Recorded runs of one prompt, one a lane, to be played by the page on the clock of their steps.

    ``extra`` holds lines about the whole run: figures that compare the lanes, verdicts on the texts;
    ``styles`` those of the lanes where the page has given them some already.
    """
    lanes = [_lane(trace.header) for trace in traces]
    header = traces[0].header
    prompt = next((m.content for m in reversed(header.messages) if m.role == "user"), "")
    contended = any(trace.header.contended_with for trace in traces)
    lines = [
        run_line("recorded", prompt, play=True, speed=speed, note=note, contended=contended),
        definitions_line(),
        lanes_line(lanes, styles or lane_styles([(name, method) for name, method, _ in lanes])),
    ]
    for trace in traces:
        lines += _recorded_lines(trace)
    return "".join([*lines, extra, finish_line()])


def _lane(header: Header) -> tuple[str, str, int]:
    return header.lane, header.fingerprint.method, header.fingerprint.num_speculative_tokens


def _recorded_lines(trace: Trace) -> list[str]:
    lane = trace.header.lane
    lines, told = [trace_line(trace.header, lane)], 0
    # Figures look at all steps so far: after each of a thousand steps that would take seconds.
    stride = 1 + len(trace.steps) // FIGURES_IN_A_RECORDING
    for number, step in enumerate(trace.steps, start=1):
        lines.append(trace_line(step, lane))
        if number % stride == 0 or number == len(trace.steps):
            lines.append(figures_line(trace.steps[:number], lane, told))
            told = number
    if trace.end is not None:
        lines.append(trace_line(trace.end, lane))
    return lines
