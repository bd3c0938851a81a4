"""Where a benchmark gets its engines from: it starts its own, or takes those that an app has running."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator, Callable
from decimal import Decimal
from typing import Protocol

import msgspec

from dflash_viz.lanes import Fleet, Lane, LaneError, LaneSpec
from dflash_viz.lanes.client import LaneClient
from dflash_viz.lanes.face import STARTED, STARTING

Tell = Callable[[str], None]
LOOK_EVERY_S = 0.5


class Engines(Protocol):
    """Lends the engine of a lane, alone on the device."""

    def ready(
        self, spec: LaneSpec, concurrency: int, tell: Tell
    ) -> contextlib.AbstractAsyncContextManager[LaneClient]:
        """An engine that answers ``concurrency`` requests at once; ``tell`` hears what is waited for.

        Raises ``LaneError`` when it does not start.
        """


class OwnEngines:
    """Starts each engine when it is needed and ends it afterwards, so that one is there at a time."""

    @contextlib.asynccontextmanager
    async def ready(self, spec: LaneSpec, concurrency: int, tell: Tell) -> AsyncIterator[LaneClient]:
        """See ``Engines``."""
        lane = Lane(roomy(spec, concurrency))
        lane.start()
        try:
            while lane.status.state in STARTING:
                tell(f"{spec.name}: {lane.status.message}")
                await asyncio.sleep(LOOK_EVERY_S)
            lane.wait_ready(0)
            assert lane.client is not None
            yield _with_steps(lane.client)
        finally:
            await asyncio.to_thread(lane.close)


class FleetEngines:
    """Takes the fleet's engine where it is the one that is asked for, and else starts another beside it.

    Meanwhile the device belongs to the benchmark: others' questions wait.
    """

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._own = OwnEngines()

    @contextlib.asynccontextmanager
    async def ready(self, spec: LaneSpec, concurrency: int, tell: Tell) -> AsyncIterator[LaneClient]:
        """See ``Engines``."""
        lane = self._fleet.lanes.get(spec.name)
        same = lane is not None and lane.spec == spec and roomy(spec, concurrency) == spec
        # Whoever has the device holds the starts of the others, which have a time limit of their own.
        while any(one.status.state in STARTING for one in self._fleet.lanes.values()):
            tell("waits until the app's engines have started")
            await asyncio.sleep(LOOK_EVERY_S)
        if self._fleet.busy:
            tell("waits: a question has the machine")
        async with self._fleet.device():
            if same and lane is not None and lane.status.state in STARTED:
                yield _with_steps(await self._fleet.awake(spec.name))
                return
            await self._fleet.all_asleep()
            async with self._own.ready(spec, concurrency, tell) as client:
                yield client


def _with_steps(client: LaneClient) -> LaneClient:
    """Raise ``LaneError`` unless the engine's steps can be recorded: a benchmark is made of them."""
    if client.counts_only:
        raise LaneError(client.counts_only)
    return client


def roomy(spec: LaneSpec, concurrency: int) -> LaneSpec:
    """The lane with room for so many requests at once, each with as much cache as the preset gives."""
    room = spec.engine.get("max-num-seqs")
    if not isinstance(room, int) or room >= concurrency:
        return spec
    engine = {**spec.engine, "max-num-seqs": concurrency}
    if (cache := engine.get("kv-cache-memory-bytes")) is not None:
        factor = -(-concurrency // room)
        number = r"\d+(?:\.\d+)?"
        engine["kv-cache-memory-bytes"] = re.sub(
            number, lambda n: str(Decimal(n[0]) * factor), str(cache), count=1
        )
    return msgspec.structs.replace(spec, engine=engine)
