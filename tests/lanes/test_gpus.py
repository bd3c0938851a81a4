"""Which GPUs there are, as the driver's program tells it."""

from __future__ import annotations

from pathlib import Path

import pytest

from dflash_viz.lanes.gpus import Gpu, visible_gpus
from tests.lanes import smi

MIB = 2**20


def test_what_the_driver_says(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    smi.put_smi(monkeypatch, tmp_path, smi.A100)
    assert visible_gpus() == [Gpu("NVIDIA A100-SXM4-80GB", 81920 * MIB, 81038 * MIB, (8, 0))]
    smi.put_smi(monkeypatch, tmp_path, smi.TWO)
    assert [(gpu.index, gpu.free) for gpu in visible_gpus()] == [(0, 22572 * MIB), (1, 9000 * MIB)]
    assert [gpu.index for gpu in visible_gpus("1,0")] == [1, 0]


@pytest.mark.parametrize(
    ("chosen", "expected"), [(None, [0]), ("0,2", [0, 2]), ("2,1,0", [2]), ("1", []), ("1,0", [])]
)
def test_one_without_a_memory_of_its_own_hides_those_after_it_alone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, chosen: str | None, expected: list[int]
) -> None:
    smi.put_smi(
        monkeypatch,
        tmp_path,
        f"{smi.L4}\n1, GPU-1, NVIDIA GB10, [N/A], [N/A], 12.1\n2, GPU-2, NVIDIA L4, 23034, 100, 8.9",
    )
    assert [gpu.index for gpu in visible_gpus(chosen)] == expected


@pytest.mark.parametrize(
    ("says", "status"),
    [
        (None, 0),
        ("", 0),
        ("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.", 9),
        (smi.T4, 15),
        ('Field "compute_cap" is not a valid field to query.', 0),
        ("0, GPU-1, NVIDIA GB10, [N/A], [N/A], 12.1", 0),
        (f"{smi.L4}\n\x00\x07, , ,", 0),
    ],
    ids=["no program", "no GPU", "no driver", "status", "old driver", "shared memory", "garbage"],
)
def test_nobody_can_tell(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, says: str | None, status: int
) -> None:
    smi.put_smi(monkeypatch, tmp_path, says, status)
    assert visible_gpus() == []


def test_a_program_that_hangs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    smi.put_smi(monkeypatch, tmp_path, "")
    (tmp_path / "nvidia-smi").write_text("#!/bin/sh\nexec /bin/sleep 60\n")
    monkeypatch.setattr("dflash_viz.lanes.gpus.TIMEOUT_S", 0.05)
    assert visible_gpus() == []


@pytest.mark.parametrize(
    ("chosen", "expected"),
    [
        ("", []),
        ("-1", []),
        ("0", [22572]),
        ("1, 0", [9000, 22572]),
        ("1,2,0", [9000]),
        ("GPU-7a", [9000]),
        ("GPU-", []),
        ("MIG-7a56", []),
    ],
)
def test_the_choice_is_obeyed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, chosen: str, expected: list[int]
) -> None:
    smi.put_smi(monkeypatch, tmp_path, smi.TWO)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", chosen)
    assert [gpu.free // MIB for gpu in visible_gpus()] == expected
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    assert [gpu.free // MIB for gpu in visible_gpus(chosen)] == expected
