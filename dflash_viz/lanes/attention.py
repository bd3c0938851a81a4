"""Which of vLLM's attention backends runs a model on a GPU.

A drafter of DFlash's looks at its whole block at once: its attention is not causal, which not every
backend can. This follows ``vllm/v1/attention/backends`` and ``platforms/cuda.py``, which agree from 0.26 to
0.33; before 0.26 fewer backends could (vllm#40382, vllm#41559). What they do not say counts as possible.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

Capability = tuple[int, int]
NARROW = {"auto", "float16", "bfloat16"}
FP8 = {"fp8", "fp8_e4m3", "fp8_e5m2"}
_KNOWN = re.compile(r"fp8|fp8_e4m3|fp8_e5m2|nvfp4.*|turboquant.*|\w+_per_token_head")


class Need(NamedTuple):
    """What is asked of a backend; None: nobody has said. ``cache`` is the number format of the KV cache."""

    capability: Capability
    causal: bool
    dtype: str | None = None
    cache: str = "auto"
    head_size: int | None = None


def _flash_attn(need: Need) -> Iterator[str]:
    if need.capability < (8, 0):
        yield "needs compute capability 8.0"
    if need.dtype == "float32":
        yield "does not compute in float32"
    if need.head_size and (
        need.head_size % 8 or need.head_size > (512 if need.capability >= (9, 0) else 256)
    ):
        yield "takes head sizes up to 256 (512 from compute capability 9.0 on) that 8 divides"
    newest = need.cache in FP8 - {"fp8_e5m2"} and need.capability[0] in (9, 10)
    if need.cache not in NARROW and not newest:
        yield "keeps a KV cache in 16 bits only, or in fp8_e4m3 on compute capability 9.0 and 10.0"


def _flashinfer(need: Need) -> Iterator[str]:
    if not (8, 0) <= need.capability <= (12, 1):
        yield "needs compute capability 8.0 to 12.1"
    if need.dtype == "float32":
        yield "does not compute in float32"
    if need.head_size and need.head_size not in (64, 128, 256, 512):
        yield "takes head sizes of 64, 128, 256 and 512 only"
    if need.cache not in NARROW | FP8 and not need.cache.startswith("nvfp4"):
        yield f"keeps no KV cache in {need.cache}"


def _triton_attn(need: Need) -> Iterator[str]:
    if need.head_size and need.head_size < 32:
        yield "takes head sizes from 32 on"
    if need.cache not in NARROW | FP8 and not need.cache.endswith("_per_token_head"):
        yield f"keeps no KV cache in {need.cache}"


def _flex_attention(need: Need) -> Iterator[str]:
    if need.cache not in NARROW:
        yield "keeps a KV cache in 16 bits only"


def _turboquant(need: Need) -> Iterator[str]:
    if not need.causal:
        yield "has causal attention only"
    if not need.cache.startswith("turboquant"):
        yield "keeps a KV cache in formats of its own only"


BACKENDS: dict[str, Callable[[Need], Iterator[str]]] = {
    "FLASH_ATTN": _flash_attn,
    "FLASHINFER": _flashinfer,
    "TRITON_ATTN": _triton_attn,
    "FLEX_ATTENTION": _flex_attention,
    "TURBOQUANT": _turboquant,
}
"""Those that vLLM chooses from for models with ordinary attention, in its order."""


def faults(backend: str, need: Need) -> list[str]:
    """Why a backend cannot; empty where it can, or is one that we know nothing of."""
    if not _KNOWN.fullmatch(need.cache):
        need = need._replace(cache="auto")
    return list(BACKENDS[backend](need)) if backend in BACKENDS else []


def able(need: Need) -> list[str]:
    """The backends that can."""
    return [backend for backend in BACKENDS if not faults(backend, need)]
