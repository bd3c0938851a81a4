"""The lines that the page's script draws: JSON objects, one a line, with a ``type`` each.

A document is a string of such lines that only grows at its end; a trace's own lines stand in it as
they are (see ``dflash_viz.trace``), with the lane's name added.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from itertools import chain
from typing import Any

import msgspec
import numpy as np

from dflash_viz.metrics import (
    COUNTED_FIGURES,
    FIGURES,
    CopyFinder,
    Tally,
    bin_size,
    conditional_acceptance,
    counted_acceptance,
    counted_values,
    lane_values,
    length_course,
    length_histogram,
    time_split,
    token_course,
    unconditional_acceptance,
)
from dflash_viz.trace import End, Header, Line, Origin, Position, Step, Trace
from dflash_viz.views.lane_style import LaneStyle, lane_styles
from dflash_viz.views.text_verdict import TextVerdict

_encoder = msgspec.json.Encoder()
# Real time is over before one has looked: 45 steps in two seconds.
RECORDED_SPEED = 0.25
FIGURES_IN_A_RECORDING = 150
_DIGITS = {
    "speed": 1,
    "client_speed": 1,
    "rate": 0,
    "draft_share": 0,
    "steps": 0,
    "draft_ms": 1,
    "verify_ms": 1,
}

CHARTS = (
    (
        "al", "Acceptance length per step",
        "Markers: AL of a step = accepted tokens + 1, the target's own; in long runs the AL of several "
        "steps in a row. Lines: pooled AL so far. Steps without a draft have none. Drag to zoom, "
        "double-click to reset.",
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
    address: str = "",
    apart: bool = False,
) -> str:
    """The first line of a document. ``play`` lets the page pace the steps by their times, at first
    ``speed`` times as fast as they were; ``contended``: the lanes ran at the same time; ``address``
    is what the page's own address calls the run, so that a link leads back to it; ``apart``: the lanes
    are servers that need not share a machine."""
    return _line(
        type="run", origin=origin, prompt=prompt, play=play, speed=speed, note=note, contended=contended,
        **({"id": address} if address else {}), **({"apart": True} if apart else {}),
    )  # fmt: skip


def definitions_line(counted: bool = False) -> str:
    """The figures and charts of the page, with what each means; ``counted``: a lane shows no steps."""
    figures = (*COUNTED_FIGURES, *FIGURES) if counted else FIGURES
    charts = [dict(zip(("key", "title", "definition"), chart, strict=True)) for chart in CHARTS]
    return _line(type="definitions", figures=[asdict(figure) for figure in figures], charts=charts)


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


def trace_line(line: Line, lane: str, source: tuple[int, int] | None = None) -> str:
    """One line of a trace, for the card of its lane; ``source`` says where n-gram copied a block."""
    fields = msgspec.to_builtins(line, str_keys=True)
    if isinstance(line, Step) and line.positions:
        fields["positions"] = _positions(line)
    return _line(**{**fields, "lane": lane, **({"source": source} if source else {})})


def _positions(step: Step) -> list[dict[str, Any]]:
    """The probabilities of a step, to five digits: more could not be drawn."""
    return [_position(position) for position in step.positions]


def _position(position: Position) -> dict[str, Any]:
    own = {
        "p_target_drafted": position.p_target_drafted,
        "p_drafter_drafted": position.p_drafter_drafted,
    }
    draw = position.draw
    return {
        "target": [(one.id, _short(one.p)) for one in position.target],
        "drafter": [(one.id, _short(one.p)) for one in position.drafter],
        **{key: _short(p) for key, p in own.items() if p is not None},
        # Whole: the page compares them, and rounding could turn the comparison round.
        **({"draw": (draw.p, draw.q, draw.u)} if draw is not None else {}),
    }


def _short(p: float) -> float:
    return float(f"{p:.5g}")


def answer_line(lane: str, text: str) -> str:
    """A piece of the answer of a lane that shows no steps."""
    return _line(type="answer", lane=lane, text=text)


def counted_line(lane: str, end: End) -> str:
    """The figures of an answer without steps, once it has ended."""
    shares = [round(share, 4) for share in counted_acceptance(end)]
    values = {key: format_value(key, value) for key, value in counted_values(end).items()}
    positions = {"unconditional": shares, "conditional": []}
    return _line(type="figures", lane=lane, after=0, values=values, positions=positions)


def steps_line(trace: Trace) -> str:
    """All steps of a recorded trace in one line, a column for each field.

    A line a step would take the page a second for every 100,000 of them. What follows from the rest is
    left out: a step emits its accepted prefix and its ``own`` token, or as many drafted tokens as
    ``cut`` says; a single ``start`` stands for steps that begin where the one before ends.
    """
    steps = trace.steps
    starts, ends = _seconds([step.start for step in steps]), _seconds([step.end for step in steps])
    finder = CopyFinder(trace.header) if trace.header.fingerprint.method == "ngram" else None
    sources = {step.index: finder.feed(step) for step in steps} if finder is not None else {}
    tokens: dict[int, str] = {}
    for step in steps:
        tokens.update(step.tokens)
    batch_sizes = [step.batch_size for step in steps]
    return _line(
        type="steps",
        lane=trace.header.lane,
        count=len(steps),
        start=starts[:1] if starts[1:] == ends[:-1] else starts,
        end=ends,
        draft_s=_seconds([step.draft_s for step in steps]),
        verify_s=_seconds([step.verify_s for step in steps]),
        drafted=list(chain.from_iterable([step.drafted for step in steps])),
        num_drafted=[len(step.drafted) for step in steps],
        own=[step.emitted[-1] for step in steps],
        cut={str(step.index): len(step.emitted) for step in steps if step.last is None},
        num_accepted=[step.num_accepted for step in steps],
        last="".join([step.last[0] if step.last else "-" for step in steps]),
        prefill=[step.index for step in steps if step.prefill],
        padded=[step.index for step in steps if step.padded],
        batch_size=batch_sizes if max(batch_sizes, default=1) > 1 else [],
        tokens={str(token): text for token, text in tokens.items()},
        positions={str(step.index): _positions(step) for step in steps if step.positions},
        source={str(index): source for index, source in sources.items() if source is not None},
    )


def format_value(key: str, value: float | None) -> str:
    """A figure's value as it is shown; a dash while there is none."""
    return "–" if value is None else f"{value:.{_DIGITS.get(key, 2)}f}"


def values_line(lane: str, values: Mapping[str, float | None]) -> str:
    """Some figures of a lane, by key."""
    return _line(type="figures", lane=lane, values={k: format_value(k, v) for k, v in values.items()})


def _seconds(values: list[float]) -> list[float]:
    """To the microsecond."""
    rounded: list[float] = np.round(values, 6).tolist()
    return rounded


class LaneFigures:
    """The running figures of one lane, with its charts' data; ``size`` steps make a chart's point."""

    def __init__(self, lane: str, size: int = 1) -> None:
        self.lane = lane
        self.size = size
        self.tally = Tally()

    def line(self, fresh: Sequence[Step]) -> str:
        """The line after these further steps: courses hold their points, everything else the whole."""
        before = self.tally.counters
        self.tally += Tally.of(fresh)
        sums = self.tally
        course = length_course(fresh, before, self.size)
        return _line(
            type="figures",
            lane=self.lane,
            after=sums.num_all,
            bin=self.size,
            values={key: format_value(key, value) for key, value in lane_values(sums).items()},
            al=[(index, round(length, 4), round(pooled, 4)) for index, length, pooled in course],
            race=[(round(seconds, 5), tokens) for seconds, tokens in token_course(fresh, self.size)],
            histogram=length_histogram(sums),
            positions={
                "unconditional": [round(share, 4) for share in unconditional_acceptance(sums)],
                "conditional": [
                    None if share is None else round(share, 4) for share in conditional_acceptance(sums)
                ],
            },
            split={part: round(seconds, 5) for part, seconds in asdict(time_split(sums)).items()},
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
    address: str = "",
) -> str:
    """Recorded runs of one prompt, one a lane, to be played by the page on the clock of their steps.

    ``extra`` holds lines about the whole run: figures that compare the lanes, verdicts on the texts;
    ``styles`` those of the lanes where the page has given them some already; ``address``: see
    ``run_line``.
    """
    lanes = [_lane(trace.header) for trace in traces]
    prompt = traces[0].header.question
    contended = any(trace.header.contended_with for trace in traces)
    lines = [
        run_line("recorded", prompt, play=True, speed=speed, note=note, contended=contended, address=address),
        definitions_line(any(trace.header.counts_only for trace in traces)),
        lanes_line(lanes, styles or lane_styles([(name, method) for name, method, _ in lanes])),
    ]
    for trace in traces:
        lines += _recorded_lines(trace)
    return "".join([*lines, extra, finish_line()])


def _lane(header: Header) -> tuple[str, str, int]:
    return header.lane, header.fingerprint.method, header.fingerprint.num_speculative_tokens


def _recorded_lines(trace: Trace) -> list[str]:
    lane, steps = trace.header.lane, trace.steps
    size = bin_size(len(steps))
    # Whole points only, and few enough lines that a long run opens at once.
    stride = size * -(-(1 + len(steps) // FIGURES_IN_A_RECORDING) // size)
    figures = LaneFigures(lane, size)
    return [
        trace_line(trace.header, lane),
        steps_line(trace),
        *(figures.line(steps[at : at + stride]) for at in range(0, len(steps), stride)),
        *([trace_line(trace.end, lane)] if trace.end is not None else []),
        *([counted_line(lane, trace.end)] if trace.header.counts_only and trace.end is not None else []),
    ]
