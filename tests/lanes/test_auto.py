"""What ``--preset auto`` chooses, machine by machine."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dflash_viz.lanes import LaneError, auto, load_preset
from dflash_viz.lanes.auto import BY_SIZE, ON_CPU, Choice, choose_for, choose_preset
from dflash_viz.lanes.gpus import INSTALL, Gpu
from dflash_viz.lanes.spec import preset_names
from dflash_viz.weights.resolver import ROOT
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
        (smi.A10G, "qwen3-4b", r"A10G has 23\.6 GB free, .* up to 17\.3 GB\. Not qwen3-8b: .* 33\.7 GB"),
        (smi.L4, "qwen3-4b", r"L4 has 23\.7 GB free"),
        (smi.A100, "qwen3-8b", r"A100-SXM4-80GB has 85\.0 GB free, an engine takes up to 33\.7 GB\.$"),
        (smi.H100, "qwen3-8b", "H100"),
        (smi.H200, "qwen3-8b", "H200"),
        (smi.TWO, "qwen3-4b", "L4"),
    ],
    ids=["none", "garbage", "A10G", "L4", "A100", "H100", "H200", "two"],
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
    assert choose_preset() == (
        ON_CPU,
        "The vLLM that is installed is the one for CPUs, and leaves NVIDIA H200 unused: see "
        '"An engine on a GPU" in the README.',
    )
    smi.put_smi(monkeypatch, tmp_path / "without", None)
    assert choose_preset() == (ON_CPU, "The vLLM that is installed is the one for CPUs.")


def test_the_readme_has_what_messages_point_to() -> None:
    assert "\n### An engine on a GPU\n" in (ROOT / "README.md").read_text()
    assert '"An engine on a GPU" in the README' in INSTALL


@pytest.mark.parametrize(
    ("says", "words"),
    [
        (smi.T4, r"pair for this GPU\. Not embedded-cuda: .* bfloat16, .* it\. Free .*make install"),
        (smi.UNEQUAL.splitlines()[0], r"7\.5: use .* --preset embedded-cpu\. Free the GPU"),
        (smi.UNEQUAL, r"embedded-cpu\. RTX 4090 has room for qwen3-4b: CUDA_VISIBLE_DEVICES=1, .*\. Free"),
    ],
    ids=["T4", "GT 1030", "unequal"],
)  # fmt: skip
def test_engines_for_the_cpu_are_not_put_on_a_gpu(
    says: str, words: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with pytest.raises(LaneError, match=words):
        chosen(monkeypatch, tmp_path, says)


def test_another_gpu_with_more_room_is_named() -> None:
    unequal = [gpu(24, 24), gpu(22, 24), gpu(60, index=5), gpu(80, index=6)]
    assert choose_for(unequal, 200 * GB).why.endswith(
        "made has room for qwen3-8b: CUDA_VISIBLE_DEVICES=5, set for the app, takes it."
    )
    assert "CUDA_VISIBLE_DEVICES" not in choose_for(unequal[:2], 200 * GB).why
    assert "CUDA_VISIBLE_DEVICES" not in choose_for([*unequal[2:], *unequal], 200 * GB).why


def test_what_is_visible_counts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    smi.put_smi(monkeypatch, tmp_path, smi.TWO)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    monkeypatch.setattr(auto, "is_cpu_build", lambda: False)
    choice = choose_preset()
    assert choice.preset == "embedded-cuda"
    assert "has 9.4 GB free" in choice.why


def gpu(free_gb: float, total_gb: float = 80, index: int = 0) -> Gpu:
    return Gpu("made", int(total_gb * GB), int(free_gb * GB), (8, 0), index)


@pytest.mark.parametrize(
    ("free", "preset"),
    [
        (33.7 + 3.6 + 0.1, "qwen3-8b"),
        (33.7 + 3.6 - 0.1, "qwen3-4b"),
        (17.3 + 3.6 - 0.1, "embedded-cuda"),
        (3.5 + 3.6 + 0.1, "embedded-cuda"),
    ],
)
def test_sleeping_engines_keep_some(free: float, preset: str) -> None:
    assert choose_for([gpu(free, free)], 200 * GB).preset == preset


def test_nothing_fits_beside_sleeping_engines() -> None:
    with pytest.raises(LaneError, match=r"3\.6 GB for engines that sleep beside it"):
        choose_for([gpu(3.5 + 3.6 - 0.1)], 200 * GB)


def test_weights_that_wait_need_main_memory() -> None:
    assert choose_for([gpu(80)], 110 * GB).preset == "qwen3-8b"
    small = choose_for([gpu(80)], 100 * GB)
    assert small.preset == "qwen3-4b"
    assert (
        "the weights of those that sleep need 108 GB of main memory, where 100 GB are available." in small.why
    )
    smaller = choose_for([gpu(24, 24)], 32 * GB)
    assert smaller.preset == "embedded-cuda"
    assert "A copy of the preset with fewer lanes needs less." in smaller.why
    assert choose_for([gpu(150, 150)], GB).preset == "qwen3-8b", "all four stay awake"


def test_the_order_is_by_what_they_take() -> None:
    sizes = [max(lane.memory_gb for lane in load_preset(name).lanes) for name in BY_SIZE]
    assert sizes == sorted(sizes, reverse=True)
    assert {*BY_SIZE, ON_CPU} <= set(preset_names())
    assert auto.AUTO not in preset_names()
