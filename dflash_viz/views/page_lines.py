"""The lines that the page's script draws: JSON objects, one a line, with a ``type`` each.

A document is a string of such lines that only grows at its end; a trace's own lines stand in it as
they are (see ``dflash_viz.trace``), with the lane's name added.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import msgspec

from dflash_viz.metrics import Figure, running_figures
from dflash_viz.trace import Line, Origin, Step, Trace

_encoder = msgspec.json.Encoder()
# Real time is over before one has looked: 45 steps in two seconds.
RECORDED_SPEED = 0.25
_DIGITS = {"al": 2, "per_step": 2, "rate": 0, "draft_share": 0, "steps": 0}


def _line(**fields: Any) -> str:
    # "<" can only stand inside a JSON string; written as an escape it is inert wherever it lands.
    return _encoder.encode(fields).decode().replace("<", "\\u003c") + "\n"


def run_line(origin: Origin, prompt: str, *, play: bool = False, speed: float = 1, note: str = "") -> str:
    """The first line of a document. ``play`` lets the page pace the steps by their times, at first
    ``speed`` times as fast as they were."""
    return _line(type="run", origin=origin, prompt=prompt, play=play, speed=speed, note=note)


def engine_line(
    state: str, message: str, progress: float | None = None, seconds_left: float | None = None
) -> str:
    """Where the engine stands."""
    return _line(type="engine", state=state, message=message, progress=progress, seconds_left=seconds_left)


def problem_line(message: str, action: str = "") -> str:
    """Something went wrong: what, and what to do."""
    return _line(type="problem", message=message, action=action)


def trace_line(line: Line, lane: str) -> str:
    """One line of a trace, for the card of its lane."""
    return _line(**{**msgspec.to_builtins(line, str_keys=True), "lane": lane})


def format_figure(figure: Figure) -> str:
    """The value as it is shown; a dash while there is none."""
    if figure.value is None:
        return "–"
    return f"{figure.value:.{_DIGITS.get(figure.key, 1)}f}"


def figures_line(steps: Sequence[Step], lane: str) -> str:
    """The running figures of a lane after its steps so far."""
    figures = [{**asdict(f), "value": format_figure(f)} for f in running_figures(steps)]
    return _line(type="figures", lane=lane, figures=figures)


def recorded_document(trace: Trace, note: str = "") -> str:
    """A whole recorded run, to be played by the page on the clock of its steps."""
    lane = trace.header.lane
    prompt = next((m.content for m in reversed(trace.header.messages) if m.role == "user"), "")
    lines = [
        run_line("recorded", prompt, play=True, speed=RECORDED_SPEED, note=note),
        trace_line(trace.header, lane),
    ]
    for count, step in enumerate(trace.steps, start=1):
        lines.append(trace_line(step, lane))
        lines.append(figures_line(trace.steps[:count], lane))
    if trace.end is not None:
        lines.append(trace_line(trace.end, lane))
    return "".join(lines)
