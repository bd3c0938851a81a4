"""What ships must fit together: the recorded gallery, the drafters, the preset."""

from __future__ import annotations

import msgspec
import pytest

from dflash_viz.bench.record import Entry, read_entries, read_gallery
from dflash_viz.lanes import LaneSpec, load_preset
from dflash_viz.metrics import lane_values, race_values
from dflash_viz.trace import Run, Trace
from dflash_viz.weights import content_hash, resolve_model

HINT = "a drafter, K, the lanes or gallery.yaml have changed: run `make record`"


@pytest.fixture(scope="module")
def gallery() -> dict[str, Run]:
    """The runs by name."""
    return {run.address.removeprefix("gallery/"): run for run in read_gallery()}


def by_lane(run: Run) -> dict[str, Trace]:
    return {trace.header.lane: trace for trace in run.traces}


def test_the_gallery_is_whole(gallery: dict[str, Run]) -> None:
    assert list(gallery) == [entry.name for entry in read_entries()], HINT
    assert len(gallery) == 10


def faults(trace: Trace, spec: LaneSpec, entry: Entry) -> list[str]:
    """Why a trace was not made by the shipped lane for this entry; nothing if it was."""
    header, print_ = trace.header, trace.header.fingerprint
    expected = {
        "lane": (header.lane, spec.name),
        "origin": (header.origin, "recorded"),
        "prompt": (header.messages[-1].content, entry.prompt),
        "sampling": (header.sampling, entry.sampling),
        "method": (print_.method, spec.method),
        "K": (print_.num_speculative_tokens, spec.num_speculative_tokens),
        "target": (print_.target.content_hash, content_hash(resolve_model(spec.target))),
    }
    if spec.drafter is not None:
        ours = print_.drafter.content_hash if print_.drafter else None
        expected["drafter"] = (ours, content_hash(resolve_model(spec.drafter)))
    return [what for what, (found, wanted) in expected.items() if found != wanted]


@pytest.mark.parametrize("entry", read_entries(), ids=lambda entry: entry.name)
def test_every_run_was_made_with_the_shipped_lanes(gallery: dict[str, Run], entry: Entry) -> None:
    traces, lanes = gallery[entry.name].traces, load_preset("embedded-cpu").lanes
    for trace, spec in zip(traces, lanes, strict=True):
        assert not faults(trace, spec, entry), HINT
        assert not trace.notices
        assert not trace.header.contended_with


def test_a_run_of_another_drafter_is_refused(gallery: dict[str, Run]) -> None:
    trace, (spec, *_), (entry, *_) = (
        gallery["chat"].traces[0],
        load_preset("embedded-cpu").lanes,
        read_entries(),
    )
    drafter = msgspec.structs.replace(trace.header.fingerprint.drafter, content_hash="0" * 64)
    fingerprint = msgspec.structs.replace(trace.header.fingerprint, drafter=drafter, num_speculative_tokens=7)
    other = Trace(msgspec.structs.replace(trace.header, fingerprint=fingerprint), trace.steps, trace.end)
    assert faults(other, spec, entry) == ["K", "drafter"]


def test_every_run_agrees_with_its_engine_and_holds_probabilities(gallery: dict[str, Run]) -> None:
    for run in gallery.values():
        for trace in run.traces:
            assert trace.end is not None
            assert trace.end.check.agrees is not False
            drafting = [step for step in trace.steps if step.drafted]
            assert [step.num_accepted for step in drafting] == trace.end.engine_accepted
            assert all(len(step.positions) == step.num_drafted + 1 for step in trace.steps)


def test_each_run_shows_what_its_note_says(gallery: dict[str, Run]) -> None:
    speedups = {
        name: {
            lane: race_values(trace.steps, by_lane(run)["none"].steps)["speedup"] or 0
            for lane, trace in by_lane(run).items()
        }
        for name, run in gallery.items()
    }
    assert speedups["code"]["dflash"] > 1
    assert speedups["bad"]["dflash"] < 1
    assert max(speedups["copying"], key=lambda lane: speedups["copying"][lane]) == "ngram"
    draws = [p.draw for s in by_lane(gallery["hot"])["dflash"].steps for p in s.positions if p.draw]
    assert draws
    assert len(by_lane(gallery["long"])["none"].output_token_ids) > 500
    kinds = {step.last for step in by_lane(gallery["chat"])["dflash"].decode_steps}
    assert {"bonus", "recovered"} <= kinds
    for name, letters in (("korean", "가힣"), ("chinese", "一鿿"), ("emoji", "😀🚀")):
        text = gallery[name].traces[0].end.text  # type: ignore[union-attr]
        assert any(letters[0] <= letter <= letters[-1] for letter in text), name
    assert lane_values(by_lane(gallery["long"])["dflash"].steps)["al"]
