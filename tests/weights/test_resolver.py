"""The resolver: the conversion happens once, whole, and says what is wrong otherwise."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from dflash_viz.weights import WeightsError, content_hash, embedded_target_dir, resolve_model
from dflash_viz.weights.resolver import SUMS_FILE, write_sums

ROOT = Path(__file__).resolve().parents[2]


def start(cache: Path) -> subprocess.Popen[str]:
    """A process that prepares the embedded target in an own cache."""
    return subprocess.Popen(
        [sys.executable, "-m", "dflash_viz.weights", "embedded"],
        env={**os.environ, "DFLASH_VIZ_CACHE": str(cache)},
        cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
    )  # fmt: skip


def result(process: subprocess.Popen[str]) -> dict[str, str]:
    out, _ = process.communicate(timeout=240)
    return json.loads(out.splitlines()[-1])


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A small valid model folder with its sums."""
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    save_file({"a": np.arange(8.0)}, folder / "model.safetensors")
    write_sums(folder)
    return folder


def test_two_processes_race_after_an_interrupted_one(tmp_path: Path) -> None:
    """A conversion is killed in the middle; then two start at once: both get the same whole model.
    Damaged later, it is made anew."""
    killed = start(tmp_path)
    assert killed.stdout is not None
    while "converting" not in killed.stdout.readline():
        pass
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    racers = [start(tmp_path), start(tmp_path)]
    paths = {result(r)["path"] for r in racers}
    assert len(paths) == 1
    folder = Path(paths.pop())
    assert content_hash(folder) == content_hash(resolve_model("embedded"))
    with (folder / "model.safetensors").open("r+b") as file:
        file.seek(1000)
        file.write(b"damage")
    again = start(tmp_path)
    assert again.stdout is not None
    messages = iter(again.stdout.readline, "")
    assert any("loading transformers" in message for message in messages), "it was not converted again"
    again.kill()
    again.wait()


def test_the_second_time_is_from_the_cache() -> None:
    messages: list[str] = []
    assert resolve_model("embedded", lambda _, message: messages.append(message)) == embedded_target_dir()
    assert messages == ["the embedded target is in the cache"]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A real file system of 20 MB."""
    mount = tmp_path / "small"
    mount.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=20m", "tmpfs", str(mount)]
    if subprocess.run(command, check=False).returncode != 0:
        pytest.skip("mounting a small disk needs root")
    yield mount
    subprocess.run(["umount", str(mount)], check=True)


def test_full_disk(small_disk: Path) -> None:
    answer = result(start(small_disk))
    assert "is full" in answer["error"]
    assert "DFLASH_VIZ_CACHE" in answer["error"]
    assert not list((small_disk / "models").glob("*/")), "half a model was left"


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert "DFLASH_VIZ_CACHE" in result(start(tmp_path / "file"))["error"]


def test_local_folder(model: Path) -> None:
    assert resolve_model(str(model)) == model


@pytest.mark.parametrize("with_sums", [True, False])
def test_damaged_weight_file(model: Path, with_sums: bool) -> None:
    if not with_sums:
        (model / SUMS_FILE).unlink()
    weights = model / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-9])
    with pytest.raises(WeightsError, match=r"model\.safetensors of model is damaged"):
        resolve_model(str(model))


def test_missing_weight_file(model: Path) -> None:
    (model / "model.safetensors").unlink()
    with pytest.raises(WeightsError, match="missing"):
        resolve_model(str(model))


def test_no_model(tmp_path: Path) -> None:
    with pytest.raises(WeightsError, match=r"no config\.json"):
        resolve_model(str(tmp_path))
    with pytest.raises(WeightsError, match="There is no model 'assets/nope'"):
        resolve_model("assets/nope")


def test_hub_without_network(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(WeightsError, match="could not be fetched from the hub"):
        resolve_model("nobody/nothing")


def test_content_hash_follows_the_content(model: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(model, copy)
    assert content_hash(copy) == content_hash(model)
    (copy / SUMS_FILE).unlink()
    assert content_hash(copy) == content_hash(model)
    save_file({"a": np.zeros(8)}, copy / "model.safetensors")
    assert content_hash(copy) != content_hash(model)
