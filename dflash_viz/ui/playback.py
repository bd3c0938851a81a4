"""Runs that are over, as documents for the stage."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dflash_viz.metrics import alone, chat_values, plain_partners, race_values
from dflash_viz.trace import Run, Trace
from dflash_viz.ui.verdicts import judge_texts
from dflash_viz.views.page_lines import (
    RECORDED_SPEED,
    problem_line,
    recorded_document,
    text_line,
    values_line,
)
from dflash_viz.views.text_verdict import TextVerdict


def run_document(run: Run) -> str:
    """A recorded run, played from its traces."""
    lines = race_lines(run.traces) + text_lines(judge_texts(run.traces)) + notice_lines(run.traces)
    return recorded_document(run.traces, run.note, lines, RECORDED_SPEED, address=run.address)


def notice_lines(traces: Sequence[Trace]) -> str:
    """What reading the traces' files has found. It is about the whole run: seen at once, not when the
    lane has come to its end."""
    return "".join(
        problem_line(f"{trace.header.lane}: {notice}") for trace in traces for notice in trace.notices
    )


def race_lines(traces: Sequence[Trace]) -> str:
    """The figures that compare the lanes of a run.

    Only of lanes that had the device to themselves: a ratio of other times means nothing.
    """
    lines = []
    for trace in filter(alone, traces):
        for plain in plain_partners(trace, traces)[:1]:
            lines.append(values_line(trace.header.lane, race_values(trace.steps, plain.steps)))
    return "".join(lines)


def chat_lines(traces: Sequence[Trace], earlier: Sequence[Trace]) -> str:
    """The figures of a whole chat; ``earlier`` are the traces of the turns before this one."""
    lines = []
    for trace in traces:
        before = [one for one in earlier if one.header.lane == trace.header.lane]
        lines.append(values_line(trace.header.lane, chat_values([*before, trace])))
    return "".join(lines)


def text_lines(verdicts: Mapping[str, TextVerdict]) -> str:
    """Whether each lane wrote the text of no speculation."""
    return "".join(text_line(lane, verdict) for lane, verdict in verdicts.items())
