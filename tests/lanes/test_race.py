"""One prompt on all lanes, on real engines: turns, traces, texts and counts."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass, field

import pytest

from dflash_viz.bench.prompts import KINDS
from dflash_viz.lanes import Fleet, Lane, LaneSpec, Race, Turn
from dflash_viz.metrics import count, first_difference, length_histogram, race_values
from dflash_viz.trace import End, Header, Message, Sampling, Step, Trace
from dflash_viz.ui.verdicts import ask_target, judge_texts
from tests.lanes.test_engine import assert_true_to_engine, counters, record

pytestmark = pytest.mark.engine
PROMPTS = [prompt for prompts in zip(*KINDS.values(), strict=True) for prompt in prompts][:20]


@dataclass
class Seen:
    """What came out of a race."""

    traces: dict[str, Trace] = field(default_factory=dict)
    turns: list[tuple[str, str]] = field(default_factory=list)
    messages: dict[str, str] = field(default_factory=dict)

    def take(self, lane: str, event: Turn | Header | Step | End) -> None:
        if isinstance(event, Turn):
            self.turns.append((lane, event.state))
            self.messages[lane] = event.message
        elif isinstance(event, Header):
            self.traces[lane] = Trace(event)
        elif isinstance(event, Step):
            self.traces[lane].steps.append(event)
        else:
            self.traces[lane].end = event


async def run(race: Race, stop_at: str = "", stop_after_steps: int = 3) -> Seen:
    """Run a race to its end; stop it once a lane has made some steps."""
    seen = Seen()
    async with contextlib.aclosing(race.events()) as events:
        async for lane, event in events:
            seen.take(lane, event)
            if lane == stop_at and isinstance(event, Step) and event.index == stop_after_steps:
                await race.stop()
    return seen


def race(fleet: Fleet, prompt: str, tokens: int = 24, lanes: list[str] | None = None, **settings) -> Race:
    messages = [Message("user", prompt)]
    return Race(fleet, lanes or list(fleet.lanes), messages, Sampling(max_tokens=tokens), **settings)


async def test_float32_texts_are_identical_and_the_counts_are_vllms(fleet: Fleet) -> None:
    """20 prompts on all lanes: the target's text everywhere, and our counts are the engine's own.

    A lane gets all prompts at once, which takes a fraction of the time: nothing here is about speed.
    """
    traces: dict[str, list[Trace]] = {}
    for name, lane in fleet.lanes.items():
        before = await counters(lane)
        asked = (record(lane, prompt, Sampling(max_tokens=12)) for prompt in PROMPTS)
        traces[name] = await asyncio.gather(*asked)
        steps = [step for trace in traces[name] for step in trace.steps]
        gained = await counters(lane) - before
        assert gained == count(steps), name
        assert sum(length_histogram(steps)) == gained.num_drafts
        assert max(step.batch_size for step in steps) == 16, "they did not run at the same time"
        if name != "none":
            assert (count(steps).acceptance_length or 0) > 1.3, f"{name} drafts nothing useful"
    for plain, *drafted in zip(traces.pop("none"), *traces.values(), strict=True):
        prompt = plain.header.messages[-1].content
        assert await ask_target(fleet, [plain, *drafted]) == {}, f"the texts part: {prompt}"
        assert {v.verdict for v in judge_texts([plain, *drafted]).values()} == {"same", "reference"}
        for trace in (plain, *drafted):
            assert trace.header.fingerprint.target.dtype == "float32"
            assert first_difference(plain, trace) is None, (prompt, trace.header.lane)
            assert len(trace.output_token_ids) == len(plain.output_token_ids)
            assert trace.end is not None
            assert trace.end.check.agrees is not False, trace.end.check
            assert [s.num_accepted for s in trace.steps if s.drafted] == trace.end.engine_accepted


async def test_lanes_take_turns(fleet: Fleet) -> None:
    seen = await run(race(fleet, "What is 12 times 7?"))
    running = [(lane, state) for lane, state in seen.turns if state in ("running", "done")]
    assert running == [(name, state) for name in fleet.lanes for state in ("running", "done")]
    for name, trace in seen.traces.items():
        assert not trace.header.contended_with
        if name != "none":
            assert_true_to_engine(fleet.lanes[name], trace)
    plain = seen.traces["none"]
    assert all(step.last == "plain" and not step.drafted for step in plain.steps)
    values = race_values(seen.traces["dflash"].steps, plain.steps)
    assert all(value is not None and value > 0 for value in values.values())


async def test_lanes_at_the_same_time_are_labelled(fleet: Fleet) -> None:
    seen = await run(race(fleet, "Tell me about rivers.", 16, contended=True))
    for name, trace in seen.traces.items():
        assert trace.header.contended_with == [other for other in fleet.lanes if other != name]
        assert trace.end is not None
        assert trace.end.check.agrees is not False
    states = [state for _, state in seen.turns]
    assert states.count("running") == len(fleet.lanes)
    assert "running" not in states[states.index("done") :], "they did not run at the same time"


async def test_stop_ends_the_race_at_once(fleet: Fleet) -> None:
    first, *others = fleet.lanes
    seen = await run(race(fleet, "Write a long story about a ship.", 400), stop_at=first)
    end = seen.traces[first].end
    assert end is not None
    assert end.finish_reason == "abort"
    assert list(seen.traces) == [first]
    last = dict(seen.turns)
    assert last[first] == "stopped"
    assert all(last[name] == "stopped" for name in others)
    assert seen.messages[others[0]] == "stopped before its turn"


async def test_stop_while_somebody_else_has_the_machine(fleet: Fleet) -> None:
    waiting = race(fleet, "Hi", lanes=["none"])
    async with fleet.device():
        task = asyncio.create_task(run(waiting))
        await asyncio.sleep(0.3)
        await waiting.stop()
        async with asyncio.timeout(30):  # the machine is not given back before
            seen = await task
    assert seen.turns == [("none", "waiting"), ("none", "waiting"), ("none", "stopped")]
    assert not seen.traces
    assert (await run(race(fleet, "Hi", 4, ["none"]))).traces, "the machine is free again"


async def test_two_races_share_the_machine_in_turn(fleet: Fleet) -> None:
    lanes = ["dflash", "none"]
    both = await asyncio.gather(*(run(race(fleet, "Hello.", 12, lanes)) for _ in range(2)))
    for seen in both:
        assert list(seen.traces) == lanes
        assert all(step.batch_size == 1 for trace in seen.traces.values() for step in trace.steps)


async def test_a_lane_that_cannot_run_leaves_the_others_alone(fleet: Fleet) -> None:
    broken = Lane(LaneSpec("broken", "dflash", drafter="assets/none", num_speculative_tokens=7))
    broken.start()
    mixed = Fleet([])
    mixed.lanes = {"broken": broken, "none": fleet.lanes["none"]}
    seen = await run(race(mixed, "Hi", 8))
    assert dict(seen.turns) == {"broken": "failed", "none": "done"}
    assert "There is no model 'assets/none'" in seen.messages["broken"]
    assert list(seen.traces) == ["none"]


@pytest.mark.parametrize("prompt", ["word " * 5000])
async def test_a_refused_prompt_fails_in_every_lane_in_words(fleet: Fleet, prompt: str) -> None:
    seen = await run(race(fleet, prompt))
    assert all(state == "failed" for state in dict(seen.turns).values())
    assert all("too long" in message for message in seen.messages.values())


def test_a_lane_as_a_plain_iterator(fleet: Fleet) -> None:
    lane = fleet.lanes["dflash"]
    steps = list(lane.stream("What is the capital of France?", Sampling(max_tokens=24), top_k=2))
    assert steps[0].prefill
    assert [step.index for step in steps] == list(range(len(steps)))
    assert len(steps[1].positions) == steps[1].num_drafted + 1
    chat = [Message("system", "Be brief."), Message("user", "Hi")]
    assert next(iter(lane.stream(chat))).emitted


async def test_leaving_the_iterator_stops_the_engine(fleet: Fleet) -> None:
    lane = fleet.lanes["dflash"]

    def three() -> None:
        for step in lane.stream("Write a long poem.", Sampling(max_tokens=400)):
            if step.index == 3:
                break

    await asyncio.to_thread(three)
    await asyncio.sleep(0.5)
    before = await counters(lane)
    await asyncio.sleep(0.5)
    assert await counters(lane) == before


async def test_the_target_is_asked_where_texts_part(fleet: Fleet) -> None:
    trace = (await run(race(fleet, "What is the capital of France?", 8, ["none"]))).traces["none"]
    client = fleet.lanes["none"].client
    assert client is not None
    for at in (0, 3, 7):
        before = trace.header.prompt_token_ids + trace.output_token_ids[:at]
        best = await client.next_token_probabilities(before)
        assert best[0].id == trace.output_token_ids[at]
        assert 1 >= best[0].p >= best[1].p > 0
