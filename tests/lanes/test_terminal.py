"""What the terminal says of lanes that have failed: whoever starts the app over ssh has no page at first."""

from __future__ import annotations

import pytest

from dflash_viz.lanes import Fleet, LaneSpec, Server
from dflash_viz.lanes.client import LaneClient
from tests.lanes.test_attached import SERVED, Answering
from tests.lanes.test_fleet import until

# It fails before there is any process.
LOST = LaneSpec("lost", "dflash", num_speculative_tokens=3)


def test_a_lane_that_cannot_start_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    fleet = Fleet([LOST])
    told = "lost: failed: Lane 'lost' has no drafter: name one in the preset (drafter: ...)."
    fleet.start()
    try:
        until(lambda: fleet.lanes["lost"].status.state == "failed")
        assert capsys.readouterr().err.splitlines() == [told]
    finally:
        fleet.close()


def test_a_server_that_goes_away_is_said_once(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """However often it is looked at; and the reason stays what it was."""
    monkeypatch.setattr("dflash_viz.lanes.attached.LOOK_EVERY_S", 0.02)
    with Answering(SERVED) as url:
        fleet = Fleet([], [Server("there", url)])
        there = fleet.lanes["there"]
        fleet.start()
        there.wait_ready(30)
    reasons: list[str] = []
    connect = there._connect  # type: ignore[attr-defined]

    def look() -> LaneClient:
        reasons.append(there.status.message)
        return connect()  # type: ignore[no-any-return]

    monkeypatch.setattr(there, "_connect", look)
    until(lambda: len(reasons) > 2)
    fleet.close()
    gone = f"The server at {url} does not answer any more. The lane goes on as soon as it does."
    assert set(reasons) == {gone}
    hooks, failed = capsys.readouterr().err.splitlines()
    assert hooks.startswith("there: counts only: This server runs without the hooks of DFlash Viz")
    assert failed == f"there: failed: {gone}"


def test_what_a_server_says_is_one_plain_line(capsys: pytest.CaptureFixture[str]) -> None:
    Fleet([], [Server("there", "http://h")]).lanes["there"].fail("\x1b[2Jno\nroom")
    assert capsys.readouterr().err == "there: failed:  [2Jno room\n"
