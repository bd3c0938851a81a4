"""The presets that ship: what their comments promise."""

from __future__ import annotations

import json

import pytest

from dflash_viz.lanes import LaneSpec, load_preset
from dflash_viz.lanes.preflight import check_spec
from dflash_viz.lanes.spec import PRESETS

PUBLISHED = ("qwen3-4b", "qwen3-8b")
LANES = [lane for name in PUBLISHED for lane in load_preset(name).lanes]


@pytest.mark.parametrize("name", sorted(path.stem for path in PRESETS.glob("*.yaml")))
def test_every_lane_could_run(name: str) -> None:
    lanes = load_preset(name).lanes
    for lane in lanes:
        check_spec(lane)
    assert lanes[-1].method == "none", "what the others are compared with"
    assert len({lane.target for lane in lanes}) == 1


@pytest.mark.parametrize("lane", LANES, ids=lambda lane: f"{lane.target}-{lane.name}")
def test_published_pairs_are_asked_as_their_checks_ask(lane: LaneSpec) -> None:
    engine = lane.engine
    assert json.loads(engine["default-chat-template-kwargs"]) == {"enable_thinking": False}
    assert (engine["max-num-seqs"], engine["max-model-len"]) == (128, 4096)
    assert engine["no-enable-prefix-caching"] is True
    assert "kv-cache-memory-bytes" in engine
    sizes = json.loads(engine["compilation-config"])["cudagraph_capture_sizes"]
    assert sizes == sorted(set(sizes))
    # A graph for every step of 128 requests; K = 16 is what vLLM checks the larger pair with.
    most = 16 if lane.name == "dflash" and "8B" in lane.target else lane.num_speculative_tokens
    assert sizes[-1] >= 128 * (most + 1)
    assert sizes[-1] <= engine["max-num-batched-tokens"], "vLLM leaves larger ones out"
