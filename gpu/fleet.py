"""A preset's lanes as the app's fleet runs them: all resident, and with one awake.

A trace is complete as in gpu/asking.py; what a lane drafts after it has slept must be what it drafted before.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from dflash_viz.bench.meter import settled
from dflash_viz.lanes import Fleet, LaneError, LaneFace, LaneSpec, Race
from dflash_viz.lanes.device import engine_gpus
from dflash_viz.lanes.face import STARTED, STARTING
from dflash_viz.trace import PLAIN, End, Header, Message, Sampling, Step
from dflash_viz.trace.counters import Counters
from gpu.asking import GREEDY, Answer, faults, last_log, probabilities, prompts, used_memory_mb
from gpu.checks import Checks, Made, Once, say

START_LIMIT_S = 100.0
LOOK_EVERY_S = 0.2
ROUNDS = 2
# How far the acceptance length may be from the one before the engine slept.
SLEEP_TOLERANCE = 0.02
# All lanes together take this share of what is free, in the words of the preset: too much.
TOO_MUCH = 1.2


@dataclass
class Ran:
    """One lane in a race: its answer's lines, whom it ran with, and what went wrong."""

    steps: list[Step] = field(default_factory=list)
    end: End | None = None
    contended_with: list[str] = field(default_factory=list)
    message: str = ""


async def race(
    fleet: Fleet, lanes: Sequence[str], prompt: str, tokens: int, together: bool
) -> dict[str, Ran]:
    """One prompt on some lanes, greedily, as the page runs it."""
    ran = {name: Ran() for name in lanes}
    sampling = Sampling(temperature=GREEDY, max_tokens=tokens, seed=0)
    run = Race(fleet, lanes, [Message("user", prompt)], sampling, contended=together)
    async with contextlib.aclosing(run.events()) as events:
        async for name, event in events:
            if isinstance(event, Header):
                ran[name].contended_with = event.contended_with
            elif isinstance(event, Step):
                ran[name].steps.append(event)
            elif isinstance(event, End):
                ran[name].end = event
            else:
                ran[name].message = getattr(event, "message", "")
    return ran


def judged(ran: Sequence[Ran], counted: Counters) -> list[str]:
    """What is wrong with a lane's answers, and with what its server counted of them."""
    ended = [Answer(one.steps, one.end, 0.0) for one in ran if one.end is not None]
    missing = [f"no answer: {one.message}" for one in ran if one.end is None]
    return missing + faults(ended, counted)


async def counters(fleet: Fleet) -> dict[str, Counters]:
    """What every lane's server has counted."""
    clients = {name: lane.client for name, lane in fleet.lanes.items()}
    return {name: (await settled(c)).counters for name, c in clients.items() if c is not None}


async def resident_race(fleet: Fleet, number: int, tokens: int, together: bool) -> Made:
    """All lanes answer some prompts, one after another or at the same time; is every trace complete?"""
    lanes, before = list(fleet.lanes), await counters(fleet)
    races = [await race(fleet, lanes, prompt, tokens, together) for prompt in prompts(number)]
    after = await counters(fleet)
    found: list[str] = []
    als: dict[str, float | None] = {}
    for name in lanes:
        gained = after[name] - before[name]
        found += [f"{name}: {fault}" for fault in judged([one[name] for one in races], gained)]
        als[name] = gained.acceptance_length and round(gained.acceptance_length, 3)
        others = [other for other in lanes if other != name] if together else []
        if any(one[name].contended_with != others for one in races):
            found.append(f"{name}: its traces do not say with whom it ran")
    used = used_memory_mb()
    shown = [f"{len(lanes) * number} traces, {len(found)} faults", _als(als), f"{used} MB on the GPU"]
    figures = {"al": als, "used_mb": used, "faults": found[:5]}
    return not found, ", ".join([*shown, *found[:1]]), figures


def _als(als: dict[str, float | None]) -> str:
    return "AL " + ", ".join(f"{name} {al:.2f}" for name, al in als.items() if al is not None)


async def started(fleet: Fleet, one_awake: bool) -> Made:
    """Start all lanes; do they stay as they should?"""
    began, tell = time.monotonic(), Once()
    ready: dict[str, float] = {}
    fleet.start()
    while len(ready) < len(fleet.lanes):
        for name, lane in fleet.lanes.items():
            if lane.status.state not in STARTING:
                ready.setdefault(name, round(time.monotonic() - began, 1))
        tell(", ".join(f"{name} {lane.status.state}" for name, lane in fleet.lanes.items()))
        await asyncio.sleep(LOOK_EVERY_S)
    states = {name: lane.status.state for name, lane in fleet.lanes.items()}
    for lane in fleet.lanes.values():
        if lane.status.state not in STARTED:
            say(last_log(lane.spec.name))
            raise LaneError(f"{lane.spec.name}: {lane.status.message}")
    rest = "asleep" if one_awake else "ready"
    as_it_should = list(states.values()) == [rest] * (len(states) - 1) + ["ready"]
    used = used_memory_mb()
    words = [f"{name} {state}" for name, state in states.items()]
    words += [f"{used} MB on the GPU", fleet.room.why or "all resident"]
    right = as_it_should and fleet.room.one_awake == one_awake
    return right, ", ".join(words), {"ready_s": ready, "states": states, "used_mb": used}


async def turn(fleet: Fleet, name: str, number: int, tokens: int) -> tuple[dict[str, Any], list[str]]:
    """A lane's turn: everything asleep, the lane woken, some prompts answered; figures and faults."""
    async with fleet.device():
        began = time.perf_counter()
        await fleet.all_asleep()
        slept, asleep_mb = time.perf_counter(), used_memory_mb()
        woken_from = time.perf_counter()
        client = await fleet.awake(name)
        woken = time.perf_counter()
        before = (await settled(client)).counters
    told = fleet.lanes[name].status.message
    ran = [(await race(fleet, [name], prompt, tokens, False))[name] for prompt in prompts(number)]
    counted = (await settled(client)).counters - before
    al = counted.acceptance_length
    figures = {
        "lane": name,
        "al": al and round(al, 4),
        "sleep_s": round(slept - began, 2),
        "wake_and_test_s": round(woken - woken_from, 2),
        "asleep_mb": asleep_mb,
        "awake_mb": used_memory_mb(),
        "told": told,
    }
    return figures, judged(ran, counted)


async def turns(fleet: Fleet, number: int, tokens: int) -> Made:
    """Each lane twice, in turn: complete traces, and the same acceptance length."""
    made, found = [], []
    for name in list(fleet.lanes) * ROUNDS:
        figures, wrong = await turn(fleet, name, number, tokens)
        say(f"{figures}")
        made.append(figures)
        found += [f"{name}: {fault}" for fault in wrong]
    for name, lane in fleet.lanes.items():
        found += _unlike(lane, [figures["al"] for figures in made if figures["lane"] == name])
    words = [_turn_words(**figures) for figures in made]
    return not found, "; ".join([*words, *found[:2]]), {"turns": made, "faults": found[:5]}


def _turn_words(**figures: Any) -> str:
    drafts = f"AL {figures['al']:.3f}, " if figures["al"] else ""
    times = f"sleep {figures['sleep_s']} s, wake and test {figures['wake_and_test_s']} s"
    memory = f"{figures['asleep_mb']} -> {figures['awake_mb']} MB"
    return f"{figures['lane']}: {drafts}{times}, {memory}, “{figures['told']}”"


def _unlike(lane: LaneFace, als: Sequence[float | None]) -> list[str]:
    """Whether a lane's acceptance length changed from turn to turn."""
    name, drafts = lane.spec.name, lane.spec.method != PLAIN
    if not drafts:
        return []
    known = [al for al in als if al is not None]
    if len(known) < len(als):
        return [f"{name}: nothing was drafted"]
    spread = max(known) / min(known) - 1
    return [f"{name}: AL from {min(known):.3f} to {max(known):.3f}"] if spread > SLEEP_TOLERANCE else []


async def hooks_after(fleet: Fleet, name: str) -> Made:
    """Whether the hooks of a lane that has slept still see the probabilities."""
    async with fleet.device():
        client = await fleet.awake(name)
        return await probabilities(client, client.fingerprint.draft_sample_method == "probabilistic")


def too_much(specs: Sequence[LaneSpec]) -> list[LaneSpec]:
    """These lanes, said to take so much that they have no room beside each other, and each has alone."""
    free = max((gpu.free for gpu in engine_gpus(specs[0])[:1]), default=0)
    each = TOO_MUCH * free / 1e9 / len(specs)
    return [msgspec.structs.replace(spec, memory_gb=round(each, 1)) for spec in specs]


@contextlib.asynccontextmanager
async def running(
    checks: Checks, specs: Sequence[LaneSpec], name: str, one_awake: bool
) -> AsyncIterator[Fleet | None]:
    """The lanes' fleet, or None when it does not start as it should; closed afterwards in any case."""
    fleet = Fleet(specs)
    try:
        limit = START_LIMIT_S * len(specs)
        right = await checks.run(f"{name}: start", limit, lambda: started(fleet, one_awake))
        yield fleet if right else None
    finally:
        await asyncio.to_thread(fleet.close)
