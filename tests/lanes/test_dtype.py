"""``auto`` follows what the CPU can compute; anything else is left as it was asked."""

from __future__ import annotations

from pathlib import Path

import pytest

from dflash_viz.lanes import dtype
from dflash_viz.lanes.dtype import resolve_dtype


@pytest.mark.parametrize(
    ("flags", "expected"),
    [("fma avx2", "float32"), ("avx512f avx512_bf16", "auto"), ("amx_bf16 amx_tile", "auto")],
)
def test_auto(flags: str, expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text(f"processor : 0\nflags : sse {flags} rdrand\n")
    monkeypatch.setattr(dtype, "CPUINFO", cpuinfo)
    monkeypatch.setattr(dtype, "is_cpu_build", lambda: True)
    assert resolve_dtype("auto") == expected
    assert resolve_dtype("bfloat16") == "bfloat16"
    monkeypatch.setattr(dtype, "is_cpu_build", lambda: False)
    assert resolve_dtype("auto") == "auto"
