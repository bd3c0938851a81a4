"""Runs benchmarks in the background, one at a time: they go on when the page that began them is closed."""

from __future__ import annotations

import asyncio
import contextlib
import traceback
from collections.abc import Callable

import msgspec

from dflash_viz.bench.datasets import DatasetError
from dflash_viz.bench.engines import Engines
from dflash_viz.bench.job import BenchError, BenchJob, Progress, resume_job, start_job
from dflash_viz.bench.order import Order
from dflash_viz.bench.places import new_result
from dflash_viz.lanes import LaneError
from dflash_viz.results import Result, ResultError
from dflash_viz.ui.results import result_folder

STOP_S = 10.0
"""How long what runs may take to end by itself, an engine that is starting among it."""
ONE_AT_A_TIME = "A benchmark is running already: stop it, or wait for its end."
REFUSALS = (DatasetError, LaneError, BenchError, ResultError)
"""What a benchmark says when it cannot begin or go on, in words for whoever asked."""


class Runner:
    """The benchmark of this app, and how far it is. Its methods are called on the app's event loop.

    ``name`` is the id of the latest result, ``problem`` why it ended early, if it did.
    """

    def __init__(self, engines: Engines) -> None:
        self.name = ""
        self.problem = ""
        self.progress: Progress | None = None
        self.stopping = False
        self._engines = engines
        self._job: BenchJob | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def busy(self) -> bool:
        """Whether a benchmark is running, or about to."""
        return self._task is not None and not self._task.done()

    def start(self, order: Order) -> None:
        """Begin a new benchmark. Raises ``BenchError`` while there is one."""
        folder = new_result()
        self._begin(folder.name, lambda: start_job(order, self._engines, folder))

    def resume(self, name: str) -> None:
        """Go on with a result. Raises ``BenchError`` while something runs, ``ResultError`` without it."""
        folder = result_folder(name)
        self._begin(name, lambda: resume_job(folder, self._engines))

    async def stop(self) -> None:
        """End what runs; everything that has been answered stays."""
        if self._task is None or self._task.done():
            return
        self.stopping = True
        if self._job is not None:
            await self._job.stop()
            await asyncio.wait({self._task}, timeout=STOP_S)
        self._task.cancel()
        await asyncio.wait({self._task})

    def so_far(self) -> Result | None:
        """What has been measured up to now, as a copy that no longer changes."""
        if self._job is None:
            return None
        live = self._job.result
        return msgspec.structs.replace(
            live,
            questions=dict(live.questions),
            engines=dict(live.engines),
            answers=list(live.answers),
            failures=list(live.failures),
            samples=list(live.samples),
            stretches=list(live.stretches),
        )

    def _begin(self, name: str, make: Callable[[], BenchJob]) -> None:
        if self.busy:
            raise BenchError(ONE_AT_A_TIME)
        self.name, self.problem, self.progress, self.stopping, self._job = name, "", None, False, None
        self._task = asyncio.create_task(self._run(make))

    async def _run(self, make: Callable[[], BenchJob]) -> None:
        making = asyncio.ensure_future(asyncio.to_thread(make))  # reading a data set may take its time
        try:
            self._job = await asyncio.shield(making)
            async with contextlib.aclosing(self._job.run()) as course:
                async for progress in course:
                    self.progress = progress
        except asyncio.CancelledError:
            making.add_done_callback(_close)
            raise
        except REFUSALS as error:
            self.problem = str(error)
        except Exception as error:  # a fault of ours must be seen where somebody waits
            traceback.print_exc()
            self.problem = f"The benchmark failed: {type(error).__name__}: {error}"


def _close(making: asyncio.Future[BenchJob]) -> None:
    """A job that was made after all, when nobody waited for it any more."""
    if not making.cancelled() and making.exception() is None:
        making.result().close()
