"""The lanes of one machine: started one after another, timed one at a time."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import queue
import sys
import threading
import time
from collections.abc import AsyncIterator, Sequence
from concurrent.futures import ThreadPoolExecutor

from dflash_viz.lanes.access import Server
from dflash_viz.lanes.attached import AttachedLane
from dflash_viz.lanes.client import LaneClient
from dflash_viz.lanes.errors import LaneError
from dflash_viz.lanes.face import UNDER_WAY, LaneFace
from dflash_viz.lanes.lane import Lane
from dflash_viz.lanes.room import find_room
from dflash_viz.lanes.sleeper import Sleeper
from dflash_viz.lanes.spec import LaneSpec

LOOK_EVERY_S = 0.05


def _say(lane: str, what: str) -> None:
    """A line on the terminal, where servers' words are not to reach the cursor."""
    line = "".join(letter if letter.isprintable() else " " for letter in f"{lane}: {what}")
    print(line, file=sys.stderr, flush=True)


class Fleet:
    """All lanes of a preset, which share one device, and lanes on ``servers`` that run already.

    Engines start one after another: side by side each would take the others' memory for its own and
    all would be late. ``device`` gives the machine to one run at a time, and holds a start that is
    under way, so that nothing else is inside anybody's times.

    Where the engines have no room beside each other (``room``), one is awake at a time: ``awake`` is
    how a run gets its lane. A start then has the machine for itself, and runs wait for its end.
    """

    def __init__(self, specs: Sequence[LaneSpec], servers: Sequence[Server] = ()) -> None:
        self.room = find_room(specs)
        kind = Sleeper if self.room.one_awake else Lane
        lanes: list[LaneFace] = [kind(spec) for spec in specs]
        lanes += [AttachedLane(server) for server in servers]
        for lane in lanes:
            lane.tell = functools.partial(_say, lane.spec.name)
        self.lanes = {lane.spec.name: lane for lane in lanes}
        self._starts: queue.Queue[LaneFace | None] = queue.Queue()
        self._free = threading.Event()
        self._free.set()
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None
        self._turns: tuple[asyncio.AbstractEventLoop | None, asyncio.Lock] = (None, asyncio.Lock())
        # Where one is awake at a time: a run or a start holds the machine; who is awake changes in one
        # thread, so that a change which nobody waits for any more ends before the next begins.
        self._machine = threading.Lock()
        self._switcher = ThreadPoolExecutor(1, "lane-switch")

    def start(self) -> None:
        """Start all lanes in the background, in their order; a server elsewhere waits for nobody."""
        if self.room.one_awake:
            print(self.room.why, file=sys.stderr, flush=True)
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
        self._switcher.shutdown(cancel_futures=True)

    def _start_in_turn(self) -> None:
        while (lane := self._starts.get()) is not None and not self._closed.is_set():
            self._free.wait()
            if self._closed.is_set():
                return
            if isinstance(lane, Sleeper):
                self._start_alone(lane)
            else:
                self._start(lane)

    def _start(self, lane: LaneFace) -> None:
        """Start a lane and wait until it is ready, or has failed."""
        lane.start()
        if self._closed.is_set():  # it may have been closed just before it started
            lane.close()
        # A start has its own time limit. Queued is one that has failed and been asked for again meanwhile.
        while lane.status.state in UNDER_WAY:
            time.sleep(LOOK_EVERY_S)

    def _start_alone(self, lane: Sleeper) -> None:
        """Start a lane once no run has the machine, while all others sleep."""
        while not self._machine.acquire(timeout=LOOK_EVERY_S):
            if self._closed.is_set():
                return
        try:
            self._switcher.submit(self._make_room, lane).result()
            self._start(lane)
        except LaneError as error:
            lane.fail(str(error))
        finally:
            self._machine.release()

    def _make_room(self, lane: Sleeper | None) -> None:
        """Let the other engines take no memory. Raises ``LaneError`` where one has to stay awake."""
        for other in self.lanes.values():
            if isinstance(other, Sleeper) and other is not lane:
                other.make_room()

    async def awake(self, name: str) -> LaneClient:
        """The client of a lane whose engine is awake now; to be called inside ``device``.

        A sleeping engine is woken once the others sleep, tested, and if need be started anew. That goes on
        when whoever waits for it is cancelled. Raises ``LaneError`` when the lane does not become ready.
        """
        lane = self.lanes[name]
        if isinstance(lane, Sleeper):
            await asyncio.get_running_loop().run_in_executor(self._switcher, self._switch_to, lane)
        if lane.client is None:
            ready = lane.status.state == "ready"
            gone = f"The {'engine' if lane.shares_machine else 'server'} has just ended."
            raise LaneError(gone if ready else lane.status.message)
        return lane.client

    async def all_asleep(self) -> None:
        """Leave the GPU to an engine of the caller's, where one is awake at a time; to be called inside
        ``device``. Raises ``LaneError`` where one has to stay awake."""
        await asyncio.get_running_loop().run_in_executor(self._switcher, self._make_room, None)

    def _switch_to(self, lane: Sleeper) -> None:
        if lane.status.state == "asleep":
            self._make_room(lane)
            if lane.wake() and not self._closed.is_set():
                self._start(lane)

    @property
    def shares_machine(self) -> bool:
        """Whether its lanes share one machine, as far as it knows."""
        return all(lane.shares_machine for lane in self.lanes.values())

    @property
    def busy(self) -> bool:
        """Whether somebody's run has the device at the moment."""
        return self._turns[1].locked()

    @property
    def starting(self) -> bool:
        """Whether an engine's start has the machine for itself at the moment."""
        return self._machine.locked() and not self.busy

    @contextlib.asynccontextmanager
    async def device(self) -> AsyncIterator[None]:
        """Have the device to oneself, after those who asked before."""
        loop = asyncio.get_running_loop()
        if self._turns[0] is not loop:  # a script may use one event loop after another
            self._turns = (loop, asyncio.Lock())
        async with self._turns[1], self._between_starts() if self.room.one_awake else self._starts_held():
            yield

    @contextlib.asynccontextmanager
    async def _starts_held(self) -> AsyncIterator[None]:
        """Suspend a start that is under way."""
        # Nothing is awaited here: whoever is cancelled leaves no start suspended.
        self._free.clear()
        held = [lane for lane in self.lanes.values() if lane.pause()]
        try:
            yield
        finally:
            for lane in held:
                lane.resume()
            self._free.set()

    @contextlib.asynccontextmanager
    async def _between_starts(self) -> AsyncIterator[None]:
        """Wait until a start has ended, as its engine has the GPU; the next one waits for us."""
        self._free.clear()
        try:
            while not self._machine.acquire(blocking=False):  # noqa: ASYNC110 (a thread gives it back)
                await asyncio.sleep(LOOK_EVERY_S)
            try:
                yield
            finally:
                self._machine.release()
        finally:
            self._free.set()
