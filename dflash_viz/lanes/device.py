"""Whether a lane's engine can run on the GPUs of this machine, told before its weights are loaded.

vLLM finds all of this too, minutes later. What is not known lets a lane through. Where engines run on the
CPU a lane is refused that says what it takes of a GPU; where the driver's program tells of none (one of
another maker's), nothing here refuses anything.
"""

from __future__ import annotations

import itertools
import json
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from dflash_viz.lanes.attention import BACKENDS, Need, able, faults
from dflash_viz.lanes.dtype import is_cpu_build
from dflash_viz.lanes.errors import LaneError
from dflash_viz.lanes.gpus import CHOICE, INSTALL, Gpu, may_have_gpu, visible_gpus
from dflash_viz.lanes.options import cache_bytes, option, whole
from dflash_viz.lanes.spec import LaneSpec

LEAST_CAPABILITY = (7, 5)
"""Of CUDA 13, which vLLM's wheels are built with."""
BFLOAT16_CAPABILITY = (8, 0)
DEFAULT_SHARE = 0.92
"""vLLM's gpu-memory-utilization."""
_DTYPES = {"half": "float16", "float": "float32"}
_FLOATS = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2}


def engine_gpus(spec: LaneSpec) -> list[Gpu]:
    """The GPUs that the lane's engine would see; none where it runs on the CPU, or nobody can tell."""
    return [] if is_cpu_build() else visible_gpus(spec.environment.get(CHOICE))


def check_place(spec: LaneSpec, gpus: Sequence[Gpu]) -> None:
    """Raise ``LaneError`` where engines run on the CPU and the lane is for a GPU: it has ``memory_gb``.

    ``gpus`` are those of ``engine_gpus``.
    """
    cpu_build = is_cpu_build()
    if not spec.memory_gb or gpus or (not cpu_build and may_have_gpu()):
        return
    why = "the vLLM that is installed is the one for CPUs" if cpu_build else "there is no GPU"
    raise LaneError(
        f"Lane {spec.name!r} needs {_gb(spec.memory_gb * 1e9)} of GPU memory, and engines run on the CPU "
        f"here: {why}. Choose a pair for this machine, as the app does with --preset auto; for a GPU "
        f"{INSTALL}"
    )


def check_device(spec: LaneSpec, gpus: Sequence[Gpu], asleep_gb: float = 0.0) -> None:
    """Raise ``LaneError`` when the lane's options do not fit these GPUs, or its memory is not free there.

    ``asleep_gb`` is what engines that sleep beside it keep of the memory, in 10^9 bytes.
    """

    def check(gpu: Gpu) -> None:
        _capability(spec, gpu)
        _backend(spec, gpu, {}, "target")
        _backend(spec, gpu, {}, "drafter")
        _memory(spec, gpu, spec.memory_gb * 1e9, asleep_gb * 1e9)

    _on_each(spec, gpus, check)


def check_models(spec: LaneSpec, gpus: Sequence[Gpu], models: Sequence[tuple[Path, dict[str, Any]]]) -> None:
    """Raise ``LaneError`` when the models do not fit these GPUs: attention heads, their size, weights.

    ``models`` are folder and configuration of the target, and of the drafter if there is one.
    """
    if not _used(spec, gpus):
        return
    named = list(zip(("target", "drafter"), models, strict=False))
    for what, (_, config) in named:
        _heads(spec, config, what)
    parts = (whole(spec, "tensor-parallel-size", 1) or 1) * (whole(spec, "pipeline-parallel-size", 1) or 1)
    weights = sum(weight_bytes(folder, _dtype(spec)) for folder, _ in models) / parts

    def check(gpu: Gpu) -> None:
        for what, (_, config) in named:
            _backend(spec, gpu, config, what)
        _memory(spec, gpu, weights + cache_bytes(spec), 0.0)

    _on_each(spec, gpus, check)


def num_gpus(spec: LaneSpec) -> int:
    """How many GPUs the engine takes: each of its parallel parts has one."""
    needed = 1
    for name in ("tensor-parallel-size", "pipeline-parallel-size", "data-parallel-size"):
        needed *= whole(spec, name, 1) or 1
    return needed


def _on_each(spec: LaneSpec, gpus: Sequence[Gpu], check: Callable[[Gpu], None]) -> None:
    """Check every GPU that the engine takes; a refusal of the only one names another that would do."""
    used = _used(spec, gpus)
    try:
        for gpu in used:
            check(gpu)
    except LaneError as error:
        others = (gpu for gpu in gpus[1:] if len(used) == 1 and _passes(check, gpu))
        raise LaneError(
            " ".join([str(error), *(_instead(gpu) for gpu in itertools.islice(others, 1))])
        ) from None


def _passes(check: Callable[[Gpu], None], gpu: Gpu) -> bool:
    try:
        check(gpu)
    except LaneError:
        return False
    return True


def _instead(gpu: Gpu) -> str:
    return (
        f"Another GPU of this machine would do, {gpu.name}: {CHOICE}={gpu.index} takes it, set for the app "
        "or in the lane's environment in the preset."
    )


def _used(spec: LaneSpec, gpus: Sequence[Gpu]) -> Sequence[Gpu]:
    """The GPUs that the engine takes; none where it spans machines."""
    if not gpus or option(spec, "distributed-executor-backend") == "ray" or option(spec, "nnodes"):
        return []
    needed = num_gpus(spec)
    if needed > len(gpus):
        raise LaneError(
            f"Lane {spec.name!r} asks for {needed} GPUs (tensor-, pipeline- and data-parallel-size), and "
            f"{len(gpus)} {'is' if len(gpus) == 1 else 'are'} visible: lower these options in the preset, or "
            f"let the engine see more ({CHOICE})."
        )
    return gpus[:needed]


def _capability(spec: LaneSpec, gpu: Gpu) -> None:
    if gpu.capability < LEAST_CAPABILITY:
        raise LaneError(
            f"{_named(gpu)} cannot run vLLM, which needs {_dotted(LEAST_CAPABILITY)}: use a newer GPU, or "
            "vLLM's build for CPUs with --preset embedded-cpu."
        )
    if _dtype(spec) == "bfloat16" and gpu.capability < BFLOAT16_CAPABILITY:
        raise LaneError(
            f"Lane {spec.name!r} computes in bfloat16, which needs compute capability "
            f"{_dotted(BFLOAT16_CAPABILITY)}; {_named(gpu)} does not have it. Write dtype: half in the "
            "preset (drafts may be right less often then), or use an L4, A10G, A100 or newer."
        )


def _dtype(spec: LaneSpec) -> str | None:
    """The number format that it computes in; None where vLLM chooses it."""
    told = str(option(spec, "dtype", "auto"))
    return None if told == "auto" else _DTYPES.get(told, told)


def _backend(spec: LaneSpec, gpu: Gpu, config: Mapping[str, Any], what: str) -> None:
    """Whether a backend runs the model's attention: the one that is asked for, else one of those that
    vLLM chooses from. For the drafter it chooses apart."""
    if "kv_lora_rank" in config or (what == "drafter" and spec.method != "dflash"):
        return  # latent attention has backends of its own
    own = spec.speculative if what == "drafter" else {}
    asked = own.get("attention_backend") or (option(spec, "attention-backend") if what == "target" else None)
    name = str(asked or "auto").upper()
    cache = str(own.get("kv_cache_dtype") or option(spec, "kv-cache-dtype", "auto"))
    causal = what == "target" or not config or _is_causal(config)
    need = Need(gpu.capability, causal, _dtype(spec), cache, _head_size(config))
    why = faults(name, need)
    if why or (name == "AUTO" and not able(need)):
        raise LaneError(_no_backend(spec, gpu, what, name, need))


def _no_backend(spec: LaneSpec, gpu: Gpu, what: str, name: str, need: Need) -> str:
    others, about = able(need), f"{what} of lane {spec.name!r}"
    if name != "AUTO":
        way = f"use {' or '.join(others)}" if others else "ask for another kv-cache-dtype"
        return (
            f"{name} cannot run the attention of the {about} on {_named(gpu)}: it "
            f"{' and '.join(faults(name, need))}. Leave attention-backend out of the preset, or {way}."
        )
    told = "; ".join(f"{one} {' and '.join(faults(one, need))}" for one in BACKENDS)
    kind = "causal" if need.causal else "non-causal"
    return (
        f"No attention backend of vLLM runs the {kind} attention of the {about} on {_named(gpu)}: {told}. "
        "Write kv-cache-dtype: auto in the preset, or use another pair."
    )


def _is_causal(config: Mapping[str, Any]) -> bool:
    """Whether all of a DFlash drafter's attention is causal (vLLM's ``qwen3_dflash.py``): where it does not
    say so itself, that of layers with a sliding window is. Without a configuration nobody knows."""
    told = config.get("is_causal", (config.get("dflash_config") or {}).get("causal"))
    layers = config.get("layer_types") or ["full_attention"]
    return bool(told) if told is not None else all(kind == "sliding_attention" for kind in layers)


def _head_size(config: Mapping[str, Any]) -> int | None:
    size, width, heads = (_int(config, name) for name in ("head_dim", "hidden_size", "num_attention_heads"))
    return size or (width // heads if width and heads else None)


def _int(config: Mapping[str, Any], name: str) -> int | None:
    """A number of a configuration; some models have one a layer, which is let through."""
    value = config.get(name)
    return value if isinstance(value, int) else None


def _heads(spec: LaneSpec, config: Mapping[str, Any], what: str) -> None:
    """Each part of a tensor-parallel engine gets as many attention heads."""
    parts = whole(spec, "tensor-parallel-size", 1) or 1
    if what == "drafter":
        parts = _int(spec.speculative, "draft_tensor_parallel_size") or parts
    heads = _int(config, "num_attention_heads")
    if heads and heads % parts:
        good = ", ".join(str(size) for size in range(1, min(heads, 16) + 1) if heads % size == 0)
        raise LaneError(
            f"The {heads} attention heads of the {what} of lane {spec.name!r} cannot be divided among "
            f"{parts} GPUs: set tensor-parallel-size to one of {good}."
        )


def _memory(spec: LaneSpec, gpu: Gpu, needed: float, asleep: float) -> None:
    """``needed`` and what sleeping engines keep must be free, and what vLLM wants free at the start."""
    if needed + asleep > gpu.free:
        beside = f" and {_gb(asleep)} for engines that sleep beside it" if asleep else ""
        raise LaneError(
            f"Lane {spec.name!r} needs {_gb(needed)} of GPU memory{beside}; {_gb(gpu.free)} of "
            f"{_gb(gpu.total)} on {gpu.name} are free. End what else uses the GPU, lower "
            "kv-cache-memory-bytes in the preset, or choose a smaller pair (--preset auto takes one that "
            "fits)."
        )
    share = _share(spec)
    if share * gpu.total > gpu.free - asleep:
        raise LaneError(
            f"Lane {spec.name!r} has gpu-memory-utilization {share:g}, and vLLM starts only where so much is "
            f"free: {_gb(share * gpu.total)}; {_gb(gpu.free)} of {_gb(gpu.total)} on {gpu.name} are. Lower "
            "it in the preset (kv-cache-memory-bytes gives the cache its size), or end what else uses the "
            "GPU."
        )


def _share(spec: LaneSpec) -> float:
    try:
        return float(option(spec, "gpu-memory-utilization", DEFAULT_SHARE))
    except (TypeError, ValueError):
        return 0.0


def weight_bytes(folder: Path, dtype: str | None) -> float:
    """What a model's safetensors take once loaded in a number format (None: vLLM's choice, of 16 bits); 0
    where they are in other files, or cannot be read."""
    width = 4 if dtype == "float32" else 2
    total = 0.0
    try:
        for file in _files(folder):
            for kind, first, last in _tensors(file):
                total += (last - first) * width / _FLOATS.get(kind, width)
    except (OSError, ValueError, LookupError, TypeError, AttributeError, struct.error):
        return 0.0
    return total


def _files(folder: Path) -> list[Path]:
    """The files that are loaded: some folders hold the same weights twice."""
    index = folder / "model.safetensors.index.json"
    if index.is_file():
        return [folder / name for name in sorted(set(json.loads(index.read_text())["weight_map"].values()))]
    return sorted(folder.glob("*.safetensors"))


def _tensors(file: Path) -> Iterator[tuple[str, int, int]]:
    """Number format, begin and end of each tensor in a safetensors file, by its header."""
    with file.open("rb") as stream:
        (length,) = struct.unpack("<Q", stream.read(8))
        header = json.loads(stream.read(min(length, 100_000_000)))
    for name, about in header.items():
        if name != "__metadata__":
            yield about["dtype"], *about["data_offsets"]


def _named(gpu: Gpu) -> str:
    return f"{gpu.name} (compute capability {_dotted(gpu.capability)})"


def _dotted(capability: tuple[int, int]) -> str:
    return f"{capability[0]}.{capability[1]}"


def _gb(size: float) -> str:
    return f"{size / 1e9:.1f} GB"
