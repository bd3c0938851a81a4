"""What ``--preset auto`` chooses, machine by machine."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dflash_viz.lanes import auto, load_preset
from dflash_viz.lanes.auto import BY_SIZE, ON_CPU, Choice, choose_for, choose_preset
from dflash_viz.lanes.gpus import Gpu
from dflash_viz.lanes.spec import preset_names
from tests.lanes import smi

GB = 10**9


def chosen(monkeypatch: pytest.MonkeyPatch, folder: Path, says: str | None, main_gb: int = 200) -> Choice:
    smi.put_smi(monkeypatch, folder, says)
    monkeypatch.setattr(auto, "is_cpu_build", lambda: False)
    monkeypatch.setattr(auto, "free_ram", lambda: main_gb * GB)
    return choose_preset()


@pytest.mark.parametrize(
    ("says", "preset", "why"),
    [
        (None, ON_CPU, "no NVIDIA GPU"),
        ("garbage", ON_CPU, "no NVIDIA GPU"),
        (smi.T4, ON_CPU, r"^Not embedded-cuda: .* bfloat16, .* Tesla T4 .* it\. For .*\(make install\)\.$"),
        (smi.A10G, "qwen3-4b", r"A10G has 23\.6 GB free, .* up to 17\.3 GB\. Not qwen3-8b: .* 33\.7 GB"),
        (smi.L4, "qwen3-4b", r"L4 has 23\.7 GB free"),
        (smi.A100, "qwen3-8b", r"A100-SXM4-80GB has 85\.0 GB free, an engine takes up to 33\.7 GB\.$"),
        (smi.H100, "qwen3-8b", "H100"),
        (smi.H200, "qwen3-8b", "H200"),
        (smi.TWO, "qwen3-4b", "L4"),
    ],
    ids=["none", "garbage", "T4", "A10G", "L4", "A100", "H100", "H200", "two"],
)  # fmt: skip
def test_machines(
    says: str | None, preset: str, why: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    choice = chosen(monkeypatch, tmp_path, says)
    assert choice.preset == preset
    assert re.search(why, choice.why)


def test_the_build_decides_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    smi.put_smi(monkeypatch, tmp_path, smi.H200)
    monkeypatch.setattr(auto, "is_cpu_build", lambda: True)
    assert choose_preset() == (ON_CPU, "The vLLM that is installed is the one for CPUs.")


def test_what_is_visible_counts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    smi.put_smi(monkeypatch, tmp_path, smi.TWO)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    monkeypatch.setattr(auto, "is_cpu_build", lambda: False)
    choice = choose_preset()
    assert choice.preset == "embedded-cuda"
    assert "has 9.4 GB free" in choice.why


def gpu(free_gb: float, total_gb: float = 80, capability: tuple[int, int] = (8, 0)) -> Gpu:
    return Gpu("made", int(total_gb * GB), int(free_gb * GB), capability)


@pytest.mark.parametrize(
    ("free", "preset"),
    [
        (33.7 + 3.6 + 0.1, "qwen3-8b"),
        (33.7 + 3.6 - 0.1, "qwen3-4b"),
        (17.3 + 3.6 - 0.1, "embedded-cuda"),
        (3.5 + 3.6 - 0.1, ON_CPU),
    ],
)
def test_sleeping_engines_keep_some(free: float, preset: str) -> None:
    assert choose_for([gpu(free, free)], 200 * GB).preset == preset


def test_weights_that_wait_need_main_memory() -> None:
    assert choose_for([gpu(80)], 110 * GB).preset == "qwen3-8b"
    small = choose_for([gpu(80)], 100 * GB)
    assert small.preset == "qwen3-4b"
    assert (
        "the weights of those that sleep need 108 GB of main memory, where 100 GB are available." in small.why
    )
    assert choose_for([gpu(24, 24)], 20 * GB).preset == "embedded-cuda"
    assert choose_for([gpu(150, 150)], GB).preset == "qwen3-8b", "all four stay awake"


def test_the_order_is_by_what_they_take() -> None:
    sizes = [max(lane.memory_gb for lane in load_preset(name).lanes) for name in BY_SIZE]
    assert sizes == sorted(sizes, reverse=True)
    assert {*BY_SIZE, ON_CPU} <= set(preset_names())
    assert auto.AUTO not in preset_names()
