"""Data sets of the hub: through ``datasets`` from a copy, from its cache, and without any network."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dflash_viz.bench import datasets as ours
from dflash_viz.bench.datasets import load_dataset
from dflash_viz.bench.formats import HubPlace
from dflash_viz.bench.hub import HubError, hub_rows
from tests.bench.made import fault

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def hub_copy(tmp_path: Path) -> Path:
    """A folder as the hub keeps one, in Parquet with a card; ``datasets`` reads both alike."""
    import datasets

    folder = tmp_path / "gsm8k"
    (folder / "main").mkdir(parents=True)
    rows = [{"question": f"How many are {n} and 1?", "answer": f"#### {n + 1}"} for n in range(5)]
    datasets.Dataset.from_list(rows).to_parquet(folder / "main" / "test-00000-of-00001.parquet")
    configs = "- config_name: main\n  data_files:\n  - split: test\n    path: main/test-*\n"
    (folder / "README.md").write_text(f"---\nconfigs:\n{configs}---\n")
    return folder


def from_copy(monkeypatch: pytest.MonkeyPatch, folder: Path, name: str = "gsm8k") -> None:
    """Let a data set come from a folder instead of the hub."""
    import datasets

    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", folder.parent / "cache")
    place = HubPlace(str(folder), "main", "test")
    monkeypatch.setitem(ours._BY_NAME, name, replace(ours._BY_NAME[name], hub=place))


def test_rows_come_through_the_datasets_package(monkeypatch: pytest.MonkeyPatch, hub_copy: Path) -> None:
    from_copy(monkeypatch, hub_copy)
    loaded = load_dataset("gsm8k")
    assert [q.id for q in loaded.questions] == [f"gsm8k-{n}" for n in range(1, 6)]
    assert [q.reference for q in loaded.questions] == ["1", "2", "3", "4", "5"]
    assert (loaded.source, loaded.name) == (f"{hub_copy}, main, test", "gsm8k")
    assert load_dataset("gsm8k", limit=2).num_available == 5


def test_rows_of_the_hub_are_checked_too(monkeypatch: pytest.MonkeyPatch, hub_copy: Path) -> None:
    from_copy(monkeypatch, hub_copy, "math500")
    said = fault("math500")
    assert 'line 1: its field "problem" is missing' in said


def test_a_split_that_is_not_there_is_a_fault(monkeypatch: pytest.MonkeyPatch, hub_copy: Path) -> None:
    from_copy(monkeypatch, hub_copy)
    with pytest.raises(HubError, match="could not be fetched"):
        hub_rows(HubPlace(str(hub_copy), "main", "train"))


def said_by_a_fresh_program(**environment: str) -> Mapping[str, Any]:
    """What loading gsm8k comes to where the hub's address is a port at which nobody answers."""
    code = (
        "import json, sys; from dflash_viz.bench.datasets import DatasetError, load_dataset\n"
        "try: print(json.dumps({'ids': [q.id for q in load_dataset('gsm8k').questions]}))\n"
        "except DatasetError as error: print(json.dumps({'error': str(error)}))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "HF_ENDPOINT": "http://127.0.0.1:9", **environment},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    assert "Retrying" not in ran.stderr  # which takes ``datasets`` half a minute
    said: Mapping[str, Any] = json.loads(ran.stdout)
    return said


@pytest.mark.parametrize("offline", ["0", "1"])
def test_without_a_hub_it_is_said_at_once_what_to_do(tmp_path: Path, offline: str) -> None:
    said = said_by_a_fresh_program(HF_HOME=str(tmp_path), HF_HUB_OFFLINE=offline)["error"]
    assert "openai/gsm8k could not be fetched from the hub" in said
    assert "--data PATH" in said
    assert "'builtin'" in said


def test_without_a_hub_the_cache_is_used(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, hub_copy: Path
) -> None:
    from_copy(monkeypatch, hub_copy)
    load_dataset("gsm8k")
    cached = tmp_path / "home" / "datasets" / "openai___gsm8k"
    cached.parent.mkdir(parents=True)
    (tmp_path / "cache" / "gsm8k").rename(cached)
    said = said_by_a_fresh_program(HF_HOME=str(tmp_path / "home"))
    assert said == {"ids": [f"gsm8k-{n}" for n in range(1, 6)]}


def test_without_the_package_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "datasets", None)
    said = fault("humaneval")
    assert "pip install datasets" in said
    assert "--data PATH" in said
    assert load_dataset("builtin").num_available == 60


def test_spec_bench_needs_a_file() -> None:
    assert "--data PATH" in fault("spec-bench")
