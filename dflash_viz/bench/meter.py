"""vLLM's own counters while a setting is measured: what the answers are checked against, and the course."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass

from dflash_viz.lanes import LaneError
from dflash_viz.lanes.client import LaneClient
from dflash_viz.results import Sample, Stretch
from dflash_viz.trace.counters import Counters, Load, read_load, read_prometheus

INTERVAL_S = 1.0
SETTLE_S = 0.05
SETTLE_READS = 40


@dataclass(frozen=True)
class Reading:
    """The counters at one moment (seconds, monotonic)."""

    at: float
    counters: Counters
    load: Load


async def read(client: LaneClient) -> Reading:
    """Read the counters now. Raises ``LaneError``."""
    text = await client.metrics()
    return Reading(time.perf_counter(), read_prometheus(text), read_load(text))


async def settled(client: LaneClient) -> Reading:
    """The counters once nothing runs: vLLM writes a step down after it has handed out its tokens."""
    last = await read(client)
    for _ in range(SETTLE_READS):
        await asyncio.sleep(SETTLE_S)
        now = await read(client)
        if now.load == last.load and now.load.running == 0 and now.counters == last.counters:
            return now
        last = now
    return last


class Meter:
    """Reads the counters of one stretch: at its beginning, every second, and at its end."""

    def __init__(self, client: LaneClient, setting: int, keep: Callable[[Sample], None]) -> None:
        self._client = client
        self._setting = setting
        self._keep = keep
        self._watching: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """The stretch begins. Raises ``LaneError``."""
        self._first = self._last = await settled(self._client)
        self._began = time.perf_counter()
        self._watching = asyncio.create_task(self._watch())

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(INTERVAL_S)
            with contextlib.suppress(LaneError):  # a busy server may be late; the next interval is longer
                self._take(await read(self._client))

    def _take(self, now: Reading) -> None:
        since = max(self._last.at, self._began)
        if now.at <= since:
            return
        gained = now.counters - self._last.counters
        self._keep(
            Sample(
                self._setting,
                at=now.at - self._began,
                seconds=now.at - since,
                output_tokens=now.load.output_tokens - self._last.load.output_tokens,
                num_drafts=gained.num_drafts,
                num_draft_tokens=gained.num_draft_tokens,
                num_accepted=gained.num_accepted_tokens,
                running=now.load.running,
                waiting=now.load.waiting,
            )
        )
        self._last = now

    async def stop(self, num_answers: int, answer_tokens: int, finished: bool) -> Stretch:
        """The stretch has ended: what happened in it, as far as the engine could still be asked."""
        seconds = time.perf_counter() - self._began
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.gather(self._watching, return_exceptions=True)
        end = self._last
        with contextlib.suppress(LaneError):
            end = await settled(self._client)
        self._take(Reading(self._began + seconds, end.counters, end.load))
        whole = end.counters - self._first.counters
        return Stretch(
            self._setting,
            seconds=seconds,
            num_answers=num_answers,
            answer_tokens=answer_tokens,
            output_tokens=end.load.output_tokens - self._first.load.output_tokens,
            num_drafts=whole.num_drafts,
            num_draft_tokens=whole.num_draft_tokens,
            num_accepted=whole.num_accepted_tokens,
            accepted_per_position=list(whole.accepted_per_position),
            finished=finished,
        )
