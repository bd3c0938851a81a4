"""One engine awake at a time: who sleeps, who wakes, and what can go wrong, on stand-ins for engines."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

from dflash_viz.bench.engines import FleetEngines
from dflash_viz.lanes import Fleet, LaneError, LaneSpec, Race
from dflash_viz.lanes.room import Room, find_room
from dflash_viz.lanes.sleeper import Sleeper
from dflash_viz.trace import PLAIN, Message, Sampling, Trace
from dflash_viz.ui.verdicts import ask_target
from tests.lanes.sleepy import GATES, WHY, Made, made, spec, states
from tests.lanes.smi import H200, TWO, put_smi
from tests.lanes.test_fleet import until
from tests.lanes.test_race import Seen, run

__all__ = ["made"]


def race(fleet: Fleet, *lanes: str, contended: bool = False) -> Race:
    return Race(fleet, lanes or list(fleet.lanes), [Message("user", "Hi")], Sampling(), contended=contended)


def awake(fleet: Fleet, name: str) -> None:
    """Wake a lane as a run does."""

    async def wake() -> None:
        async with fleet.device():
            await fleet.awake(name)

    asyncio.run(wake())


async def until_waking(fleet: Fleet, name: str) -> None:
    await asyncio.to_thread(until, lambda: fleet.lanes[name].status.state == "waking")


def sleeper(fleet: Fleet, name: str) -> Sleeper:
    lane = fleet.lanes[name]
    assert isinstance(lane, Sleeper)
    return lane


def test_each_start_lets_the_others_sleep_first(made: Made, capsys: pytest.CaptureFixture[str]) -> None:
    fleet = made("a", "b", "plain")
    assert states(fleet) == ["asleep", "asleep", "ready"]
    assert made.device.since(0, "start", "sleep") == [
        ("start", "a"), ("sleep", "a"), ("start", "b"), ("sleep", "b"), ("start", "plain"),
    ]  # fmt: skip
    assert made.device.awake == {"plain"}
    assert WHY in capsys.readouterr().err
    with pytest.raises(LaneError, match="'a' is not ready: asleep"):
        next(iter(fleet.lanes["a"].stream("Hi")))


def test_an_engine_that_never_answers_its_first_question_is_ended(
    made: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dflash_viz.lanes.lane.WARM_LIMIT_S", 0.2)
    made.device.roomy = True
    GATES["a"] = threading.Event()
    fleet = made("a", start=False)
    fleet.start()
    until(lambda: "a" in made.device.engines)
    made.device.engines["a"].gates["completions"] = threading.Event()
    GATES["a"].set()
    until(lambda: fleet.lanes["a"].status.state == "failed")
    said = fleet.lanes["a"].status.message
    assert said == "The engine did not answer its first question within 0.2 s. Log: none"
    assert made.device.engines["a"].stopped
    fleet.retry("a")  # the new engine answers
    until(lambda: fleet.lanes["a"].status.state == "ready")


def test_a_woken_lane_says_how_its_test_went(made: Made) -> None:
    fleet = made("a", "plain")
    awake(fleet, "a")
    assert states(fleet) == ["ready", "asleep"]
    assert fleet.lanes["a"].status.message == "awake again: AL 3.00 as before"
    awake(fleet, "plain")
    assert fleet.lanes["plain"].status.message == "awake again"
    done = len(made.device.done)
    awake(fleet, "plain")
    assert made.device.done[done:] == [], "it was awake"


def test_a_little_less_is_told_and_no_fault(made: Made) -> None:
    made.device.accepted["a"] = [2]
    fleet = made("a", "b")
    sleeper(fleet, "a")._first_al = 3.1
    awake(fleet, "a")
    assert fleet.lanes["a"].status.message == "awake again: AL 3.00, 3.10 before"
    assert made.device.since(0, "start") == [("start", "a"), ("start", "b")]
    awake(fleet, "b")
    made.device.engines["a"].refuses["wake"] = 500
    awake(fleet, "a")
    assert "started anew: AL 3.00, 3.10 before" in fleet.lanes["a"].status.message, "the first one counts"
    awake(fleet, "b")
    awake(fleet, "a")
    assert fleet.lanes["a"].status.message == "awake again: AL 3.00, 3.10 before"


def test_a_race_wakes_each_lane_before_its_turn(made: Made) -> None:
    fleet = made("a", "b", "plain")
    done = len(made.device.done)
    seen = asyncio.run(run(race(fleet)))
    assert [lane for lane, state in seen.turns if state == "running"] == ["plain", "a", "b"]
    assert dict(seen.turns) == dict.fromkeys(fleet.lanes, "done")
    assert made.device.since(done, "sleep", "wake", "ask") == [
        ("ask", "plain"), ("sleep", "plain"),
        ("wake", "a"), ("ask", "a"), ("ask", "a"), ("sleep", "a"),  # the self-test, then the question
        ("wake", "b"), ("ask", "b"), ("ask", "b"),
    ]  # fmt: skip
    assert states(fleet) == ["asleep", "ready", "asleep"]


def test_no_lanes_run_at_the_same_time(made: Made) -> None:
    seen = asyncio.run(run(race(made("a", "b"), contended=True)))
    assert [turn for turn in seen.turns if turn[1] in ("running", "done")] == [
        ("b", "running"), ("b", "done"), ("a", "running"), ("a", "done"),
    ]  # fmt: skip
    assert [trace.header.contended_with for trace in seen.traces.values()] == [[], []]


def test_a_race_tells_of_the_waking(made: Made) -> None:
    fleet = made("a", "b")
    gate = made.device.engines["a"].gates["wake"] = threading.Event()
    waking = race(fleet, "a")

    async def follow() -> list[tuple[str, str]]:
        told = []
        async for _, event in waking.events():
            if hasattr(event, "message"):
                told.append((event.state, event.message))
                if event.message == "waking":
                    gate.set()
        return told

    told = asyncio.run(follow())
    assert told[:3] == [
        ("waiting", "waits for its turn"),
        ("loading", "wakes up when the others are asleep"),
        ("loading", "waking"),
    ]
    assert told[-2:] == [("running", "running"), ("done", "done")]


def test_two_visitors_never_fight(made: Made) -> None:
    fleet = made("a", "b", "plain")

    async def both() -> list[Seen]:
        races = (race(fleet, "a", "plain"), race(fleet, "plain", "b"), race(fleet, "b", "a"))
        return await asyncio.gather(*(run(one) for one in races))

    for seen in asyncio.run(both()):
        assert set(dict(seen.turns).values()) == {"done"}
    assert len(made.device.awake) == 1


def test_whoever_is_cancelled_leaves_a_waking_to_end(made: Made) -> None:
    fleet = made("a", "b", "plain")
    gate = made.device.engines["a"].gates["wake"] = threading.Event()

    async def cancel_and_go_on() -> Seen:
        waking = race(fleet, "a")
        task = asyncio.create_task(run(waking))
        await until_waking(fleet, "a")
        await waking.stop()
        assert dict((await task).turns) == {"a": "stopped"}
        assert not fleet.busy
        other = asyncio.create_task(run(race(fleet, "b")))
        await asyncio.sleep(0.1)
        assert states(fleet) == ["waking", "asleep", "asleep"]
        gate.set()
        return await other

    assert dict(asyncio.run(cancel_and_go_on()).turns) == {"b": "done"}
    assert states(fleet) == ["asleep", "ready", "asleep"]


def test_drafts_that_got_worse_cost_a_new_start(made: Made) -> None:
    fleet = made("a", "b")
    made.device.engines["a"].accepted_after_sleep = 0
    seen = asyncio.run(run(race(fleet, "a")))
    assert dict(seen.turns) == {"a": "done"}
    assert fleet.lanes["a"].status.message == (
        "started anew: AL 3.00 as before. After it had slept its drafts were worse (AL 1.00, 3.00 before)."
    )
    assert made.device.since(0, "start", "stop") == [
        ("start", "a"), ("start", "b"), ("stop", "a"), ("start", "a"),
    ]  # fmt: skip
    awake(fleet, "b")
    awake(fleet, "a")
    assert fleet.lanes["a"].status.message == "awake again: AL 3.00 as before"


def test_a_lane_whose_drafts_stay_bad_fails_with_both_figures(made: Made) -> None:
    made.device.accepted["a"] = [2, 0, 0]
    fleet = made("a", "b")
    made.device.engines["a"].accepted_after_sleep = 0
    seen = asyncio.run(run(race(fleet, "a", "b")))
    assert dict(seen.turns) == {"a": "failed", "b": "done"}
    assert "A new start did not help: AL 1.00, 3.00 before." in seen.messages["a"]
    assert "level 2" in seen.messages["a"]
    assert states(fleet) == ["failed", "asleep"]
    assert "on purpose, start the lane again" in fleet.lanes["a"].status.message


def test_a_drafter_that_was_changed_on_purpose_is_taken_on_a_retry(made: Made) -> None:
    made.device.accepted["a"] = [2, 0, 0]
    fleet = made("a", "b")
    made.device.engines["a"].accepted_after_sleep = 0
    asyncio.run(run(race(fleet, "a")))
    assert states(fleet) == ["failed", "asleep"]
    fleet.retry("a")
    until(lambda: states(fleet) == ["ready", "asleep"])
    assert fleet.lanes["a"].status.message == (
        "started anew: nothing to compare. Its drafts were worse before (AL 1.00, 3.00 before)."
    )
    awake(fleet, "b")
    awake(fleet, "a")
    assert fleet.lanes["a"].status.message == "awake again: AL 1.00 as before", "what it can do now"


def test_one_that_wakes_and_hangs_is_started_anew(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    fleet = made("a", "b")
    monkeypatch.setattr("dflash_viz.lanes.self_test.TIME_LIMIT_S", 1.0)
    engine = made.device.engines["a"]
    engine.gates["completions"] = threading.Event()  # nobody sets it before the engine is ended
    engine.silent = True
    seen = asyncio.run(run(race(fleet, "a")))
    assert dict(seen.turns) == {"a": "done"}
    assert fleet.lanes["a"].status.message == (
        "started anew: AL 3.00 as before. Its engine did not wake: The engine did not answer the test of its "
        "drafts within 1 s."
    )
    assert made.device.since(0, "start", "stop") == [
        ("start", "a"), ("start", "b"), ("stop", "a"), ("start", "a"),
    ]  # fmt: skip
    awake(fleet, "b")
    assert states(fleet) == ["asleep", "ready"], "the others have their turns again"


def test_an_engine_that_does_not_wake_is_started_anew(made: Made) -> None:
    fleet = made("a", "b")
    made.device.engines["a"].refuses["wake"] = 500
    awake(fleet, "a")
    assert states(fleet) == ["ready", "asleep"]
    assert fleet.lanes["a"].status.message == (
        "started anew: AL 3.00 as before. Its engine did not wake: RuntimeError: no."
    )


def test_an_engine_that_does_not_sleep_is_ended(made: Made) -> None:
    fleet = made("a", "b")
    made.device.engines["b"].refuses["sleep"] = 500
    seen = asyncio.run(run(race(fleet, "a")))
    assert dict(seen.turns) == {"a": "done"}
    assert states(fleet) == ["ready", "failed"]
    assert "could not be put to sleep, and was ended: RuntimeError: no." in fleet.lanes["b"].status.message
    fleet.retry("b")
    until(lambda: states(fleet) == ["asleep", "ready"])
    made.device.engines["b"].stop()
    until(lambda: states(fleet) == ["asleep", "failed"])
    assert "ended unexpectedly" in fleet.lanes["b"].status.message, "what was before is over"


def test_nobody_wakes_beside_an_engine_that_is_on_its_way_out(made: Made) -> None:
    fleet = made("a", "b")
    engine = made.device.engines["b"]
    gate = engine.gates["stop"] = threading.Event()
    engine.silent = True
    until(lambda: states(fleet) == ["asleep", "failed"])
    assert made.device.awake == {"b"}, "it has failed, and has its memory still"
    threading.Timer(0.2, gate.set).start()
    awake(fleet, "a")
    assert made.device.since(0, "stop", "wake") == [("stop", "b"), ("wake", "a")]


def no_ram(monkeypatch: pytest.MonkeyPatch, left: float) -> None:
    monkeypatch.setattr("dflash_viz.lanes.sleeper.free_ram", lambda: left)


def test_a_start_is_refused_where_memory_cannot_hold_the_weights(
    made: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    no_ram(monkeypatch, 5.4e9)
    fleet = made("a", "b", start=False)
    fleet.start()
    until(lambda: fleet.lanes["b"].status.state == "failed")
    assert fleet.lanes["a"].status.state == "ready"
    assert "'a' has the GPU and cannot be put to sleep" in fleet.lanes["b"].status.message
    assert "4.5 GB of this machine's memory, where 5.4 GB are" in fleet.lanes["b"].status.message
    no_ram(monkeypatch, 5.6e9)
    fleet.retry("b")
    until(lambda: states(fleet) == ["asleep", "ready"])
    no_ram(monkeypatch, 5.4e9)
    seen = asyncio.run(run(race(fleet, "a", "b")))
    assert dict(seen.turns) == {"a": "failed", "b": "done"}
    assert "'b' has the GPU" in seen.messages["a"]
    assert states(fleet) == ["asleep", "ready"], "the one that is awake stays so"
    no_ram(monkeypatch, 5.6e9)
    awake(fleet, "a")
    no_ram(monkeypatch, 0)
    awake(fleet, "b")  # both have slept, and keep what they slept in
    assert states(fleet) == ["asleep", "ready"]


def test_an_engine_that_dies_asleep_is_noticed(made: Made) -> None:
    fleet = made("a", "b")
    made.device.engines["a"].stop()
    until(lambda: states(fleet) == ["failed", "ready"])
    assert "has ended unexpectedly" in fleet.lanes["a"].status.message
    fleet.retry("a")
    until(lambda: states(fleet) == ["ready", "asleep"])


def test_one_that_dies_while_it_wakes_is_started_anew(made: Made) -> None:
    fleet = made("a", "b")
    engine = made.device.engines["a"]
    engine.gates["wake"] = threading.Event()

    async def die() -> Seen:
        task = asyncio.create_task(run(race(fleet, "a")))
        await until_waking(fleet, "a")
        engine.stop()
        return await task

    assert dict(asyncio.run(die()).turns) == {"a": "done"}
    assert "started anew" in fleet.lanes["a"].status.message


def test_a_sleeping_engine_may_be_silent(made: Made) -> None:
    fleet = made("a", "b")
    looks = []
    for engine in made.device.engines.values():
        health = engine.health
        engine.silent = True
        engine.health = lambda health=health, engine=engine: (looks.append(engine.spec.name), health())[1]
    until(lambda: looks.count("a") > 6)
    assert states(fleet, ["a"]) == ["asleep"]
    until(lambda: states(fleet, ["b"]) == ["failed"])  # one that is awake may not


def test_closing_ends_engines_that_sleep(made: Made) -> None:
    fleet = made("a", "b")
    fleet.close()
    assert states(fleet) == ["stopped", "stopped"]
    assert all(engine.stopped for engine in made.device.engines.values())


def test_closing_while_one_wakes_starts_none_in_its_place(made: Made) -> None:
    fleet = made("a", "b")
    made.device.engines["a"].gates["wake"] = threading.Event()

    async def close() -> None:
        async with fleet.device():
            waking = asyncio.create_task(fleet.awake("a"))
            await until_waking(fleet, "a")
            await asyncio.to_thread(fleet.close)
            with pytest.raises(LaneError, match="stopped"):
                await waking

    asyncio.run(close())
    assert states(fleet) == ["stopped", "stopped"]
    assert made.device.since(0, "start") == [("start", "a"), ("start", "b")]


def test_a_start_has_the_machine_for_itself(made: Made) -> None:
    gate = GATES["b"] = threading.Event()
    fleet = made("a", "b", start=False)
    fleet.start()
    until(lambda: ("start", "b") in made.device.done)
    assert states(fleet) == ["asleep", "loading"]

    async def ask() -> Seen:
        task = asyncio.create_task(run(race(fleet, "a")))
        await asyncio.sleep(0.2)
        assert not fleet.lanes["b"].paused, "it could not end"
        assert fleet.lanes["a"].status.state == "asleep"
        gate.set()
        return await task

    seen = asyncio.run(ask())
    assert ("a", "waiting") in seen.turns
    assert dict(seen.turns) == {"a": "done"}


def test_a_start_waits_for_a_run(made: Made) -> None:
    fleet = made("a", "b")
    made.device.engines["a"].stop()
    until(lambda: states(fleet) == ["failed", "ready"])

    async def hold() -> None:
        async with fleet.device():
            fleet.retry("a")
            await asyncio.sleep(0.2)
            assert states(fleet) == ["queued", "ready"]

    asyncio.run(hold())
    until(lambda: states(fleet) == ["ready", "asleep"])


def test_the_target_is_asked_where_texts_part(made: Made) -> None:
    fleet = made("plain", "a")
    seen = asyncio.run(run(race(fleet, "plain", "a")))
    awake(fleet, "a")
    traces: list[Trace] = list(seen.traces.values())
    best = asyncio.run(ask_target(fleet, traces))
    assert [token.id for token in best["a"]] == [3, 4]
    assert states(fleet) == ["ready", "asleep"]


def test_a_benchmark_takes_the_lane_or_the_whole_gpu(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    fleet = made("a", "b")
    engines = FleetEngines(fleet)

    async def borrow() -> None:
        async with engines.ready(fleet.lanes["a"].spec, 1, print) as client:
            assert client is fleet.lanes["a"].client
        with pytest.raises(LaneError, match="no such engine"):
            async with engines.ready(spec("c"), 1, print):
                raise AssertionError

    def start(self: object) -> None:
        assert made.device.awake == set()
        raise LaneError("no such engine")

    monkeypatch.setattr("dflash_viz.bench.engines.Lane.start", start)
    asyncio.run(borrow())
    assert states(fleet) == ["asleep", "asleep"]
    monkeypatch.undo()


@pytest.fixture
def gpu_build(monkeypatch: pytest.MonkeyPatch) -> None:
    """Engines run on a GPU, if there is one."""
    monkeypatch.setattr("dflash_viz.lanes.device.is_cpu_build", lambda: False)


def sized(*sizes: float, **environment: str) -> list[LaneSpec]:
    """Lanes that take so many GB."""
    return [
        LaneSpec(f"lane {i}", PLAIN, memory_gb=size, environment=environment) for i, size in enumerate(sizes)
    ]


@pytest.mark.usefixtures("gpu_build")
def test_engines_that_fit_stay_resident(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    put_smi(monkeypatch, tmp_path, H200)  # 150.1 GB are free
    assert find_room(sized(40, 40, 40, 22)) == Room()
    assert find_room(sized(0, 0, 0, 0)) == Room(), "what is not known counts as fitting"
    assert find_room(sized(400)) == Room(), "alone there is nobody to take turns with"
    assert find_room(sized(50, 50, 50, 0)) == Room(
        True,
        "One engine awake at a time: 4 engines need 150 GB of GPU memory, 143 GB are free for them.",
    )


@pytest.mark.usefixtures("gpu_build")
def test_each_gpu_has_its_own_room(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    put_smi(monkeypatch, tmp_path, TWO)  # 23.7 and 9.4 GB are free
    first, second = ({"CUDA_VISIBLE_DEVICES": number} for number in "01")
    assert not find_room([*sized(11, 11, **first), *sized(8, **second)]).one_awake
    found = find_room([*sized(11, 11, **first), *sized(8, 1, **second)])
    assert found.one_awake
    assert found.why.endswith("2 engines need 9 GB of GPU memory, 9 GB are free for them.")
    assert find_room([*sized(11, 11, **first), *sized(2)]).one_awake, "the first is everybody's"
    assert not find_room([*sized(11, 11), *sized(8, **second)]).one_awake


@pytest.mark.usefixtures("gpu_build")
def test_where_other_gpus_idle_the_reason_says_how_to_use_them(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    put_smi(monkeypatch, tmp_path, TWO)
    assert find_room(sized(11, 12)).why.endswith(
        'All take the first of 2 GPUs: a lane with environment: {CUDA_VISIBLE_DEVICES: "1"} in the preset '
        "takes another."
    )
    both = [LaneSpec(name, PLAIN, memory_gb=20, engine={"tensor-parallel-size": 2}) for name in "ab"]
    assert find_room(both).why.endswith("free for them.")


@pytest.mark.usefixtures("gpu_build")
def test_without_a_gpu_nobody_sleeps(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    put_smi(monkeypatch, tmp_path, None)
    assert find_room(sized(50, 50)) == Room()


def test_vllms_build_for_cpus_does_not_sleep(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    put_smi(monkeypatch, tmp_path, H200)
    monkeypatch.setattr("dflash_viz.lanes.device.is_cpu_build", lambda: True)
    assert find_room(sized(100, 100)) == Room()
