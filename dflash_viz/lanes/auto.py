"""``--preset auto``: the largest pair that this machine has room for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from dflash_viz.lanes.device import check_device
from dflash_viz.lanes.dtype import is_cpu_build
from dflash_viz.lanes.errors import LaneError
from dflash_viz.lanes.gpus import Gpu, visible_gpus
from dflash_viz.lanes.options import cache_bytes
from dflash_viz.lanes.ram import free_ram
from dflash_viz.lanes.room import PINNED, SPARE
from dflash_viz.lanes.spec import LaneSpec, load_preset

AUTO = "auto"
"""What stands in the place of a preset's name."""
BY_SIZE = ("qwen3-8b", "qwen3-4b", "embedded-cuda")
"""What it chooses from, the largest first. Not Llama-3.1-8B, which the Hub gives to those alone who agree to
its licence, and not Qwen3.5-4B, which takes more than Qwen3-4B and has no published acceptance."""
ON_CPU = "embedded-cpu"
ASLEEP_GB = 1.2
"""What an engine that sleeps keeps of the GPU, as measured on an H200."""


class Choice(NamedTuple):
    """A preset's name, and why it was chosen, in one or two sentences."""

    preset: str
    why: str


def choose_preset() -> Choice:
    """The preset to run on this machine as it is now."""
    if is_cpu_build():
        return Choice(ON_CPU, "The vLLM that is installed is the one for CPUs.")
    if not (gpus := visible_gpus()):
        return Choice(ON_CPU, "There is no NVIDIA GPU that its driver tells of.")
    return choose_for(gpus, free_ram())


def choose_for(gpus: Sequence[Gpu], main_memory: int) -> Choice:
    """The largest pair of which each lane can be awake alone on the first of these GPUs, while the others'
    weights wait in ``main_memory`` (bytes) where there is no room for all."""
    reasons = []
    for name in BY_SIZE:
        lanes = load_preset(name).lanes
        if why_not := _misfit(lanes, gpus[:1], main_memory):
            reasons.append(f"Not {name}: {why_not}")
            continue
        largest = max(lane.memory_gb for lane in lanes)
        free = f"{gpus[0].name} has {gpus[0].free / 1e9:.1f} GB free, an engine takes up to {largest:.1f} GB."
        return Choice(name, " ".join([free, *reasons[-1:]]))
    advice = "For its engines on the CPU install vLLM's build for CPUs (make install)."
    return Choice(ON_CPU, f"{reasons[-1]} {advice}")


def _misfit(lanes: Sequence[LaneSpec], gpus: Sequence[Gpu], main_memory: int) -> str:
    """Why a preset has no room, or cannot run; empty where it can."""
    try:
        for lane in lanes:
            check_device(lane, gpus, asleep_gb=ASLEEP_GB * (len(lanes) - 1))
    except LaneError as error:
        return f"{str(error).partition('. ')[0]}."  # what follows says what to do
    # What is neither cache nor stays on the GPU waits in main memory; between two turns that of all lanes.
    waiting = PINNED * sum((lane.memory_gb - ASLEEP_GB) * 1e9 - cache_bytes(lane) for lane in lanes)
    together = sum(lane.memory_gb for lane in lanes) * 1e9 <= (1 - SPARE) * gpus[0].free
    if not together and waiting > main_memory:
        return (
            "one engine would be awake at a time, and the weights of those that sleep need "
            f"{waiting / 1e9:.0f} GB of main memory, where {main_memory / 1e9:.0f} GB are available."
        )
    return ""
