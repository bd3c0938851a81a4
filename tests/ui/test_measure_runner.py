"""Benchmarks in the background: one at a time, stopped at once, kept and gone on with."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from dflash_viz.bench.job import BenchError, Progress
from dflash_viz.bench.order import Order
from dflash_viz.lanes import LaneError, LaneSpec
from dflash_viz.lanes.client import LaneClient
from dflash_viz.results import ResultError
from dflash_viz.ui import measure_runner
from dflash_viz.ui.measure_runner import Runner
from dflash_viz.ui.measure_words import duration, ended_html, progress_html
from dflash_viz.ui.results import open_result, recent
from tests.measured import made_result

ORDER = Order(limit=2, lanes=("dflash", "none"))


class NoEngines:
    """Engines that never start: they fail, or keep whoever asks waiting until ``gate`` is open."""

    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self.entered = asyncio.Event()
        self.asked: list[str] = []
        self.left = 0

    @contextlib.asynccontextmanager
    async def ready(
        self, spec: LaneSpec, concurrency: int, tell: Callable[[str], None]
    ) -> AsyncIterator[LaneClient]:
        self.asked.append(spec.name)
        self.entered.set()
        tell(f"{spec.name}: loading")
        try:
            await self.gate.wait()
            raise LaneError(f"{spec.name} does not start here.")
            yield
        finally:
            self.left += 1


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DFLASH_VIZ_CACHE", str(tmp_path))
    monkeypatch.setattr(measure_runner, "STOP_S", 0.05)


async def ended(runner: Runner) -> None:
    assert runner._task is not None
    await asyncio.wait({runner._task})


async def asked(runner: Runner, engines: NoEngines) -> None:
    """Until an engine is waited for, and the runner has heard of it."""
    await engines.entered.wait()
    await asyncio.sleep(0)
    assert runner.progress is not None


async def test_engines_that_fail_leave_a_result_that_says_so() -> None:
    engines = NoEngines()
    engines.gate.set()
    runner = Runner(engines)
    runner.start(ORDER)
    await ended(runner)
    assert engines.asked == ["dflash", "none"]
    assert [f.message for f in open_result(runner.name).failures] == [
        "dflash does not start here.", "none does not start here.",
    ]  # fmt: skip
    assert runner.progress is not None
    assert (runner.progress.done, runner.progress.total) == (0, 4)
    assert "0 of 4" in ended_html(runner.progress, runner.problem)


async def test_there_is_one_benchmark_at_a_time_and_it_is_followed() -> None:
    engines = NoEngines()
    runner = Runner(engines)
    runner.start(ORDER)
    await asked(runner, engines)
    assert runner.busy
    name = runner.name
    with pytest.raises(BenchError, match="running already"):
        runner.start(ORDER)
    with pytest.raises(BenchError, match="running already"):
        runner.resume(name)
    assert runner.name == name
    assert runner.progress is not None
    assert "loading" in progress_html(runner.progress, runner.so_far())
    assert [one.id for one in recent()] == [name]
    await runner.stop()


async def test_stop_does_not_wait_for_an_engine_and_the_rest_can_be_measured() -> None:
    engines = NoEngines()
    runner = Runner(engines)
    runner.start(ORDER)
    await asked(runner, engines)
    name = runner.name
    await runner.stop()
    assert not runner.busy
    assert engines.left == 1, "whoever lent the engine knows that it is free"
    assert len(open_result(name).questions) == 2
    await runner.stop()  # there is nothing to stop any more

    engines.gate.set()
    runner.resume(name)
    assert not runner.stopping
    await ended(runner)
    assert runner.name == name
    assert engines.asked == ["dflash", "dflash", "none"]


async def test_what_cannot_begin_says_why(tmp_path: Path) -> None:
    runner = Runner(NoEngines())
    runner.start(Order(dataset="gsm8k", path=tmp_path / "none.jsonl"))
    await ended(runner)
    assert "none.jsonl" in runner.problem
    assert 'role="alert"' in ended_html(runner.progress, runner.problem)
    assert recent() == []
    with pytest.raises(ResultError):
        runner.resume("../../etc")
    assert runner.so_far() is None
    runner.start(ORDER)
    assert runner.problem == "", "a new benchmark has a clean slate"
    await runner.stop()


async def test_stop_while_the_questions_are_read() -> None:
    runner = Runner(NoEngines())
    runner.start(ORDER)
    await runner.stop()
    assert not runner.busy
    assert "before anything" in ended_html(runner.progress, runner.problem)


async def test_what_is_shown_meanwhile_no_longer_changes() -> None:
    engines = NoEngines()
    runner = Runner(engines)
    runner.start(ORDER)
    await asked(runner, engines)
    seen = runner.so_far()
    assert seen is not None
    made = made_result(num_questions=2)
    live = runner._job.result  # type: ignore[union-attr]
    for line in (*made.answers, *made.samples, *made.questions.values(), *made.engines.values()):
        live.add(line)
    assert (seen.answers, seen.samples, seen.engines, len(seen.questions)) == ([], [], {}, 2)
    await runner.stop()


def test_progress_is_a_bar_with_words_and_text_stays_text() -> None:
    result = made_result(num_questions=2)
    html = progress_html(Progress(2, 8, "<script>", 200.0, 1), result)
    assert 'role="progressbar"' in html
    assert 'aria-valuenow="25"' in html
    assert "2 of 8 answers · eagle3 (setting 2 of 4) · &lt;script&gt; · about 3 min left" in html
    assert "<script>" not in html
    assert "left" not in progress_html(Progress(2, 8, "x", 200.0, 1), result, stopping=True)
    assert "all 8 answers" in ended_html(Progress(8, 8, "done"), "")


@pytest.mark.parametrize(("seconds", "words"), [(0.2, "1 s"), (59, "59 s"), (600, "10 min"), (9000, "2.5 h")])
def test_times_are_as_exact_as_an_estimate(seconds: float, words: str) -> None:
    assert duration(seconds) == words
