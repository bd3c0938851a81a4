"""A stand-in for ``nvidia-smi``: what several machines' own says to the question that is asked."""

from __future__ import annotations

from pathlib import Path

import pytest

T4 = "0, GPU-1f3a, Tesla T4, 15360, 14913, 7.5"
A10G = "0, GPU-2b77, NVIDIA A10G, 23028, 22512, 8.6"
L4 = "0, GPU-3c01, NVIDIA L4, 23034, 22572, 8.9"
A100 = "0, GPU-4d90, NVIDIA A100-SXM4-80GB, 81920, 81038, 8.0"
H100 = "0, GPU-5511, NVIDIA H100 80GB HBM3, 81559, 81004, 9.0"
H200 = "0, GPU-5e12, NVIDIA H200, 143771, 143155, 9.0"
TWO = "0, GPU-6f34, NVIDIA L4, 23034, 22572, 8.9\n1, GPU-7a56, NVIDIA L4, 23034, 9000, 8.9"

# As the driver counts; CUDA by itself would call the second one 0.
UNEQUAL = "0, GPU-8c10, GeForce GT 1030, 2048, 1950, 6.1\n1, GPU-9d24, RTX 4090, 24564, 24000, 8.9"


def put_smi(monkeypatch: pytest.MonkeyPatch, folder: Path, says: str | None, status: int = 0) -> None:
    """Make ``says`` the answer of the machine's ``nvidia-smi``; None: it has no such program."""
    folder.mkdir(parents=True, exist_ok=True)
    if says is not None:
        (folder / "says").write_text(f"{says}\n")
        program = folder / "nvidia-smi"
        program.write_text(f"#!/bin/sh\n/bin/cat {folder}/says\nexit {status}\n")
        program.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
