"""What the server's command line asks of the vLLM that is installed."""

from __future__ import annotations

import importlib.util
import json
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

import pytest

from dflash_viz.lanes import LaneError, LaneSpec
from dflash_viz.lanes.server import EngineServer, _error_lines

OPTION = "--per-request-spec-decode-metrics"


def command(monkeypatch: pytest.MonkeyPatch, folder: Path, method: str) -> list[str]:
    """With the vLLM of this folder."""
    found = ModuleSpec("vllm", None, origin=str(folder / "__init__.py"))
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: found)
    return EngineServer(LaneSpec("lane", method), Path("target"), None)._command


@pytest.mark.parametrize(
    ("source", "method", "asked"),
    [
        ("per_request_spec_decode_metrics: str", "ngram", True),
        ("per_request_spec_decode_metrics: str", "none", False),
        ("otlp_traces_endpoint: str", "ngram", False),
        (None, "ngram", False),
    ],
)
def test_counts_of_each_answer_where_vllm_can(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, source: str | None, method: str, asked: bool
) -> None:
    if source is not None:
        (tmp_path / "config").mkdir()
        (tmp_path / "config" / "observability.py").write_text(source)
    assert (OPTION in command(monkeypatch, tmp_path, method)) is asked


HEAD = {
    "eagle_config": {"use_aux_hidden_state": True, "eagle_aux_hidden_state_layer_ids": [2, 9, 16, 23, 29]}
}


def drafter_of(monkeypatch: pytest.MonkeyPatch, folder: Path, method: str, config: dict[str, Any]) -> Path:
    """The folder that the server names as the drafter, of one with this configuration."""
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: ModuleSpec("vllm", None))
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "model.safetensors").write_bytes(b"weights")
    spec = LaneSpec("lane", method, drafter="d", num_speculative_tokens=5)
    server = EngineServer(spec, Path("target"), folder)
    # What it has made goes with it.
    monkeypatch.setattr("tests.lanes.test_server.KEPT", server, raising=False)
    asked = server._command[server._command.index("--speculative-config") + 1]
    return Path(json.loads(asked)["model"]).resolve()


def test_a_head_names_its_layers_where_every_runner_looks(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """vLLM's V2 runner reads the top of the configuration only, and would take three layers of its own."""
    given = drafter_of(monkeypatch, tmp_path / "head", "eagle3", HEAD)
    config = json.loads((given / "config.json").read_text())
    assert config == {**HEAD, "eagle_aux_hidden_state_layer_ids": [2, 9, 16, 23, 29]}
    assert (given / "model.safetensors").read_bytes() == b"weights"
    assert json.loads((tmp_path / "head" / "config.json").read_text()) == HEAD, "left as it was"


def test_a_head_without_such_a_configuration_is_left_to_vllm(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """One in Mistral's format has ``params.json`` instead."""
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: ModuleSpec("vllm", None))
    spec = LaneSpec("lane", "eagle3", drafter="d", num_speculative_tokens=5)
    (tmp_path / "params.json").write_text("{}")
    command = EngineServer(spec, Path("target"), tmp_path)._command
    assert json.loads(command[command.index("--speculative-config") + 1])["model"] == str(tmp_path)


@pytest.mark.parametrize(
    ("method", "config"),
    [
        ("eagle3", {**HEAD, "eagle_aux_hidden_state_layer_ids": [1, 2, 3]}),
        ("eagle3", {"eagle_config": {"use_aux_hidden_state": True}}),
        ("dflash", HEAD),
        ("draft_model", {}),
    ],
)
def test_other_drafters_are_taken_as_they_are(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, method: str, config: dict[str, Any]
) -> None:
    given = drafter_of(monkeypatch, tmp_path / "drafter-of-eagle", method, config)
    assert given == tmp_path / "drafter-of-eagle"


def test_what_an_error_could_be_like_is_no_reason() -> None:
    warning = (
        "WARNING Found ulimit of 20000 and failed to automatically increase with error x. This can cause fd "
        "limit errors like `OSError: [Errno 24] Too many open files`. Consider increasing with ulimit -n"
    )
    assert list(_error_lines(warning)) == []
    assert list(_error_lines(f"OSError: [Errno 98] Address in use\n{warning}")) == [
        "OSError: [Errno 98] Address in use"
    ]


def test_an_engine_numbers_gpus_as_the_driver_does(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Else a number would mean one GPU in the app's checks and another one in the engine."""
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: ModuleSpec("vllm", None))
    monkeypatch.setenv("CUDA_DEVICE_ORDER", "FASTEST_FIRST")
    spec = LaneSpec("lane", "none", environment={"CUDA_VISIBLE_DEVICES": "1"})
    environment = EngineServer(spec, tmp_path, None)._environment()
    assert environment["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"
    assert environment["CUDA_VISIBLE_DEVICES"] == "1"


def test_without_vllm_the_message_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(LaneError, match=r'make install.*for a GPU see "An engine on a GPU" in the README'):
        EngineServer(LaneSpec("lane", "none"), tmp_path, None)
