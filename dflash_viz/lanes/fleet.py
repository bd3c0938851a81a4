"""The lanes of one machine: started one after another, timed one at a time."""

from __future__ import annotations

import asyncio
import contextlib
import math
import queue
import threading
from collections.abc import AsyncIterator, Sequence

from dflash_viz.lanes.access import Server
from dflash_viz.lanes.attached import AttachedLane
from dflash_viz.lanes.errors import LaneError
from dflash_viz.lanes.face import LaneFace
from dflash_viz.lanes.lane import Lane
from dflash_viz.lanes.spec import LaneSpec


class Fleet:
    """All lanes of a preset, which share one device, and lanes on ``servers`` that run already.

    Engines start one after another: side by side each would take the others' memory for its own and
    all would be late. ``device`` gives the machine to one run at a time, and holds a start that is
    under way, so that nothing else is inside anybody's times.
    """

    def __init__(self, specs: Sequence[LaneSpec], servers: Sequence[Server] = ()) -> None:
        lanes: list[LaneFace] = [Lane(spec) for spec in specs]
        lanes += [AttachedLane(server) for server in servers]
        self.lanes = {lane.spec.name: lane for lane in lanes}
        self._starts: queue.Queue[LaneFace | None] = queue.Queue()
        self._free = threading.Event()
        self._free.set()
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None
        self._turns: tuple[asyncio.AbstractEventLoop | None, asyncio.Lock] = (None, asyncio.Lock())

    def start(self) -> None:
        """Start all lanes in the background, in their order; a server elsewhere waits for nobody."""
        for lane in self.lanes.values():
            if lane.shares_machine:
                self._starts.put(lane)
            else:
                lane.start()
        self._thread = threading.Thread(target=self._start_in_turn, name="lane-starts", daemon=True)
        self._thread.start()

    def retry(self, name: str) -> None:
        """Start a lane again that has failed or stopped, once the others have started; look again at a
        server elsewhere."""
        if self.lanes[name].queue():
            self._starts.put(self.lanes[name])

    def close(self) -> None:
        """Stop every engine and wait until nothing of them runs."""
        self._closed.set()
        self._free.set()
        self._starts.put(None)
        # All at once: one engine takes seconds to end.
        closing = [threading.Thread(target=lane.close) for lane in self.lanes.values()]
        for thread in closing:
            thread.start()
        for thread in closing:
            thread.join()
        if self._thread is not None:
            self._thread.join()

    def _start_in_turn(self) -> None:
        while (lane := self._starts.get()) is not None and not self._closed.is_set():
            self._free.wait()
            if self._closed.is_set():
                return
            lane.start()
            if self._closed.is_set():  # it may have been closed just before it started
                lane.close()
            with contextlib.suppress(LaneError):  # its status says why
                lane.wait_ready(math.inf)  # a start has its own time limit

    @property
    def shares_machine(self) -> bool:
        """Whether its lanes share one machine, as far as it knows."""
        return all(lane.shares_machine for lane in self.lanes.values())

    @property
    def busy(self) -> bool:
        """Whether somebody's run has the device at the moment."""
        return self._turns[1].locked()

    @contextlib.asynccontextmanager
    async def device(self) -> AsyncIterator[None]:
        """Have the device to oneself, after those who asked before."""
        loop = asyncio.get_running_loop()
        if self._turns[0] is not loop:  # a script may use one event loop after another
            self._turns = (loop, asyncio.Lock())
        async with self._turns[1]:
            # Nothing is awaited here: whoever is cancelled leaves no start suspended.
            self._free.clear()
            held = [lane for lane in self.lanes.values() if lane.pause()]
            try:
                yield
            finally:
                for lane in held:
                    lane.resume()
                self._free.set()
