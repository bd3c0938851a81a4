"""One prompt on several lanes: the order, the turns, and who has the device when."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import AsyncGenerator, Sequence
from typing import Literal

import msgspec

from dflash_viz.lanes.client import LaneRun
from dflash_viz.lanes.counted import CountedRun, Text
from dflash_viz.lanes.errors import LaneError
from dflash_viz.lanes.face import ENDED, LaneFace
from dflash_viz.lanes.fleet import Fleet
from dflash_viz.trace import End, Header, Line, Message, Sampling

TurnState = Literal["waiting", "loading", "running", "done", "stopped", "failed"]
WAIT_S = 0.5
BUSY = "waits: another question has the machine"
STARTS_LATER = "its engine starts after the others"


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
    ``contended`` runs them at the same time instead, and their traces say so. A lane that fails
    does not disturb the others.
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
        self._contended = contended
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
        """The first waiting lane that is ready; waits for one while any may still become so."""
        while self._waiting:
            for lane in list(self._waiting):
                status = lane.status
                if status.state == "ready":
                    self._waiting.remove(lane)
                    return lane
                if status.state in ENDED:
                    self._waiting.remove(lane)
                    self._tell(lane, Turn("failed", status.message))
                else:
                    words = status.message if status.state != "queued" else STARTS_LATER
                    self._tell(lane, Turn("loading", words, status.progress, status.seconds_left))
            await asyncio.sleep(WAIT_S)
        return None

    async def _run(self, lane: LaneFace, contended_with: list[str]) -> None:
        client, name = lane.client, lane.spec.name
        if client is None:
            self._tell(lane, Turn("failed", "its engine has just ended"))
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
