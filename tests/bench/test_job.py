"""Benchmarks on the real engine: their figures are vLLM's, nothing is mixed up, nothing is lost."""

from __future__ import annotations

import contextlib
import os
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from dflash_viz.bench import measuring
from dflash_viz.bench.engines import Tell
from dflash_viz.bench.job import BenchError, BenchJob, Progress, resume_job, start_job
from dflash_viz.bench.order import Order
from dflash_viz.bench.prompts import MATHS, MATHS_ANSWERS
from dflash_viz.lanes import Lane, LaneClient, LaneError, LaneSpec
from dflash_viz.metrics.measured.figures import setting_values
from dflash_viz.results import Result, being_written, read_result
from dflash_viz.trace import Message, Trace, read_trace
from tests.bench.made import written
from tests.lanes.test_engine import assert_true_to_engine

pytestmark = pytest.mark.engine


class Lent:
    """The tests' own engine, whatever K is asked for; what was asked for is kept."""

    def __init__(self, *lanes: Lane, broken: Sequence[str] = ()) -> None:
        self._lanes = {lane.spec.name: lane for lane in lanes}
        self._broken = broken
        self.asked: list[tuple[str, int, int]] = []

    @contextlib.asynccontextmanager
    async def ready(self, spec: LaneSpec, concurrency: int, tell: Tell) -> AsyncIterator[LaneClient]:
        self.asked.append((spec.name, spec.num_speculative_tokens, concurrency))
        tell("starting")
        if spec.name in self._broken:
            raise LaneError("the engine did not start")
        client = self._lanes[spec.name].client
        assert client is not None
        yield client


async def run(job: BenchJob, stop_at: int = 0) -> list[Progress]:
    """Run a job to its end, or stop it after some answers."""
    told = []
    async for progress in job.run():
        told.append(progress)
        if stop_at and progress.done >= stop_at:
            stop_at = 0
            await job.stop()
    return told


async def vllm_says(lane: Lane) -> dict[str, float]:
    """Every sample of vLLM's counters, read by Prometheus' own parser."""
    assert lane._server is not None
    async with httpx.AsyncClient() as http:
        text = (await http.get(f"{lane._server.url}/metrics")).text
    found: dict[str, float] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            name = sample.name + (f" {sample.labels['position']}" if "position" in sample.labels else "")
            found[name] = found.get(name, 0.0) + sample.value
    return found


def traces(result: Result, setting: int = 0) -> dict[str, Trace]:
    """The traces of a setting, by question."""
    assert result.folder is not None
    folder = Path(result.folder)
    return {a.question: read_trace(folder / a.trace) for a in result.answers_of(setting)}


async def test_the_figures_of_twenty_maths_questions_are_vllms(
    lane: Lane, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A first token drafts nothing: the warm-up stays out of vLLM's counts of drafting.
    monkeypatch.setattr(measuring, "WARM_TOKENS", 1)
    rows = [{"question": q, "answer": f"#### {a or 0}"} for q, a in zip(MATHS, MATHS_ANSWERS, strict=True)]
    file = written(tmp_path / "gsm8k_test.jsonl", *rows)
    order = Order(dataset="gsm8k", path=file, lanes=("dflash",), max_tokens=40, concurrencies=(4,))
    before = await vllm_says(lane)
    job = start_job(order, Lent(lane), tmp_path / "result")
    await run(job)
    after = await vllm_says(lane)
    gained = {name: value - before.get(name, 0.0) for name, value in after.items()}
    drafts = gained["vllm:spec_decode_num_drafts_total"]
    accepted = gained["vllm:spec_decode_num_accepted_tokens_total"]
    result = read_result(tmp_path / "result")
    values = setting_values(result, 0)
    assert len(result.answers) == 20
    assert values["al"].value == pytest.approx(1 + accepted / drafts)  # type: ignore[union-attr]
    assert values["rate"].value == pytest.approx(  # type: ignore[union-attr]
        100 * accepted / gained["vllm:spec_decode_num_draft_tokens_total"]
    )
    for position in range(5):
        kept = sum(answer.accepted_per_position[position] for answer in result.answers)
        assert kept == gained[f"vllm:spec_decode_num_accepted_tokens_per_pos_total {position}"]
    tokens = sum(answer.num_output_tokens for answer in result.answers)
    assert tokens == gained["vllm:generation_tokens_total"] - 1
    assert values["throughput"].value == pytest.approx(tokens / result.stretches[0].seconds)  # type: ignore[union-attr]
    prompts = sum(answer.num_prompt_tokens for answer in result.answers)
    warm_up = traces(result)[next(iter(result.questions))].header
    assert prompts + len(warm_up.prompt_token_ids) == gained["vllm:prompt_tokens_total"]
    means = []
    for trace in traces(result).values():
        assert trace.end is not None
        means.append(1 + sum(trace.end.engine_accepted) / len(trace.end.engine_accepted))
    assert values["al_mean"].value == pytest.approx(sum(means) / len(means))  # type: ignore[union-attr]
    assert sum(sample.output_tokens for sample in result.samples) == tokens
    assert sum(sample.num_accepted for sample in result.samples) == accepted


async def test_sixteen_at_once_are_complete_and_not_mixed_up(lane: Lane, tmp_path: Path) -> None:
    order = Order(limit=20, lanes=("dflash",), max_tokens=16, concurrencies=(1, 16))
    job = start_job(order, Lent(lane), tmp_path / "result")
    await run(job)
    result = read_result(tmp_path / "result")
    assert result.complete
    assert not result.failures
    alone, together = traces(result, 0), traces(result, 1)
    assert list(together) != list(alone), "they ended in the order in which they were asked"
    assert set(together) == set(alone) == set(result.questions)
    assert max(step.batch_size for trace in together.values() for step in trace.steps) == 16
    for name, trace in together.items():
        assert trace.header.messages == [Message("user", result.questions[name].turns[0])]
        assert_true_to_engine(lane, trace)
        # float32: the text does not depend on who shares the step.
        assert trace.output_token_ids == alone[name].output_token_ids
        assert [s.num_accepted for s in trace.steps] == [s.num_accepted for s in alone[name].steps]
    assert sum(a.num_drafts for a in result.answers_of(1)) == result.stretches[1].num_drafts
    assert sum(a.num_output_tokens for a in result.answers_of(1)) == result.stretches[1].output_tokens


async def test_turns_of_a_conversation_follow_each_other(lane: Lane, tmp_path: Path) -> None:
    file = written(tmp_path / "own.jsonl", {"turns": ["Name a colour.", "Name another one."]})
    order = Order(dataset=str(file), turns="both", lanes=("dflash",), max_tokens=12)
    job = start_job(order, Lent(lane), tmp_path / "result")
    await run(job)
    first, second = job.result.answers
    assert (first.turn, second.turn) == (0, 1)
    told = read_trace(job.folder / second.trace).header.messages
    assert told == [
        Message("user", "Name a colour."), Message("assistant", first.text),
        Message("user", "Name another one."),
    ]  # fmt: skip


async def test_what_is_stopped_goes_on(lane: Lane, tmp_path: Path) -> None:
    order = Order(limit=12, lanes=("dflash",), max_tokens=16, concurrencies=(3,))
    folder = tmp_path / "result"
    told = await run(start_job(order, Lent(lane), folder), stop_at=4)
    assert told[-1].message == "stopped"
    cut = read_result(folder)
    assert 4 <= len(cut.answers) < 12
    assert not cut.complete
    with (folder / "result.jsonl").open("ab") as file:  # as if it had been killed in mid-line
        file.write(b'{"type":"answer","setting":0,')
    told = await run(resume_job(folder, Lent(lane)))
    assert (told[-1].done, told[-1].total, told[-1].message) == (12, 12, "done")
    whole = read_result(folder)
    assert whole.complete
    assert not whole.notices
    assert sorted(answer.question for answer in whole.answers) == sorted(whole.questions)
    assert whole.answers[: len(cut.answers)] == cut.answers
    assert [stretch.finished for stretch in whole.stretches] == [False, True]
    assert sum(one.answer_tokens for one in whole.stretches) == sum(
        a.num_output_tokens for a in whole.answers
    )


async def test_one_engine_a_lane_and_k_and_a_broken_one_stops_nobody(lane: Lane, tmp_path: Path) -> None:
    varied = {"ks": (2, 5), "temperatures": (0.0, 1.0), "concurrencies": (1, 2)}
    order = Order(limit=2, lanes=("dflash", "none"), max_tokens=4, **varied)  # type: ignore[arg-type]
    engines = Lent(lane, broken=("none",))
    job = start_job(order, engines, tmp_path / "result")
    told = await run(job)
    assert engines.asked == [("dflash", 2, 2), ("dflash", 5, 2), ("none", 0, 2)]
    assert len(job.result.answers) == 2 * 8
    assert {f.setting for f in job.result.open_failures()} == {8, 9, 10, 11}
    assert any("did not start" in progress.message for progress in told)
    assert told[-1].message == "done"


async def test_a_question_that_is_refused_is_told_and_the_others_go_on(lane: Lane, tmp_path: Path) -> None:
    file = written(
        tmp_path / "own.jsonl",
        {"turns": ["Say hello."]},
        {"turns": ["word " * 3000]},
        {"turns": ["Say bye."]},
    )
    order = Order(dataset=str(file), lanes=("dflash",), max_tokens=4)
    job = start_job(order, Lent(lane), tmp_path / "result")
    await run(job)
    assert len(job.result.answers) == 2
    (failure,) = job.result.failures
    assert "too long" in failure.message
    assert job.result.complete


async def test_a_full_disk_ends_it_with_what_was_kept(lane: Lane, tmp_path: Path) -> None:
    order = Order(limit=6, lanes=("dflash",), max_tokens=8)
    job = start_job(order, Lent(lane), tmp_path / "result")
    full = os.open("/dev/full", os.O_WRONLY)

    async def fill_up() -> None:
        async for progress in job.run():
            if progress.done == 2:
                os.dup2(full, job._writer._file.fileno())

    with pytest.raises(BenchError, match=r"The disk is full.*is kept in.*resume"):
        await fill_up()
    os.close(full)
    assert len(read_result(tmp_path / "result").answers) == 2
    await run(resume_job(tmp_path / "result", Lent(lane)))
    assert read_result(tmp_path / "result").complete


async def test_a_result_that_cannot_be_gone_on_with_says_so(lane: Lane, tmp_path: Path) -> None:
    order = Order(limit=3, lanes=("dflash",), max_tokens=4)
    folder = tmp_path / "result"
    await run(start_job(order, Lent(lane), folder), stop_at=1)
    lines = (folder / "result.jsonl").read_text().splitlines(keepends=True)
    other = [line.replace('"content_hash":"b', '"content_hash":"0') for line in lines]
    assert other != lines, "the drafter's hash begins with b"
    (folder / "result.jsonl").write_text("".join(other))
    job = resume_job(folder / "result.jsonl", Lent(lane))
    await run(job)
    assert "begun with other weights" in job.result.open_failures()[0].message
    (folder / "result.jsonl").write_text("".join(lines[:2]))
    with pytest.raises(BenchError, match="holds 1 of its 3 questions"):
        resume_job(folder, Lent(lane))


class Broken:
    """A request that gets no answer."""

    sent_at = 0.0

    async def __aiter__(self) -> AsyncGenerator[Any]:
        raise LaneError("The engine stopped answering.")
        yield


class Dying:
    """A client whose engine dies after some answers: requests fail, and its health with them."""

    def __init__(self, client: LaneClient, after: int, whole: bool) -> None:
        self._client, self._left, self._whole = client, after, whole

    def __getattr__(self, name: str) -> object:
        return getattr(self._client, name)

    def run(self, *args: Any) -> Any:
        self._left -= 1
        return self._client.run(*args) if self._left >= 0 else Broken()

    async def check_health(self) -> None:
        if not self._whole:
            raise LaneError("The engine has ended.")


@pytest.mark.parametrize("whole", [False, True], ids=["dead engine", "failing questions"])
async def test_what_failed_is_asked_again(lane: Lane, tmp_path: Path, whole: bool) -> None:
    order = Order(limit=6, lanes=("dflash",), max_tokens=4, concurrencies=(2,))

    class Engines(Lent):
        @contextlib.asynccontextmanager
        async def ready(self, spec: LaneSpec, concurrency: int, tell: Tell) -> AsyncIterator[LaneClient]:
            async with super().ready(spec, concurrency, tell) as client:
                yield Dying(client, 4, whole)  # type: ignore[misc]

    folder = tmp_path / "result"
    job = start_job(order, Engines(lane), folder)
    await run(job)
    # The first of the four warms up; one that is under way when the engine dies may be lost.
    assert len(job.result.answers) in ((3,) if whole else (2, 3))
    assert job.result.complete is whole
    failed = {failure.question for failure in job.result.open_failures()}
    assert len(failed) == (3 if whole else 1)
    assert ("" in failed) is not whole, "a dead engine is no question's fault"
    again = resume_job(folder, Lent(lane))
    await run(again)
    assert again.result.complete
    assert not again.result.open_failures()
    assert len(again.result.answers) == 6


async def test_nobody_else_writes_into_a_running_benchmark(lane: Lane, tmp_path: Path) -> None:
    job = start_job(Order(limit=3, lanes=("dflash",)), Lent(lane), tmp_path / "result")
    assert being_written(tmp_path / "result")
    with pytest.raises(BenchError, match="Another program is writing"):
        resume_job(tmp_path / "result", Lent(lane))
    job.close()
    assert not being_written(tmp_path / "result")
