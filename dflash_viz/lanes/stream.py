"""A run as an ordinary iterator, for scripts and notebooks that have no event loop of their own."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Iterator

from dflash_viz.lanes.client import LaneRun
from dflash_viz.lanes.counted import CountedRun
from dflash_viz.lanes.errors import LaneError
from dflash_viz.trace import End, Step


def stream_steps(run: LaneRun | CountedRun) -> Iterator[Step]:
    """Yield the steps of a run as they happen; closing the iterator stops the engine.

    The run lives on an event loop in a thread, because a notebook's own loop is busy with the cell.
    Raises ``LaneError`` when the engine refuses the request or ends in the middle.
    """
    events: queue.Queue[Step | Exception | None] = queue.Queue()
    closed = threading.Event()

    async def collect() -> None:
        async for line in run:
            if isinstance(line, Step):
                events.put(line)
            elif isinstance(line, End) and line.error is not None:
                raise LaneError(line.error)
            if closed.is_set():
                return

    def work() -> None:
        try:
            asyncio.run(collect())
        except Exception as error:  # raised again where the steps are read
            events.put(error)
        finally:
            events.put(None)

    thread = threading.Thread(target=work, name="lane-stream", daemon=True)
    thread.start()
    try:
        while (event := events.get()) is not None:
            if isinstance(event, Exception):
                raise event
            yield event
    finally:
        closed.set()
        thread.join()
