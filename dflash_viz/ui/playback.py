"""Runs that are over, as documents for the stage."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dflash_viz.metrics import chat_values, plain_trace, race_values
from dflash_viz.trace import Run, Trace
from dflash_viz.ui.verdicts import judge_texts
from dflash_viz.views.lane_style import LaneStyle
from dflash_viz.views.page_lines import (
    RECORDED_SPEED,
    problem_line,
    recorded_document,
    text_line,
    values_line,
)
from dflash_viz.views.text_verdict import TextVerdict


def run_document(run: Run, note: str = "", styles: Mapping[str, LaneStyle] | None = None) -> str:
    """A recorded run, played from its traces; ``note`` stands for the run's own."""
    verdicts = judge_texts(run.traces)
    extra = summary_lines(run.traces, verdicts) + notice_lines(run.traces)
    return recorded_document(run.traces, note or run.note, extra, RECORDED_SPEED, styles, run.address)


def notice_lines(traces: Sequence[Trace]) -> str:
    """What reading the traces' files has found, each in its lane."""
    return "".join(
        problem_line(notice, lane=trace.header.lane) for trace in traces for notice in trace.notices
    )


def summary_lines(
    traces: Sequence[Trace], verdicts: dict[str, TextVerdict], earlier: Sequence[Trace] = ()
) -> str:
    """The lines about a whole run: figures that compare the lanes, the chat so far, the texts.

    ``earlier`` are the traces of the turns before it.
    """
    lines = []
    for trace in traces:
        before = [one for one in earlier if one.header.lane == trace.header.lane]
        values = chat_values([*before, trace])
        plain = plain_trace(trace, traces)
        # Lanes that ran at the same time took time from each other: their ratio means nothing.
        if plain is not None and not trace.header.contended_with:
            values |= race_values(trace.steps, plain.steps)
        lines.append(values_line(trace.header.lane, values))
    lines += [text_line(lane, verdict) for lane, verdict in verdicts.items()]
    return "".join(lines)
