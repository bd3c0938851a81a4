"""What the server's command line asks of the vLLM that is installed."""

from __future__ import annotations

import importlib.util
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest

from dflash_viz.lanes import LaneSpec
from dflash_viz.lanes.server import EngineServer

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
