"""How the cost of the hooks is judged."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from random import Random
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

import gpu.overhead as overhead_module
from gpu.overhead import Pieces, judge, overhead, pieces, share

OFF: list[Pieces] = [(0.2, 100), (0.1, 50), (0.3, 150), (0.2, 100), (0.1, 40), (0.2, 90)]


def slower(by: float) -> list[Pieces]:
    return [(seconds * by, number) for seconds, number in OFF]


def test_shares_are_of_the_speed_without_hooks() -> None:
    assert share(OFF, slower(1.25)).value == pytest.approx(0.8)
    made = share(OFF, slower(1.25))
    assert made.low is not None
    assert made.low == pytest.approx(0.8), "prompt by prompt they differ by as much"


@pytest.mark.parametrize(
    ("on", "top", "passes"),
    [(1.01, 1.04, True), (1.03, 1.04, False), (1.01, 1.07, False), (0.99, 1.0, True)],
)
def test_both_limits_must_hold(on: float, top: float, passes: bool) -> None:
    passed, shown, figures = judge(
        {"off": OFF, "control": slower(1.001), "on": slower(on), "top": slower(top)}
    )
    assert passed is passes
    assert f"{1 / on:.3f} [{1 / on:.3f}, {1 / on:.3f}]" in shown
    assert "(6 answers each way)" in shown
    assert figures["control"][0] == pytest.approx(1 / 1.001, abs=1e-4)
    assert figures["piece_ms"] == pytest.approx(1000 * 1.1 / 530, abs=1e-3)


@pytest.mark.parametrize(
    ("noise", "limit", "answers", "words"),
    [
        (0.0, 60, range(6, 7), "way)"),
        (0.03, 60, range(30, 300), "way)"),
        (0.03, 0, range(3, 4), "; not settled)"),
    ],
)
async def test_prompts_are_asked_until_the_shares_are_settled(
    monkeypatch: pytest.MonkeyPatch, noise: float, limit: float, answers: range, words: str
) -> None:
    random, hooks = Random(0), False

    @contextlib.asynccontextmanager
    async def watched(_: object, on: bool) -> AsyncIterator[None]:
        nonlocal hooks
        hooks = on
        yield

    async def pieces(_: object, prompt: str, tokens: int, top_k: int) -> Pieces:
        return random.gauss(1, noise) * (1.01 if hooks else 1) * 0.1, 100

    async def ask(*_: object) -> None:
        """Warms."""

    for function in (watched, pieces, ask):
        monkeypatch.setattr(overhead_module, function.__name__, function)
    client: Any = SimpleNamespace(http=httpx.AsyncClient)
    passed, shown, figures = await overhead(client, list("abcdef"), 64, limit)
    assert figures["answers"] in answers
    assert shown.endswith(words)
    assert passed is (figures["on"][0] >= 0.98)
    assert figures["on"][0] == pytest.approx(1 / 1.01, abs=max(0.02, 3 * noise / figures["answers"] ** 0.5))


async def test_the_time_between_an_answers_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Announcements are no pieces, and one that was long in coming counts."""
    clock = iter([10.0, 11.0, 12.0, 60.0])
    monkeypatch.setattr("gpu.overhead.time", SimpleNamespace(perf_counter=lambda: next(clock)))
    words = ['{"delta":{"role":"assistant","content":""}}', *['{"delta":{"content":"a"}}'] * 4, "{}"]

    def answer(request: httpx.Request) -> httpx.Response:
        assert b"dflash_viz_top_k" in request.content
        return httpx.Response(200, text="".join(f"data: {word}\n\n" for word in words))

    async with httpx.AsyncClient(transport=httpx.MockTransport(answer), base_url="http://engine") as http:
        assert await pieces(http, "Why?", 64, 5) == (50.0, 3)
