"""Frames: few enough to draw, and never one line less."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from dflash_viz.ui.frames import batches


async def source(count: int, pause: float, error: bool = False) -> AsyncIterator[int]:
    for i in range(count):
        yield i
        await asyncio.sleep(pause)
    if error:
        raise ValueError("the source broke")


async def test_every_line_comes_once_and_in_order() -> None:
    groups = [group async for group in batches(source(300, 0.001), 0.05)]
    assert [line for group in groups for line in group] == list(range(300))
    assert len(groups) < 60


async def test_slow_lines_are_not_held_back() -> None:
    times, loop = [], asyncio.get_running_loop()
    start = loop.time()
    async for _ in batches(source(3, 0.2), 0.05):
        times.append(loop.time() - start)
    assert [round(t / 0.2) for t in times] == [0, 1, 2]


async def test_errors_come_after_the_lines() -> None:
    lines: list[object] = []

    async def read() -> None:
        async for group in batches(source(5, 0.0, error=True), 0.01):
            lines.extend(group)

    with pytest.raises(ValueError, match="the source broke"):
        await read()
    assert lines == list(range(5))


async def test_closing_closes_the_source() -> None:
    closed = asyncio.Event()

    async def endless() -> AsyncIterator[int]:
        try:
            while True:
                yield 1
                await asyncio.sleep(0.01)
        finally:
            closed.set()

    frames = batches(endless(), 0.01)
    await anext(frames)
    await frames.aclose()
    assert closed.is_set()
