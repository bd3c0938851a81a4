"""One prompt on several lanes: the order, the turns, and who has the device when."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import AsyncGenerator, Sequence
from typing import Literal

import msgspec

from dflash_viz.lanes.client import LaneClient, LaneRun
from dflash_viz.lanes.counted import CountedRun, Text
from dflash_viz.lanes.errors import LaneError
from dflash_viz.lanes.face import ENDED, LaneFace
from dflash_viz.lanes.fleet import Fleet
from dflash_viz.trace import End, Header, Line, Message, Sampling

TurnState = Literal["waiting", "loading", "running", "done", "stopped", "failed"]
WAIT_S = 0.5
BUSY = "waits: another question has the machine"
STARTS_LATER = "its engine starts after the others"
OTHER_STARTS = "waits: another engine starts and has the GPU"
WAKES = "wakes up when the others are asleep"


class Turn(msgspec.Struct, frozen=True):
    """Where one lane stands in a race; ``progress`` and ``seconds_left`` while its engine starts."""

    state: TurnState
    message: str
    progress: float | None = None
    seconds_left: float | None = None


Event = tuple[str, Turn | Line | Text]


class Race:
    """One prompt on some lanes of a fleet; ``events`` runs it, ``stop`` ends it at once.

    Lanes run one after another, those that are ready first, so that none takes time from another;
    ``contended`` runs them at the same time instead, and their traces say so; where one engine is awake
    at a time they run one after another all the same, each woken before its time begins. A lane that
    fails does not disturb the others.
    """

    def __init__(
        self,
        fleet: Fleet,
        lanes: Sequence[str],
        messages: list[Message],
        sampling: Sampling,
        top_k: int = 0,
        contended: bool = False,
    ) -> None:
        self._fleet = fleet
        self._waiting = [fleet.lanes[name] for name in lanes]
        self._messages = messages
        self._sampling = sampling
        self._top_k = top_k
        self._contended = contended and not fleet.room.one_awake
        self._events: asyncio.Queue[Event | Exception | None] = asyncio.Queue()
        self._told: dict[str, Turn] = {}
        self._runs: dict[str, LaneRun | CountedRun] = {}
        self._stopped = False
        self._driver: asyncio.Task[None] | None = None

    async def stop(self) -> None:
        """End the race: running lanes stop with what they have, waiting ones never start."""
        self._stopped = True
        if self._runs:
            await asyncio.gather(*(run.stop() for run in self._runs.values()))
        elif self._driver is not None:
            self._driver.cancel()

    async def events(self) -> AsyncGenerator[Event]:
        """Run the race: yields each lane's name with its turn, a line of its trace, or where
        there are no steps a piece of its text."""
        self._driver = asyncio.create_task(self._drive())
        try:
            while (event := await self._events.get()) is not None:
                if isinstance(event, Exception):
                    raise event
                yield event
        finally:
            self._driver.cancel()
            await asyncio.gather(self._driver, return_exceptions=True)

    async def _drive(self) -> None:
        """Run everything; whatever happens, every lane is told where it ended, and then the end."""
        try:
            for lane in self._waiting:
                self._tell(lane, Turn("waiting", "waits for its turn"))
            await (self._all_at_once() if self._contended else self._one_by_one())
        except Exception as error:
            self._events.put_nowait(error)
        finally:
            for name, turn in list(self._told.items()):
                if turn.state in ("waiting", "loading"):
                    self._tell(self._fleet.lanes[name], Turn("stopped", "stopped before its turn"))
            self._events.put_nowait(None)

    def _tell(self, lane: LaneFace, turn: Turn) -> None:
        name = lane.spec.name
        if self._told.get(name) != turn:
            self._told[name] = turn
            self._events.put_nowait((name, turn))

    async def _one_by_one(self) -> None:
        while not self._stopped and (lane := await self._next_ready()) is not None:
            if self._fleet.busy:
                self._tell(lane, Turn("waiting", BUSY))
            elif self._fleet.starting:
                self._tell(lane, Turn("waiting", OTHER_STARTS))
            async with self._fleet.device():
                await self._run(lane, [])

    async def _all_at_once(self) -> None:
        ready = []
        while (lane := await self._next_ready()) is not None:
            ready.append(lane)
        async with self._fleet.device():
            names = [lane.spec.name for lane in ready]
            runs = [self._run(lane, [n for n in names if n != lane.spec.name]) for lane in ready]
            await asyncio.gather(*runs)

    async def _next_ready(self) -> LaneFace | None:
        """The first waiting lane that is ready, else that sleeps; waits for one while any may still
        become so."""
        while self._waiting:
            asleep = None
            for lane in list(self._waiting):
                status = lane.status
                if status.state == "ready":
                    self._waiting.remove(lane)
                    return lane
                if status.state == "asleep":
                    asleep = asleep or lane
                elif status.state in ENDED:
                    self._waiting.remove(lane)
                    self._tell(lane, Turn("failed", status.message))
                else:
                    self._tell_progress(lane)
            if asleep is not None:
                self._waiting.remove(asleep)
                return asleep
            await asyncio.sleep(WAIT_S)
        return None

    def _tell_progress(self, lane: LaneFace) -> None:
        """A lane is on its way to be ready."""
        status = lane.status
        words = {"queued": STARTS_LATER, "asleep": WAKES}.get(status.state, status.message)
        self._tell(lane, Turn("loading", words, status.progress, status.seconds_left))

    async def _awake(self, lane: LaneFace) -> LaneClient | None:
        """The lane's client once its engine is awake; None, and the lane is told, when it will not be."""
        waking = asyncio.create_task(self._fleet.awake(lane.spec.name))
        try:
            if lane.status.state in ("asleep", "waking"):
                self._tell_progress(lane)
            while not (await asyncio.wait([waking], timeout=WAIT_S))[0]:
                self._tell_progress(lane)
            return waking.result()
        except LaneError as error:
            self._tell(lane, Turn("failed", str(error)))
            return None
        finally:
            waking.cancel()

    async def _run(self, lane: LaneFace, contended_with: list[str]) -> None:
        name = lane.spec.name
        if (client := await self._awake(lane)) is None:
            return
        run = client.run(self._messages, self._sampling, self._top_k, contended_with)
        self._runs[name] = run
        self._tell(lane, Turn("running", "running"))
        end = None
        try:
            async for line in run:
                if isinstance(line, Header) and self._stopped:
                    await run.stop()  # it was pressed before vLLM knew the request
                if isinstance(line, End):
                    end = line
                self._events.put_nowait((name, line))
        except LaneError as error:
            self._tell(lane, Turn("failed", str(error)))
        except Exception as error:  # a fault of ours in one lane must not end the others
            traceback.print_exc()
            self._tell(lane, Turn("failed", f"The app failed: {type(error).__name__}: {error}"))
        finally:
            del self._runs[name]
        if end is not None:
            self._tell(lane, _outcome(end))


def _outcome(end: End) -> Turn:
    if end.error is not None:
        return Turn("failed", end.error)
    return Turn("stopped", "stopped") if end.finish_reason == "abort" else Turn("done", "done")
