"""What a visitor sees where one engine is awake at a time; on stand-ins for engines, without a browser."""

from __future__ import annotations

import asyncio

import msgspec

from dflash_viz.trace import Message, Sampling
from dflash_viz.ui.chat import IN_TURN, Question
from dflash_viz.ui.page import Page
from dflash_viz.views.lane_style import lane_styles
from tests.lanes.sleepy import WHY, Made, made

__all__ = ["made"]


def first_line(made: Made, contended: bool, *lanes: str) -> dict[str, object]:
    fleet = made("a", "plain")
    styles = lane_styles([(name, lane.spec.method) for name, lane in fleet.lanes.items()])
    question = Question(fleet, list(lanes), [Message("user", "Hi")], Sampling(), 0, contended, [], styles)

    async def last() -> str:
        return [frame async for frame in question.frames()][-1].document

    document = asyncio.run(last())
    return msgspec.json.decode(document.splitlines()[0])


def test_who_asks_for_all_at_once_is_told_that_they_take_turns(made: Made) -> None:
    line = first_line(made, True, "a", "plain")
    assert (line["contended"], line["note"]) == (False, IN_TURN)


def test_one_lane_alone_needs_no_notice(made: Made) -> None:
    assert first_line(made, True, "a")["note"] == ""


def test_lanes_in_turn_need_no_notice(made: Made) -> None:
    assert first_line(made, False, "a", "plain")["note"] == ""


def test_the_page_says_who_sleeps_and_why(made: Made) -> None:
    page = Page(made("a", "plain"), [])
    chips, *retries = page.poll()
    assert WHY in chips
    assert chips.count("dv-asleep") == 1
    assert [retry["visible"] for retry in retries] == [False, False]


def test_a_question_that_a_sleeping_lane_cannot_answer_offers_no_retry(made: Made, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    """Its engine has not failed."""
    fleet = made("a", "plain")
    monkeypatch.setattr("dflash_viz.lanes.sleeper.free_ram", lambda: 1.0)
    styles = lane_styles([(name, lane.spec.method) for name, lane in fleet.lanes.items()])
    question = Question(fleet, ["a"], [Message("user", "Hi")], Sampling(), 0, False, [], styles)

    async def last() -> str:
        return [frame async for frame in question.frames()][-1].document

    document = asyncio.run(last())
    assert "cannot be put to sleep" in document
    assert "retry button" not in document
