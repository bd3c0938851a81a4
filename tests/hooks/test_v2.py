"""The V2 adapter on stand-ins shaped like vLLM's classes (``stand_ins.py`` says which)."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from dflash_viz.hooks.adapter import HookUnsupportedError
from dflash_viz.hooks.courier import Item
from dflash_viz.hooks.v2 import V2Adapter
from dflash_viz.hooks.wire import EngineStep, Fault, Record
from tests.hooks.conftest import Ticks
from tests.hooks.stand_ins import (
    VOCAB,
    AsyncOutput,
    New,
    Runner2,
    Sampler,
    Scheduled,
    Speculator26,
    Speculator33,
    parameters,
)

pytestmark = pytest.mark.usefixtures("unwaiting")


def favouring(*tokens: int) -> torch.Tensor:
    """Logits [len(tokens), VOCAB] whose favourites these are; every row has another margin."""
    logits = torch.zeros(len(tokens), VOCAB)
    for row, token in enumerate(tokens):
        logits[row, token] = 2.0 + row / 4
    return logits


def made(item: Item) -> list[Record]:
    """What the courier makes of what an adapter gives it."""
    record = item() if callable(item) else item
    return [] if record is None else [record]


def hooked(speculator: Speculator26 | None) -> tuple[Runner2, V2Adapter, list[Record]]:
    runner, records = Runner2(speculator), []
    adapter = V2Adapter(runner, lambda item: records.extend(made(item)))
    adapter.install()
    return runner, adapter, records


def launch(runner: Runner2, scheduled: Scheduled | None = None) -> AsyncOutput:
    """Hand one step in; its output is taken later."""
    runner.execute_model(scheduled or Scheduled())
    return runner.sample_tokens(None)


def new(**asked: Any) -> Scheduled:
    return Scheduled([New(name, parameters(k)) for name, k in asked.items()])


def test_a_prompt_and_its_blocks(ticks: Ticks) -> None:
    speculator = Speculator26(probabilistic=False)
    runner, _, records = hooked(speculator)
    speculator.planned = [[4, 5, 6]]
    runner.plan({"a": [1]}, favouring(3))
    assert launch(runner, new(a=None)).get_output() == [[3]]
    runner.plan({"a": [3, 4, 5, 6]}, favouring(4, 5, 9, 0))
    assert launch(runner).get_output() == [[4, 5, 9]]
    runner.plan({"a": [9, 4, 5, 6]}, favouring(4, 5, 6, 8))
    assert launch(runner).get_output() == [[4, 5, 6, 8]]
    prompt, second, third = records
    assert [(r.rows[0].index, r.rows[0].prefill) for r in records] == [(0, True), (1, False), (2, False)]
    assert (prompt.rows[0].sampled, prompt.rows[0].drafted) == ([3], [])
    # What lies beyond the sampled tokens is rubbish and must not appear.
    assert (second.rows[0].sampled, second.rows[0].drafted) == ([4, 5, 9], [4, 5, 6])
    assert (third.rows[0].sampled, third.rows[0].drafted) == ([4, 5, 6, 8], [4, 5, 6])


def test_nothing_is_read_before_the_engine_has_its_output(ticks: Ticks) -> None:
    """Asynchronous scheduling: the next step is handed in, and overwrites the buffers, before."""
    speculator = Speculator26(probabilistic=False)
    runner, _, records = hooked(speculator)
    speculator.planned = [[4, 5, 6]]
    runner.plan({"a": [1]}, favouring(3))
    launch(runner, new(a=None)).get_output()
    runner.plan({"a": [3, 4, 5, 6]}, favouring(4, 9, 9, 0))
    first = launch(runner)
    runner.plan({"a": [9, 7, 7, 7]}, favouring(8, 8, 8, 8))
    second = launch(runner)
    assert len(records) == 1
    first.get_output()
    assert [r.rows[0].drafted for r in records] == [[], [4, 5, 6]]
    second.get_output()
    assert records[-1].rows[0].drafted == [7, 7, 7]
    # Taken again it would be recorded twice, and the output would keep itself alive.
    assert "get_output" not in vars(second)


def test_the_times_are_of_this_verification_and_of_the_draft_before(ticks: Ticks) -> None:
    speculator = Speculator26(probabilistic=False)
    runner, _, records = hooked(speculator)
    speculator.planned = [[4, 5, 6]]
    runner.plan({"a": [1]}, favouring(3))
    first = launch(runner, new(a=None))  # marks: 1 begin, 2 end, 3 and 4 draft
    runner.plan({"a": [3, 4, 5, 6]}, favouring(4, 5, 9, 0))
    second = launch(runner)  # 5 begin, 6 end, 7 and 8 draft
    first.get_output()
    second.get_output()
    assert [(r.draft_start, r.draft_end, r.verify_start, r.verify_end) for r in records] == [
        (0.0, 0.0, 1.0, 2.0),
        (3.0, 4.0, 5.0, 6.0),
    ]


def test_a_chunk_of_a_prompt_emits_nothing_and_blocks_may_differ_in_length(ticks: Ticks) -> None:
    speculator = Speculator26(probabilistic=False)
    runner, _, records = hooked(speculator)
    speculator.planned = [[0, 0, 0]] * 3
    runner.plan({"a": [1], "b": [2]}, favouring(3, 4), emitting=[0, 1])
    launch(runner, new(a=None, b=None)).get_output()
    assert [row.request_id for row in records[0].rows] == ["b"]
    assert records[0].batch_size == 2
    runner.plan({"a": [1]}, favouring(3), emitting=[0])
    launch(runner).get_output()
    assert len(records) == 1, "a step without any token is no record"
    # -1 is a placeholder, and is rejected.
    runner.plan({"a": [1], "c": [8, 4], "b": [4, 5, -1, -1]}, favouring(3, 9, 9, 5, 6, 7, 7))
    launch(runner, new(c=None)).get_output()
    rows = {row.request_id: row for row in records[-1].rows}
    assert {r: (row.sampled, row.drafted) for r, row in rows.items()} == {
        "a": ([3], []),
        "c": ([9], [4]),
        "b": ([5, 6], [5]),
    }
    assert [rows[r].prefill for r in "acb"] == [True, True, False]


def test_a_request_that_ended_is_forgotten(ticks: Ticks) -> None:
    runner, adapter, records = hooked(None)
    for scheduled in (new(a=5), Scheduled(), Scheduled([New("a", parameters())], {"a"})):
        runner.plan({"a": [1]}, favouring(3))
        launch(runner, scheduled).get_output()
    assert [r.rows[0].index for r in records] == [0, 1, 0]
    assert [r.rows[0].target_top is not None for r in records] == [True, True, False]
    assert not adapter._asked


@pytest.mark.parametrize("kind", [Speculator26, Speculator33])
def test_top_k_of_those_who_ask(ticks: Ticks, kind: type[Speculator26]) -> None:
    """Both models' probabilities at temperature 1, in a batch where another request asks nothing."""
    speculator = kind(probabilistic=True)
    runner, _, records = hooked(speculator)
    speculator.planned = [[1, 1, 1], [4, 5, 6]]
    speculator.logits = torch.stack([favouring(1, 1, 1), favouring(4, 5, 6)])
    speculator.temperature.fill_(0.5)
    runner.plan({"x": [1], "a": [1]}, favouring(2, 3))
    launch(runner, new(x=None, a=2)).get_output()
    target = favouring(0, 0, 0, 0, 4, 9, 6, 7)
    runner.plan({"x": [2, 1, 1, 1], "a": [3, 4, 5, 6]}, target)
    launch(runner).get_output()
    silent, row = records[-1].rows
    assert (silent.target_top, silent.drafter_top) == (None, None)
    probabilities = torch.softmax(target[4:], -1)
    assert [ids[0] for ids in row.target_top.ids] == [4, 9, 6, 7]
    assert [len(ids) for ids in row.target_top.ids] == [2] * 4
    assert [p[0] for p in row.target_top.p] == pytest.approx([float(p.max()) for p in probabilities])
    expected = [float(probabilities[i, token]) for i, token in enumerate([4, 5, 6])]
    assert row.target_top.p_drafted == pytest.approx(expected)
    drafter = torch.softmax(favouring(4, 5, 6), -1)
    assert [ids[0] for ids in row.drafter_top.ids] == [4, 5, 6]
    assert row.drafter_top.p_drafted == pytest.approx([float(p.max()) for p in drafter])
    assert row.draws == []


def test_without_the_drafters_logits_there_are_the_targets(ticks: Ticks) -> None:
    speculator = Speculator26(probabilistic=False)
    runner, _, records = hooked(speculator)
    speculator.planned = [[4, 5, 6]]
    runner.plan({"a": [1]}, favouring(3))
    launch(runner, new(a=20)).get_output()
    runner.plan({"a": [3, 4, 5, 6]}, favouring(4, 5, 9, 0))
    launch(runner).get_output()
    assert [len(ids) for ids in records[0].rows[0].target_top.ids] == [VOCAB]
    assert records[0].rows[0].target_top.p_drafted == []
    assert records[1].rows[0].drafter_top is None
    assert math.isclose(sum(records[1].rows[0].target_top.p[0]), 1.0, rel_tol=1e-5)


@pytest.mark.parametrize("asked", ["five", [1], -3, None])
def test_nonsense_asks_for_nothing(ticks: Ticks, asked: Any) -> None:
    runner, _, records = hooked(None)
    runner.plan({"a": [1]}, favouring(3))
    launch(runner, new(a=asked)).get_output()
    assert isinstance(records[0], EngineStep)
    assert records[0].rows[0].target_top is None


def test_with_adaptive_verification_the_device_says_which_rows_are_whose(ticks: Ticks) -> None:
    """0.32 on: the host's bounds are those before the batch was compacted."""
    speculator = Speculator26(probabilistic=False)
    runner, _, records = hooked(speculator)
    runner.adaptive_verification = object()
    speculator.planned = [[0, 0, 0]] * 2
    runner.plan({"a": [3, 4], "b": [5, 6, 7]}, favouring(9, 9, 6, 9, 9))
    output = launch(runner, new(a=5, b=None))
    runner.batch.cu_num_logits_np[:] = [0, 4, 8]
    output.get_output()
    assert [row.drafted for row in records[0].rows] == [[4], [6, 7]]
    assert records[0].rows[0].target_top is None


def test_dummy_runs_are_none_of_our_business(ticks: Ticks) -> None:
    speculator = Speculator26(probabilistic=True)
    runner, adapter, records = hooked(speculator)
    runner.execute_model(None, dummy_run=True)
    runner.execute_model(None, None, True)
    runner.speculator.propose(None, None, dummy_run=True)
    assert (ticks.now, records, adapter._draft, speculator.dummies) == (0.0, [], None, 1)


def test_off_again(ticks: Ticks) -> None:
    speculator = Speculator26(probabilistic=True)
    before = dict(vars(Runner2(speculator)))
    runner, adapter, records = hooked(speculator)
    sampler = runner.sampler
    assert type(sampler) is not Sampler
    assert isinstance(sampler, Sampler), "the runner asks its sampler for its kind"
    sampler.compute_nans = True
    runner.plan({"a": [1]}, favouring(3))
    speculator.planned = [[4, 5, 6]]
    output = launch(runner, new(a=5))
    adapter.remove()
    assert output.get_output() == [[3]]
    assert records == [], "nobody listens any more"
    assert set(vars(runner)) == set(before)
    assert type(runner.sampler) is Sampler
    assert runner.sampler.compute_nans
    assert "propose" not in vars(speculator)


def test_a_fault_of_ours_is_told_and_stops_nothing(ticks: Ticks, monkeypatch: pytest.MonkeyPatch) -> None:
    runner, adapter, records = hooked(None)
    runner.plan({"a": [1]}, favouring(3))
    del runner.batch.cu_num_logits_np
    assert launch(runner, new(a=5)).get_output() == [[3]]
    runner.plan({"a": [1]}, favouring(3))
    output = launch(runner)
    monkeypatch.setattr(adapter, "_row", None)
    assert output.get_output() == [[3]]
    assert [type(r) for r in records] == [Fault, EngineStep, Fault]
    assert "cu_num_logits_np" in records[0].message


class OtherRunner(Runner2):
    def sample(self, hidden_states: Any, batch: Any) -> None:
        return None


def test_another_runner_is_refused() -> None:
    with pytest.raises(HookUnsupportedError, match="sample takes"):
        V2Adapter.check(OtherRunner(None))
    staged = Runner2(None)
    staged.parallel_config.pipeline_parallel_size = 2
    with pytest.raises(HookUnsupportedError, match="pipeline"):
        V2Adapter.check(staged)
    odd = Runner2(Speculator26(probabilistic=False))
    odd.rejection_sampler = odd.sampler
    with pytest.raises(HookUnsupportedError, match="__call__"):
        V2Adapter.check(odd)


@pytest.mark.parametrize("name", ["InputBatch", "AsyncOutput"])
def test_a_runner_whose_batches_or_output_differ_is_refused(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(f"tests.hooks.stand_ins.{name}", object)
    with pytest.raises(HookUnsupportedError, match=name):
        V2Adapter.check(Runner2(None))
