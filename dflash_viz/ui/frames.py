"""From a stream of events to frames: as many events as came within one, and never one less."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from typing import TypeVar

Item = TypeVar("Item")
# 20 frames a second at most: smooth to the eye, and cheap for server and page.
FRAME_S = 1 / 20


async def batches(items: AsyncIterator[Item], interval: float = FRAME_S) -> AsyncGenerator[list[Item]]:
    """Yield the items in groups, at most one group every ``interval`` seconds.

    What the source raises is raised here, after the items that came before it were passed on.
    """
    waiting: list[Item] = []
    arrived = asyncio.Event()
    now = asyncio.get_running_loop().time

    async def collect() -> None:
        try:
            async for item in items:
                waiting.append(item)
                arrived.set()
        finally:
            arrived.set()

    collector = asyncio.create_task(collect())
    try:
        while True:
            await arrived.wait()
            arrived.clear()
            due = now() + interval  # whoever takes the group takes time out of the interval
            done = collector.done()
            if waiting:
                group, waiting[:] = list(waiting), []
                yield group
            if done:
                await collector  # raises what the source raised
                return
            await asyncio.sleep(max(0.0, due - now()))
    finally:
        collector.cancel()
        await asyncio.gather(collector, return_exceptions=True)
