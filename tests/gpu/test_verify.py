"""The verification's own judgement: a fault must fail, and one failure must not end the rest."""

from __future__ import annotations

import asyncio
import json

import pytest

from dflash_viz.metrics import count
from dflash_viz.trace import Check, End, Position, Step, TokenProb
from dflash_viz.trace.counters import Counters
from gpu.asking import Answer, faults, prompts
from gpu.asking import _favoured as favoured
from gpu.checks import Checks, Made, Once

STEPS = [
    Step(0, 0.0, 0.10, 0.10, [5], last="plain", prefill=True),
    Step(1, 0.10, 0.15, 0.03, [6, 8], 0.01, [6, 7, 9], 1, "recovered", offset=1),
]


def answer(tokens: int = 3, agrees: bool | None = True, reason: str = "length") -> Answer:
    return Answer(STEPS, End(reason, "text", tokens, Check(agrees, "why")), 100.0)


def test_answers_that_agree() -> None:
    assert faults([answer(), answer(agrees=None)], count(STEPS) + count(STEPS)) == []


@pytest.mark.parametrize(
    ("given", "counted", "words"),
    [
        (answer(agrees=False), count(STEPS), "why"),
        (answer(reason="error"), count(STEPS), "ended: error"),
        (answer(tokens=4), count(STEPS), "the steps hold 3 tokens, the answer 4"),
        (answer(), Counters(2, 6, 1, (1, 0, 0)), "the server counted"),
        (answer(agrees=None), Counters(), "the server counted"),
    ],
)
def test_every_difference_is_a_fault(given: Answer, counted: Counters, words: str) -> None:
    assert words in faults([given], counted)[0]


def test_the_prompts_repeat_when_they_are_used_up() -> None:
    assert len(set(prompts(24))) == 24
    many = prompts(128)
    assert (len(many), len(set(many))) == (128, 60)


def test_what_was_emitted_may_be_one_of_several_favourites() -> None:
    def step(*probabilities: float) -> Step:
        tops = [TokenProb(i, p) for i, p in enumerate(probabilities)]
        return Step(0, 0.0, 1.0, 1.0, [1], positions=[Position(tops)])

    assert favoured(step(0.4, 0.4, 0.2), 0)
    assert not favoured(step(0.5, 0.4, 0.1), 0)
    assert not favoured(STEPS[0], 0)


async def good() -> Made:
    return True, "fine", {"al": 2.5}


async def bad() -> Made:
    raise ValueError("broken")


async def endless() -> Made:
    await asyncio.Event().wait()
    raise AssertionError


async def test_one_failure_does_not_eat_the_rest(capsys: pytest.CaptureFixture[str]) -> None:
    checks = Checks(60.0)
    assert not await checks.run("a", 5.0, bad)
    assert not await checks.run("b", 0.01, endless)
    assert await checks.run("c", 5.0, good)
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(line["check"], line["passed"], line["shown"]) for line in lines] == [
        ("a", False, "ValueError: broken"),
        ("b", False, "ran out of time"),
        ("c", True, "fine"),
    ]
    assert lines[2]["al"] == 2.5
    assert checks.table().splitlines()[2:] == [
        "| a | FAIL | ValueError: broken |",
        "| b | FAIL | ran out of time |",
        "| c | pass | fine |",
    ]


async def test_without_time_nothing_begins() -> None:
    checks = Checks(1.0)
    assert not await checks.run("late", 5.0, good)
    assert checks.done[0].shown == "skipped: no time left"


def test_a_message_is_said_once(capsys: pytest.CaptureFixture[str]) -> None:
    tell = Once()
    for message in ("loading", "loading", "ready"):
        tell(message)
    assert capsys.readouterr().err.count("loading") == 1
