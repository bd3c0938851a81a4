"""The V1 adapter where results are still on their way when ``_sample`` returns, as on CUDA.

On the CPU the real engine's tests (``tests/lanes/test_engine.py``) are the check.
"""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from dflash_viz.hooks.adapter import HookUnsupportedError
from dflash_viz.hooks.v1 import V1Adapter
from dflash_viz.hooks.wire import EngineStep, Record
from tests.hooks.stand_ins import Runner1, Scheduled, parameters
from tests.hooks.test_v2 import favouring, made

pytestmark = pytest.mark.usefixtures("unwaiting", "ticks")


def hooked(device: str, asynchronous: bool, **asked: int) -> tuple[Runner1, V1Adapter, list[Record]]:
    runner, records = Runner1(device, asynchronous), []
    runner.requests = {r: SimpleNamespace(sampling_params=parameters(k)) for r, k in asked.items()}
    adapter = V1Adapter(runner, lambda item: records.extend(made(item)))
    adapter.install()
    return runner, adapter, records


def launch(runner: Runner1, scheduled: Scheduled | None = None) -> object:
    runner.execute_model(scheduled or Scheduled())
    return runner.sample_tokens(None)


def run(device: str, asynchronous: bool) -> list[Record]:
    """A prompt beside a chunk of another one, then blocks of different lengths."""
    runner, adapter, records = hooked(device, asynchronous, a=2, b=0)
    outputs = []
    runner.plan({"a": [], "b": []}, [[3], [9]], favouring(3, 9), discard=1)
    outputs.append(launch(runner))
    runner.plan({"b": [], "a": [4, 5, -1]}, [[8, -1, -1, -1], [4, 7, -1, -1]], favouring(8, 4, 7, 7, 7))
    outputs.append(launch(runner, Scheduled(finished_req_ids={"z"})))
    runner.plan({"a": [6]}, [[2, -1]], favouring(2, 2))
    outputs.append(launch(runner, Scheduled(finished_req_ids={"a"})))
    if asynchronous:
        assert records == [], "read before the engine had waited"
        assert [o.get_output() for o in outputs] == ["output"] * 3
    adapter.remove()
    return records


@pytest.mark.parametrize(("device", "asynchronous"), [("cpu", False), ("cuda", False), ("cuda", True)])
def test_records(device: str, asynchronous: bool) -> None:
    records = run(device, asynchronous)
    assert all(isinstance(r, EngineStep) for r in records), records
    rows = [[(r.request_id, r.index, r.sampled, r.drafted) for r in step.rows] for step in records]
    assert rows == [
        [("a", 0, [3], [])],
        [("b", 0, [8], []), ("a", 1, [4, 7], [4, 5])],
        [("a", 0, [2], [6])],
    ]
    silent, row = records[1].rows
    assert silent.target_top is None
    # The block's two real tokens and the position after them.
    assert [ids[0] for ids in row.target_top.ids] == [4, 7, 7]
    logits = torch.softmax(favouring(8, 4, 7, 7, 7), -1)
    assert row.target_top.p_drafted == pytest.approx([float(logits[1, 4]), float(logits[2, 5])])
    assert [r.draft_end > r.draft_start for r in records] == [False, True, True]


def test_the_drafters_own_probabilities() -> None:
    """A chain of two passes over two requests, of which one asks, then a block in one pass."""
    runner, adapter, records = hooked("cuda", True, x=0, a=3)
    runner.plan({"x": [], "a": []}, [[1], [3]], favouring(1, 3))
    outputs = [launch(runner)]
    adapter._draft_logits = [favouring(1, 4), favouring(1, 5)]
    runner.plan({"x": [1, 1], "a": [4, 5]}, [[2, -1, -1], [4, 5, 6]], favouring(2, 2, 2, 4, 5, 6))
    outputs.append(launch(runner))
    adapter._draft_logits = [favouring(1, 1, 6, 7)]
    runner.plan({"a": [6, 7], "x": [1, 1]}, [[6, 7, 8], [2, -1, -1]], favouring(6, 7, 8, 2, 2, 2))
    adapter._draft_rows = {"x": 0, "a": 1}
    outputs.append(launch(runner))
    for output in outputs:
        output.get_output()
    chain = next(r for r in records[1].rows if r.request_id == "a").drafter_top
    block = next(r for r in records[2].rows if r.request_id == "a").drafter_top
    assert [ids[0] for ids in chain.ids] == [4, 5]
    assert [ids[0] for ids in block.ids] == [6, 7]
    assert chain.p_drafted == pytest.approx([p[0] for p in chain.p])


def test_off_again() -> None:
    runner, adapter, records = hooked("cuda", True, a=0)
    runner.plan({"a": []}, [[3]], favouring(3))
    output = launch(runner)
    adapter.remove()
    assert output.get_output() == "output"
    assert records == []
    assert not {"execute_model", "_sample", "sample_tokens", "propose_draft_token_ids"} & set(vars(runner))


def test_another_runner_is_refused() -> None:
    runner = Runner1("cuda", True)
    runner._sample = lambda logits: None
    with pytest.raises(HookUnsupportedError, match="_sample takes"):
        V1Adapter.check(runner)
