"""What ships must fit together: the greeting run, the drafters, the preset."""

from __future__ import annotations

from dflash_viz.bench.record import read_welcome
from dflash_viz.lanes import load_preset
from dflash_viz.metrics import speedup
from dflash_viz.weights import content_hash, resolve_model


def test_the_recorded_run_was_made_with_the_shipped_lanes() -> None:
    hint = "a drafter, K or the lanes have changed: run `make record`"
    traces, lanes = read_welcome(), load_preset("embedded-cpu").lanes
    assert [trace.header.lane for trace in traces] == [lane.name for lane in lanes], hint
    for trace, spec in zip(traces, lanes, strict=True):
        assert trace.header.origin == "recorded"
        assert not trace.notices
        assert not trace.header.contended_with
        fingerprint = trace.header.fingerprint
        assert fingerprint.method == spec.method
        assert fingerprint.num_speculative_tokens == spec.num_speculative_tokens, hint
        if spec.drafter is not None:
            assert fingerprint.drafter is not None
            assert fingerprint.drafter.content_hash == content_hash(resolve_model(spec.drafter)), hint


def test_the_recorded_run_agrees_with_its_engines_and_is_worth_watching() -> None:
    traces = read_welcome()
    for trace in traces:
        assert trace.end is not None
        assert trace.end.check.agrees is not False
        drafting = [s for s in trace.steps if s.drafted]
        assert [s.num_accepted for s in drafting] == trace.end.engine_accepted
    kinds = {s.last for s in traces[0].decode_steps}
    assert {"bonus", "recovered"} <= kinds
    assert (speedup(traces[0].steps, traces[-1].steps) or 0) > 1
