"""A benchmark as it runs: every question on every setting, kept line by line, stopped and gone on with.

Engines run one after another, each alone on the device.
"""

from __future__ import annotations

import asyncio
import errno
import itertools
import json
import time
import traceback
from collections.abc import AsyncGenerator, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec

from dflash_viz.bench.engines import Engines, roomy
from dflash_viz.bench.measuring import Measuring
from dflash_viz.bench.order import Order
from dflash_viz.lanes import LaneError, LaneSpec, load_preset
from dflash_viz.lanes.client import LaneClient
from dflash_viz.results import (
    Answer,
    Engine,
    Failure,
    Line,
    Result,
    ResultWriter,
    Setting,
    read_result,
)

TEMPLATE_OPTION = "default-chat-template-kwargs"
FIRST_ESTIMATE = 3
"""Answers before a time is estimated."""


class BenchError(RuntimeError):
    """A benchmark cannot begin or go on; the message says why, what was kept, and what to do."""


@dataclass(frozen=True)
class Progress:
    """How far a benchmark is: answers of all, what it does, and the setting that is measured."""

    done: int
    total: int
    message: str
    seconds_left: float | None = None
    setting: int | None = None


class BenchJob:
    """Measures what a result still lacks; ``result`` grows meanwhile, and its file with it."""

    def __init__(
        self, result: Result, writer: ResultWriter, engines: Engines, specs: Mapping[str, LaneSpec]
    ) -> None:
        self.result = result
        self.folder = writer.folder
        self._writer = writer
        self._engines = engines
        self._specs = specs
        self._events: asyncio.Queue[Progress | Exception | None] = asyncio.Queue()
        self._driver: asyncio.Task[None] | None = None
        self._measuring: Measuring | None = None
        self._stopped = False
        self._setting: int | None = None
        self._answered = {(a.setting, a.question, a.turn) for a in result.answers}
        self._before = len(self._answered)
        self._began = time.monotonic()

    @property
    def total(self) -> int:
        """How many answers there will be."""
        return len(self.result.plan.settings) * sum(len(q.turns) for q in self.result.questions.values())

    async def run(self) -> AsyncGenerator[Progress]:
        """Measure what is left; yields how far it is. Raises ``BenchError``."""
        self._driver = driver = asyncio.create_task(self._drive())
        try:
            while (event := await self._events.get()) is not None:
                if isinstance(event, Exception):
                    raise event
                yield event
        finally:
            driver.cancel()
            await asyncio.gather(driver, return_exceptions=True)
            self.close()

    def close(self) -> None:
        """Finish the file; whoever does not run the job calls this."""
        self._writer.close()

    async def stop(self) -> None:
        """End it as soon as possible; what is answered stays."""
        self._stopped = True
        if self._measuring is not None:
            await self._measuring.stop()
        elif self._driver is not None:  # it waits for an engine
            self._driver.cancel()

    async def _drive(self) -> None:
        try:
            for group in self._groups():
                if not self._stopped:
                    await self._measure_group(group)
            self._tell("stopped" if self._stopped else "done")
        except asyncio.CancelledError:
            self._tell("stopped")
            raise
        except OSError as error:
            self._events.put_nowait(cannot_write(self.folder, error))
        except Exception as error:  # a fault of ours must reach whoever waits
            traceback.print_exc()
            message = f"The benchmark failed: {type(error).__name__}: {error}. {_kept(self.folder)}"
            self._events.put_nowait(BenchError(message))
        finally:
            self._events.put_nowait(None)

    def _groups(self) -> Iterator[list[int]]:
        """The settings that are not finished, or in which a question failed; those of one engine together."""
        settings = self.result.plan.settings
        failed = {failure.setting for failure in self.result.open_failures()}
        for _, group in itertools.groupby(range(len(settings)), lambda number: _engine_of(settings[number])):
            if left := [n for n in group if n in failed or not self.result.finished(n)]:
                yield left

    async def _measure_group(self, group: list[int]) -> None:
        first = self.result.plan.settings[group[0]]
        self._setting = group[0]
        try:
            spec, most = self._spec(first), self._most(first)
            async with self._engines.ready(spec, most, self._tell) as client:
                for number in group:
                    if not self._stopped:
                        await self._measure(number, roomy(spec, most), client)
        except LaneError as error:
            for number in group:
                if not self.result.finished(number):
                    self._keep(Failure(number, str(error)))
            self._tell(str(error))

    def _most(self, setting: Setting) -> int:
        """The largest concurrency planned for a setting's engine, so that all of its settings, measured now
        or before, run on engines of one size."""
        settings = self.result.plan.settings
        return max(one.concurrency for one in settings if _engine_of(one) == _engine_of(setting))

    def _spec(self, setting: Setting) -> LaneSpec:
        if (spec := self._specs.get(setting.lane)) is None:
            raise LaneError(f"The preset {self.result.plan.pair!r} has no lane {setting.lane!r} any more.")
        return msgspec.structs.replace(spec, num_speculative_tokens=setting.num_speculative_tokens)

    async def _measure(self, number: int, spec: LaneSpec, client: LaneClient) -> None:
        self._setting = number
        engine, before = _engine_line(number, spec, client), self.result.engines.get(number)
        if before is not None and _models(before) != _models(engine):
            raise LaneError("This setting was begun with other weights: begin a new benchmark with these.")
        self._keep(engine)
        self._tell("warming up")
        self._measuring = Measuring(self.result, number, client, self._keep)
        try:
            await self._measuring.run()
        finally:
            self._measuring = None

    def _keep(self, line: Line) -> None:
        self._writer.write(line)
        self.result.add(line)
        if isinstance(line, Answer):
            self._answered.add((line.setting, line.question, line.turn))
            self._tell("measuring")

    def _tell(self, doing: str) -> None:
        done = len(self._answered)
        fresh = done - self._before
        left = None
        if fresh >= FIRST_ESTIMATE:
            left = (time.monotonic() - self._began) / fresh * (self.total - done)
        self._events.put_nowait(Progress(done, self.total, doing, left, self._setting))


def start_job(
    order: Order, engines: Engines, folder: Path, replaced: Mapping[str, LaneSpec] | None = None
) -> BenchJob:
    """Begin a benchmark in ``folder``, which must not hold one; ``replaced`` are lanes to take instead of
    the preset's of the same name.

    Raises ``DatasetError``, ``LaneError``, and ``BenchError`` where the folder cannot be written.
    """
    head, questions = order.load()
    specs = _specs(order.preset) | dict(replaced or {})
    result = Result(head, folder=str(folder))
    try:
        writer = ResultWriter(folder, head)
        for question in questions:
            writer.write(question)
            result.add(question)
    except OSError as error:
        if isinstance(error, FileExistsError) and folder.is_dir():
            message = f"{folder} holds a result already: resume it, or choose another folder."
            raise BenchError(message) from None
        raise cannot_write(folder, error) from error
    return BenchJob(result, writer, engines, specs)


def resume_job(folder: Path, engines: Engines, replaced: Mapping[str, LaneSpec] | None = None) -> BenchJob:
    """Go on with the benchmark in ``folder``; ``replaced`` as in ``start_job``.

    Raises ``ResultError``, ``LaneError``, ``BenchError``.
    """
    folder = folder.parent if folder.is_file() else folder
    result = read_result(folder)
    if len(result.questions) != result.plan.dataset.num_questions:
        raise BenchError(
            f"{folder.name} holds {len(result.questions)} of its {result.plan.dataset.num_questions} "
            "questions: it was cut off before it began. Begin a new benchmark."
        )
    specs = _specs(result.plan.pair) | dict(replaced or {})
    try:
        writer = ResultWriter(folder)
    except OSError as error:
        raise cannot_write(folder, error) from error
    result.folder = str(folder)
    return BenchJob(result, writer, engines, specs)


def cannot_write(folder: Path, error: OSError) -> BenchError:
    """What a full or forbidden disk means for a benchmark."""
    if isinstance(error, BlockingIOError):
        return BenchError(f"Another program is writing into {folder}: wait for its end, or stop it.")
    full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    why = "The disk is full" if full else f"{folder} cannot be written: {error.strerror or error}"
    advice = "Free some space, then resume." if full else "Choose another folder."
    return BenchError(f"{why}. {_kept(folder)} {advice}")


def _kept(folder: Path) -> str:
    return f"What was measured before is kept in {folder}."


def _specs(preset: str) -> dict[str, LaneSpec]:
    return {lane.name: lane for lane in load_preset(preset).lanes}


def _engine_of(setting: Setting) -> tuple[str, int]:
    return setting.lane, setting.num_speculative_tokens


def _models(engine: Engine) -> tuple[str | None, str | None]:
    """What the engine's target and drafter are, by their content."""
    drafter = engine.fingerprint.drafter
    return engine.fingerprint.target.content_hash, drafter.content_hash if drafter else None


def _engine_line(number: int, spec: LaneSpec, client: LaneClient) -> Engine:
    options = dict(spec.engine)
    template = options.pop(TEMPLATE_OPTION, None) or {}
    told = json.loads(template) if isinstance(template, str) else template
    return Engine(number, client.fingerprint, told, options)
