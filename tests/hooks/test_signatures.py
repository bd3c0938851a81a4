"""What the adapters expect, against the sources of the vLLM versions they were written for.

``signatures.json`` (made by ``record_signatures.py``) keeps what three versions have; the installed
one is read again. Runners are built from it and given to the adapters' own checks.
"""

from __future__ import annotations

import importlib.util
import inspect
import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dflash_viz.hooks.adapter import HookUnsupportedError
from dflash_viz.hooks.probe import choose_adapter
from dflash_viz.hooks.v1 import V1Adapter
from dflash_viz.hooks.v2 import V2Adapter
from tests.hooks.record_signatures import GPU, TABLE, Table, read_signatures

TABLES: dict[str, Table] = json.loads(TABLE.read_text())
VERSIONS = ("0.26.0", "0.32.0", "0.33.0")
ONE_STAGE = SimpleNamespace(pipeline_parallel_size=1)


def method(parameters: list[str], scope: dict[str, Any]) -> Callable[..., Any]:
    """A method that takes these parameters, in a module that holds ``scope``."""
    exec(f"def made({', '.join(['self', *parameters])}): pass", scope)
    return scope["made"]


def instance(methods: dict[str, list[str]], scope: dict[str, Any], **attributes: Any) -> Any:
    made = type("Made", (), {name: method(p, scope) for name, p in methods.items()})()
    vars(made).update(attributes)
    return made


def v1_runner(table: Table) -> Any:
    prefix = "vllm/v1/worker/gpu_model_runner.py:GPUModelRunner."
    names = ("_sample", "execute_model", "sample_tokens")
    return instance({n: table[prefix + n] for n in names}, {}, parallel_config=ONE_STAGE)


def v2_runner(table: Table) -> Any:
    sets = "; ".join(f"self.{name} = 0" for name in table[f"{GPU}/async_utils.py:AsyncOutput()"])
    scope: dict[str, Any] = {}
    exec(f"class AsyncOutput:\n    def __init__(self): {sets}", scope)
    fields = dict.fromkeys(table[f"{GPU}/input_batch.py:InputBatch"])
    scope["InputBatch"] = SimpleNamespace(__dataclass_fields__=fields)
    prefix = f"{GPU}/model_runner.py:GPUModelRunner."
    names = ("execute_model", "sample", "sample_tokens")
    calls = {
        "sampler": ("__call__", f"{GPU}/sample/sampler.py:Sampler.__call__"),
        "rejection_sampler": (
            "__call__",
            f"{GPU}/spec_decode/rejection_sampler.py:RejectionSampler.__call__",
        ),
        "speculator": ("propose", f"{GPU}/spec_decode/dflash/speculator.py:DFlashSpeculator.propose"),
    }
    parts = {part: instance({name: table[key]}, {}) for part, (name, key) in calls.items()}
    return instance({n: table[prefix + n] for n in names}, scope, parallel_config=ONE_STAGE, **parts)


@pytest.mark.parametrize("version", VERSIONS)
def test_each_versions_runners_get_their_adapter(version: str) -> None:
    assert choose_adapter(v1_runner(TABLES[version])) is V1Adapter
    assert choose_adapter(v2_runner(TABLES[version])) is V2Adapter


@pytest.mark.parametrize("version", VERSIONS)
def test_what_no_check_looks_at_is_there_too(version: str) -> None:
    table = TABLES[version]
    assert {"finished_req_ids", "scheduled_new_reqs"} <= set(
        table["vllm/v1/core/sched/output.py:SchedulerOutput"]
    )
    assert {"req_id", "sampling_params"} <= set(table["vllm/v1/core/sched/output.py:NewRequestData"])
    fields = table["vllm/v1/spec_decode/metadata.py:SpecDecodeMetadata"]
    assert {"draft_token_ids", "num_draft_tokens"} <= set(fields)
    decides = table["vllm/v1/sample/rejection_sampler.py:rejection_sample"]
    assert {"draft_token_ids", "draft_probs", "target_logits", "sampling_metadata"} <= set(decides)
    assert table["vllm/v1/sample/rejection_sampler.py:generate_uniform_probs"]
    for part in ("speculator.py:BaseSpeculator", "dflash/speculator.py:DFlashSpeculator"):
        propose = table[f"{GPU}/spec_decode/{part}.propose"]
        assert propose[0] == "input_batch"
        assert "dummy_run" in propose
    held = table[f"{GPU}/spec_decode/speculator.py:DraftModelSpeculator()"]
    assert {"draft_logits", "temperature"} <= set(held)
    assert table[f"{GPU}/async_utils.py:AsyncOutput.get_output"] == []
    # What the routes of sleeping call, and the stand-in of their tests offers.
    assert table["vllm/v1/engine/async_llm.py:AsyncLLM.sleep"] == ["level", "mode"]
    assert table["vllm/v1/engine/async_llm.py:AsyncLLM.wake_up"] == ["tags"]


@pytest.mark.parametrize("name", ["sample", "sample_tokens", "execute_model"])
def test_a_changed_method_is_noticed(name: str) -> None:
    table = dict(TABLES["0.33.0"])
    table[f"{GPU}/model_runner.py:GPUModelRunner.{name}"] = ["something"]
    with pytest.raises(HookUnsupportedError, match=rf"V2: .*{name} takes \(something\)"):
        choose_adapter(v2_runner(table))


def installed() -> Path:
    spec = importlib.util.find_spec("vllm")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parents[1]


def test_the_installed_version_is_the_recorded_one() -> None:
    assert read_signatures(installed()) == TABLES["0.32.0"]


def test_the_installed_classes_agree_with_their_sources() -> None:
    """What Python says of the imported V2 runner is what was read from its text."""
    from vllm.v1.worker.gpu.model_runner import GPUModelRunner

    for name in ("execute_model", "sample", "sample_tokens"):
        found = list(inspect.signature(getattr(GPUModelRunner, name)).parameters)[1:]
        assert found == TABLES["0.32.0"][f"{GPU}/model_runner.py:GPUModelRunner.{name}"]
    scope = inspect.unwrap(GPUModelRunner.sample).__globals__
    assert "cu_num_logits_np" in scope["InputBatch"].__dataclass_fields__
    assert "num_sampled_tokens_np" in scope["AsyncOutput"].__init__.__code__.co_names
