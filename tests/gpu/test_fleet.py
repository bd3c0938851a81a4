"""What the fleet's check on a GPU calls a fault; on stand-ins for engines."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from dflash_viz.lanes import LaneError
from dflash_viz.lanes.room import find_room
from dflash_viz.lanes.sleeper import Sleeper
from dflash_viz.weights.resolver import ROOT
from gpu.checks import Checks
from gpu.fleet import resident_race, running, started, too_much, turns
from tests.lanes.sleepy import Made, made, spec
from tests.lanes.smi import H200, put_smi

__all__ = ["made"]
LANES = ("a", "b", "plain")


@pytest.mark.parametrize("together", [False, True])
async def test_a_resident_race_has_complete_traces(made: Made, together: bool) -> None:
    made.device.roomy = True
    fleet = made(*LANES, start=False)
    passed, shown, figures = await started(fleet, one_awake=False)
    assert passed, shown
    assert list(figures["states"].values()) == ["ready"] * 3
    passed, shown, figures = await resident_race(fleet, 2, 16, together)
    assert passed, shown
    assert shown.startswith("6 traces, 0 faults, AL a 3.00, b 3.00, ")
    assert figures["al"] == {"a": 3.0, "b": 3.0, "plain": None}


async def test_a_server_that_counts_otherwise_is_a_fault(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    made.device.roomy = True
    fleet = made("a", "plain")
    engine = made.device.engines["a"]
    metrics = engine.metrics

    def more_each_time() -> str:
        engine.miscounted = 1 if engine.num_drafts > 4 else 0
        return metrics()

    monkeypatch.setattr(engine, "metrics", more_each_time)
    passed, shown, _ = await resident_race(fleet, 1, 16, together=False)
    assert not passed
    assert "a: recorded" in shown


async def test_a_lane_that_fails_is_a_fault(made: Made) -> None:
    made.device.roomy = True
    fleet = made("a", "plain")
    made.device.engines["a"].refuses["completions"] = 400
    passed, shown, _ = await resident_race(fleet, 1, 16, together=False)
    assert not passed
    assert "a: no answer: The engine refused the request" in shown


async def test_lanes_that_sleep_are_not_resident(made: Made) -> None:
    passed, shown, _ = await started(made("a", "plain", start=False), one_awake=False)
    assert not passed
    assert "a asleep, plain ready" in shown
    assert "One engine awake at a time" in shown
    made.device.roomy = True
    passed, shown, _ = await started(made("a", "plain", start=False), one_awake=True)
    assert not passed
    assert "all resident" in shown


async def test_a_lane_that_does_not_start_is_named(made: Made) -> None:
    fleet = made("a", "plain", start=False)
    made.device.accepted["a"] = [0]
    lane = fleet.lanes["a"]
    assert isinstance(lane, Sleeper)
    lane._first_al = 3.0
    with pytest.raises(LaneError, match=r"a: .*AL 1\.00, 3\.00 before"):
        await started(fleet, one_awake=True)


async def test_turns_that_are_all_alike_pass(made: Made) -> None:
    fleet = made("a", "plain")
    passed, shown, figures = await turns(fleet, 2, 16)
    assert passed, shown
    assert [(f["lane"], f["al"], f["told"]) for f in figures["turns"]] == [
        ("a", 3.0, "awake again: AL 3.00 as before"), ("plain", None, "awake again"),
    ] * 2  # fmt: skip
    assert made.device.since(0, "sleep", "wake")[1:] == [
        ("sleep", "plain"), ("wake", "a"), ("sleep", "a"), ("wake", "plain"),
    ] * 2  # fmt: skip


async def test_drafts_that_change_from_turn_to_turn_are_a_fault(
    made: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dflash_viz.lanes.sleeper.is_worse", lambda *_: False)  # the lane's own test is blind
    fleet = made("a", "plain")
    engine = made.device.engines["a"]
    metrics = engine.metrics

    def worse_the_next_time() -> str:
        engine.accepted_after_sleep = 1
        return metrics()

    monkeypatch.setattr(engine, "metrics", worse_the_next_time)
    passed, shown, _ = await turns(fleet, 1, 16)
    assert not passed
    assert "a: AL from 2.000 to 3.000" in shown


def test_what_is_too_much_together_fits_alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    put_smi(monkeypatch, tmp_path, H200)
    monkeypatch.setattr("dflash_viz.lanes.device.is_cpu_build", lambda: False)
    specs = too_much([spec("a"), spec("plain")])
    assert [lane.memory_gb for lane in specs] == [90.1, 90.1]
    assert find_room(specs).one_awake
    put_smi(monkeypatch, tmp_path / "none", None)
    assert [lane.memory_gb for lane in too_much(specs)] == [0.0, 0.0]


def test_nothing_is_imported_that_a_gpu_host_lacks() -> None:
    absent = ("gradio", "plotly", "pandas", "typer")
    code = f"import sys; sys.modules.update(dict.fromkeys({absent!r})); import gpu.fleet"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT, timeout=60)


async def test_engines_are_ended_whatever_happens(made: Made, capsys: pytest.CaptureFixture[str]) -> None:
    checks = Checks(60.0)
    async with running(checks, [spec("a"), spec("plain")], "resident", one_awake=False) as fleet:
        assert fleet is None
    assert not checks.done[0].passed
    assert all(engine.stopped for engine in made.device.engines.values())
    assert '"check": "resident: start"' in capsys.readouterr().out
