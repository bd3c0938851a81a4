"""From a stream of lines to frames: as many lines as came within one, and never one less."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from dflash_viz.trace import Line

# 20 frames a second at most: smooth to the eye, and cheap for server and page.
FRAME_S = 1 / 20


async def batches(lines: AsyncIterator[Line], interval: float = FRAME_S) -> AsyncIterator[list[Line]]:
    """Yield the lines in groups, at most one group every ``interval`` seconds.

    What the source raises is raised here, after the lines that came before it were passed on.
    """
    waiting: list[Line] = []
    arrived = asyncio.Event()
    now = asyncio.get_running_loop().time

    async def collect() -> None:
        try:
            async for line in lines:
                waiting.append(line)
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
