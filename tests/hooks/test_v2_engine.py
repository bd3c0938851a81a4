"""The V2 model runner itself, on the CPU: vLLM's own code, its kernels in Triton's interpreter."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from dflash_viz.lanes import Lane, load_preset
from dflash_viz.metrics import count
from dflash_viz.trace import Sampling
from dflash_viz.weights.resolver import ROOT
from tests.lanes.test_engine import assert_true_to_engine, counters, record

pytestmark = pytest.mark.engine
INTERPRETED = Path(__file__).parent / "interpreted"
TOP_K = 3
PROMPTS = ["What is 12 times 7?", "Write a poem.", "Count to ten.", "Say hello.", "Name three fruits."]


@pytest.fixture(scope="module")
def v2_lane() -> Iterator[Lane]:
    """DFlash as on a GPU: asynchronous scheduling and prefix caching. Drafts are greedy: to draw them, each
    token of the vocabulary would be interpreted."""
    spec = load_preset("embedded-cpu").lanes[0]
    engine = {
        **spec.engine,
        "no-enable-prefix-caching": None,
        "enable-prefix-caching": True,
        "async-scheduling": True,
        "max-num-seqs": len(PROMPTS) - 1,
        "max-model-len": 512,
        "kv-cache-memory-bytes": "100M",
    }
    environment = {
        "VLLM_USE_V2_MODEL_RUNNER": "1",
        "TRITON_INTERPRET": "1",
        "PYTHONPATH": os.pathsep.join(map(str, (INTERPRETED, ROOT))),
    }
    lane = Lane(msgspec.structs.replace(spec, name="v2", engine=engine, environment=environment))
    lane.start()
    try:
        lane.wait_ready(300)
        yield lane
    finally:
        lane.close()


async def test_more_requests_than_places_are_all_true_to_the_engine(v2_lane: Lane) -> None:
    before = await counters(v2_lane)
    sampling = Sampling(max_tokens=16)
    asked = [record(v2_lane, prompt, sampling, TOP_K * (i % 2)) for i, prompt in enumerate(PROMPTS)]
    traces = await asyncio.gather(*asked)
    gained = await counters(v2_lane) - before
    for trace in traces:
        assert_true_to_engine(v2_lane, trace)
    sums = count([step for trace in traces for step in trace.steps])
    assert (sums.num_drafts, sums.num_draft_tokens, sums.num_accepted_tokens) == (
        gained.num_drafts, gained.num_draft_tokens, gained.num_accepted_tokens,
    )  # fmt: skip
    told = traces[0].header.fingerprint
    assert (told.model_runner, told.async_scheduling, told.prefix_caching) == ("V2", True, True)
    assert max(step.batch_size for trace in traces for step in trace.steps) > 1
    for trace, top_k in zip(traces, [0, TOP_K] * 3, strict=False):
        for step in trace.steps:
            assert len(step.positions) == (len(step.drafted) + 1 if top_k else 0)
    for step in traces[1].steps:
        for token, position in zip(step.emitted, step.positions, strict=False):
            # At temperature 0 it is the target's favourite, or in bfloat16 one of several.
            assert token in {top.id for top in position.target if top.p == position.target[0].p}


async def test_a_stopped_request_leaves_the_next_one_whole(v2_lane: Lane) -> None:
    stopped = await record(v2_lane, "Write a long story.", Sampling(max_tokens=200), stop_after=4)
    assert stopped.end is not None
    assert stopped.end.finish_reason == "abort"
    assert_true_to_engine(v2_lane, await record(v2_lane, PROMPTS[0], Sampling(max_tokens=16)))
