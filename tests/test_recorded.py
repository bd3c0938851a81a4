"""What ships must fit together: the greeting run, the drafter, the preset."""

from __future__ import annotations

from dflash_viz.bench.record import WELCOME
from dflash_viz.lanes import load_preset
from dflash_viz.trace import read_trace
from dflash_viz.weights import content_hash, resolve_model


def test_the_recorded_run_was_made_with_the_shipped_drafter() -> None:
    trace = read_trace(WELCOME)
    spec = load_preset("embedded-cpu").lanes[0]
    assert spec.drafter is not None
    assert trace.header.origin == "recorded"
    assert not trace.notices
    fingerprint = trace.header.fingerprint
    assert fingerprint.drafter is not None
    hint = "the drafter or K has changed: run `make record`"
    assert fingerprint.drafter.content_hash == content_hash(resolve_model(spec.drafter)), hint
    assert fingerprint.num_speculative_tokens == spec.num_speculative_tokens, hint


def test_the_recorded_run_agrees_with_its_engine_and_is_worth_watching() -> None:
    trace = read_trace(WELCOME)
    assert trace.end is not None
    assert trace.end.check.agrees is True
    drafting = [s for s in trace.steps if s.drafted]
    assert [s.num_accepted for s in drafting] == trace.end.engine_accepted
    kinds = {s.last for s in drafting}
    assert {"bonus", "recovered"} <= kinds
