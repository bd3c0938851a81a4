"""Starting in turn, pausing, failing and closing, with real processes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from dflash_viz.lanes import Fleet, Lane, LaneError, LaneSpec, load_preset

pytestmark = pytest.mark.engine
MISSING = LaneSpec("missing", "dflash", drafter="assets/none", num_speculative_tokens=7)
TOO_LONG = LaneSpec(
    "too-long", "dflash", drafter="assets/drafters/smollm2-135m-instruct-dflash-b8", num_speculative_tokens=9
)


HALTED = {psutil.STATUS_STOPPED, psutil.STATUS_DISK_SLEEP, psutil.STATUS_ZOMBIE}


def until(condition: Callable[[], bool], seconds: float = 30) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.fixture(scope="module")
def starting() -> Iterator[tuple[Fleet, Lane]]:
    """A fleet whose lane has processes and is far from ready."""
    fleet = Fleet([load_preset("embedded-cpu").lanes[-1]])
    lane = fleet.lanes["none"]
    fleet.start()
    until(lambda: lane._server is not None and len(lane._processes()) >= 2)
    yield fleet, lane
    fleet.close()


def statuses(lane: Lane) -> set[str]:
    return {process.status() for process in lane._processes()}


def test_a_start_pauses_while_somebody_is_timed(starting: tuple[Fleet, Lane]) -> None:
    fleet, lane = starting

    async def hold() -> None:
        async with fleet.device():
            assert lane.paused
            # The kernel stops a process at its next entry. One that has just started a child by vfork sleeps
            # until that child, stopped by then, goes on; one that has ended waits for its stopped parent.
            # None of them computes, as the times say.
            until(lambda: statuses(lane) <= HALTED)
            used = [process.cpu_times().user for process in lane._processes()]
            await asyncio.sleep(0.5)
            assert [process.cpu_times().user for process in lane._processes()] == used

    asyncio.run(hold())
    assert not lane.paused
    assert psutil.STATUS_STOPPED not in statuses(lane)
    assert lane.status.state in ("weights", "loading")


def test_whoever_is_cancelled_leaves_no_start_suspended(starting: tuple[Fleet, Lane]) -> None:
    fleet, lane = starting

    async def cancel_at_once() -> None:
        async def hold() -> None:
            async with fleet.device():
                await asyncio.sleep(10)

        for ticks in range(4):
            task = asyncio.create_task(hold())
            for _ in range(ticks):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            assert not lane.paused
            await asyncio.sleep(0.1)
            assert psutil.STATUS_STOPPED not in statuses(lane)

    asyncio.run(cancel_at_once())


def test_closing_in_a_pause_leaves_nothing(starting: tuple[Fleet, Lane]) -> None:
    """Runs last of these: the keeper, which is never suspended, ends an engine that stands still."""
    fleet, lane = starting
    assert lane._server is not None
    assert lane._server.keeper_pid is not None
    keeper, processes = psutil.Process(lane._server.keeper_pid), lane._processes()

    async def hold() -> None:
        async with fleet.device():
            assert keeper.status() != psutil.STATUS_STOPPED
            assert lane._server is not None
            assert lane._server._keeper is not None
            assert lane._server._keeper.stdin is not None
            lane._server._keeper.stdin.close()  # what the kernel does when the app is killed
            _, alive = await asyncio.to_thread(psutil.wait_procs, [keeper, *processes], 15)
            assert not alive
            fleet.close()

    asyncio.run(hold())
    assert lane.status.state in ("failed", "stopped")


def test_failures_are_named_and_retried_in_turn() -> None:
    fleet = Fleet([MISSING, TOO_LONG])
    fleet.start()
    try:
        for lane in fleet.lanes.values():
            until(lambda lane=lane: lane.status.state == "failed")  # type: ignore[misc]
        assert "There is no model 'assets/none'" in fleet.lanes["missing"].status.message
        assert "Set num_speculative_tokens to 7;" in fleet.lanes["too-long"].status.message
        fleet.retry("missing")
        fleet.retry("missing")  # a second press changes nothing
        assert fleet.lanes["missing"].status.state != "failed"
        until(lambda: fleet.lanes["missing"].status.state == "failed")
        assert fleet._starts.empty()
    finally:
        fleet.close()


def test_a_retry_right_after_a_failure_is_a_start_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody presses the button before the starts have seen that the lane has failed."""
    fleet = Fleet([MISSING])
    lane = fleet.lanes["missing"]
    starts = []

    def start() -> None:
        starts.append(lane.status.state)
        lane.fail("gone")
        if len(starts) < 3:
            fleet.retry("missing")

    monkeypatch.setattr(lane, "start", start)
    fleet.start()
    try:
        until(lambda: len(starts) == 3)
    finally:
        fleet.close()
    assert starts == ["queued"] * 3


def test_a_lane_that_is_not_ready_says_so() -> None:
    with pytest.raises(LaneError, match="not ready: waiting to start"):
        next(iter(Lane(MISSING).stream("Hi")))


def test_users_write_presets(tmp_path: Path) -> None:
    """Any method of vLLM's is a lane by configuration alone."""
    preset = tmp_path / "mine.yaml"
    preset.write_text(
        "title: mine\nlanes:\n"
        "  - {name: my suffix lane, method: suffix, num_speculative_tokens: 8,"
        " speculative: {suffix_decoding_max_tree_depth: 24}}\n"
    )
    spec = load_preset(str(preset)).lanes[0]
    assert '"suffix_decoding_max_tree_depth": 24' in (spec.speculative_config(None) or "")
