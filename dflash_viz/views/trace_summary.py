"""Traces in words and numbers, for the command line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dflash_viz.metrics import (
    COUNTED_FIGURES,
    FIGURES,
    counted_values,
    diagnose,
    lane_values,
    plain_trace,
    race_values,
)
from dflash_viz.trace import Trace

_FIGURES = (*COUNTED_FIGURES, *FIGURES)


def summary(traces: Sequence[Trace]) -> list[dict[str, Any]]:
    """Per trace: who and what it was, its figures by key (None where there is none), what the rules find."""
    return [_one(trace, traces) for trace in traces]


def _one(trace: Trace, traces: Sequence[Trace]) -> dict[str, Any]:
    header, plain = trace.header, plain_trace(trace, traces)
    values = lane_values(trace.steps) | race_values(trace.steps, plain.steps if plain is not None else [])
    if header.counts_only and trace.end is not None:
        values |= counted_values(trace.end)
    return {
        "lane": header.lane,
        "method": header.fingerprint.method,
        "K": header.fingerprint.num_speculative_tokens,
        "origin": header.origin,
        "question": header.question,
        "finish_reason": trace.end.finish_reason if trace.end else None,
        "check": trace.end.check.message if trace.end else None,
        "agrees": trace.end.check.agrees if trace.end else None,
        "figures": values,
        "counts_only": header.counts_only,
        "findings": [
            {"rule": f.rule, "title": f.title, "evidence": list(f.evidence), "action": f.action}
            for f in diagnose([trace], [plain] if plain is not None else [])
        ],
        "notices": trace.notices,
    }


def summary_text(traces: Sequence[Trace]) -> str:
    """The same to read, with the definition of every figure."""
    told = summary(traces)
    shown = [f for f in _FIGURES if any(one["figures"].get(f.key) is not None for one in told)]
    definitions = [f"{f.label}: {f.definition}" for f in shown]
    return "\n\n".join([*map(_text, told), "\n".join(definitions)])


def _text(one: dict[str, Any]) -> str:
    lines = [f"{one['lane']} ({one['method']}, K = {one['K']}, {one['origin']}): {one['question']!r}"]
    for figure in _FIGURES:
        value = one["figures"].get(figure.key)
        if value is not None:
            lines.append(f"  {figure.label:<24}{value:>10.2f} {figure.unit}".rstrip())
    lines.append(f"  ended: {one['finish_reason'] or 'cut short'}; check: {one['check'] or 'none'}")
    lines += [f"  no steps: {one['counts_only']}"] if one["counts_only"] else []
    lines += [f"  notice: {notice}" for notice in one["notices"]]
    for finding in one["findings"]:
        lines.append(f"  ! {finding['title']}")
        lines += [f"      {line}" for line in finding["evidence"]]
        lines.append(f"      What to do: {finding['action']}")
    return "\n".join(lines)
