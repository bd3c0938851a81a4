"""Figures against hand calculation on a small trace."""

from __future__ import annotations

import pytest

from dflash_viz import metrics
from dflash_viz.trace import Trace


def test_values(trace: Trace) -> None:
    steps = trace.steps
    assert metrics.acceptance_length(steps) == 1 + (1 + 3 + 2) / 3
    assert metrics.acceptance_rate(steps) == 6 / 9
    assert metrics.tokens_per_engine_step(steps) == (2 + 4 + 2) / 3
    assert metrics.decode_tokens_per_second(steps) == pytest.approx(8 / 0.15)
    assert metrics.mean_draft_s(steps) == pytest.approx(0.01)
    assert metrics.mean_verify_s(steps) == pytest.approx(0.03)
    assert metrics.draft_share(steps) == pytest.approx(0.2)


def test_nothing_yet(trace: Trace) -> None:
    for steps in ([], trace.steps[:1]):
        assert [f.value for f in metrics.running_figures(steps)] == [None] * 7 + [0.0]


def test_every_figure_states_its_definition(trace: Trace) -> None:
    figures = metrics.running_figures(trace.steps)
    assert len({f.key for f in figures}) == len(figures)
    assert all(f.definition.endswith(".") and f.label for f in figures)
