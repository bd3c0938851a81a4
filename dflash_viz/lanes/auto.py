"""``--preset auto``: the largest pair that this machine has room for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from dflash_viz.lanes.device import check_device
from dflash_viz.lanes.dtype import is_cpu_build
from dflash_viz.lanes.errors import LaneError
from dflash_viz.lanes.gpus import CHOICE, INSTALL, Gpu, visible_gpus
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
OTHERWISE = (
    "Free the GPU or name a preset of your own that fits; for engines on the CPU install vLLM's build for "
    "CPUs (make install); --no-engine shows recorded runs."
)


class Choice(NamedTuple):
    """A preset's name, and why it was chosen, in one or two sentences."""

    preset: str
    why: str


def choose_preset() -> Choice:
    """The preset to run on this machine as it is now.

    Raises ``LaneError`` where vLLM's CUDA build is installed and no pair has room on the GPU.
    """
    gpus = visible_gpus()
    if is_cpu_build():
        unused = f", and leaves {gpus[0].name} unused: {INSTALL}" if gpus else "."
        return Choice(ON_CPU, f"The vLLM that is installed is the one for CPUs{unused}")
    if not gpus:
        return Choice(ON_CPU, "There is no NVIDIA GPU, or none whose memory its driver tells.")
    return choose_for(gpus, free_ram())


def choose_for(gpus: Sequence[Gpu], main_memory: int) -> Choice:
    """The largest pair of which each lane can be awake alone on the first of these GPUs, while the others'
    weights wait in ``main_memory`` (bytes) where there is no room for all.

    Raises ``LaneError`` where there is none: engines meant for the CPU would start on the GPU, too.
    """
    places = [_largest(gpu, main_memory) for gpu in gpus]
    (place, why), best = places[0], min(place for place, _ in places)
    if best < place:
        gpu = next(gpu for gpu, (there, _) in zip(gpus, places, strict=True) if there == best)
        why += f" {gpu.name} has room for {BY_SIZE[best]}: {CHOICE}={gpu.index}, set for the app, takes it."
    if place == len(BY_SIZE):
        raise LaneError(f"--preset auto finds no pair for this GPU. {why} {OTHERWISE}")
    return Choice(BY_SIZE[place], why)


def _largest(gpu: Gpu, main_memory: int) -> tuple[int, str]:
    """The place in ``BY_SIZE`` of the first pair with room on a GPU, its length where none has, and why."""
    reasons: list[str] = []
    for place, name in enumerate(BY_SIZE):
        lanes = load_preset(name).lanes
        if why_not := _misfit(lanes, gpu, main_memory):
            reasons.append(f"Not {name}: {why_not}")
            continue
        largest = max(lane.memory_gb for lane in lanes)
        free = f"{gpu.name} has {gpu.free / 1e9:.1f} GB free, an engine takes up to {largest:.1f} GB."
        return place, " ".join([free, *reasons[-1:]])
    return len(BY_SIZE), reasons[-1]


def _misfit(lanes: Sequence[LaneSpec], gpu: Gpu, main_memory: int) -> str:
    """Why a preset has no room, or cannot run; empty where it can."""
    try:
        for lane in lanes:
            check_device(lane, [gpu], asleep_gb=ASLEEP_GB * (len(lanes) - 1))
    except LaneError as error:
        return f"{str(error).partition('. ')[0].removesuffix('.')}."  # what follows says what to do
    # What is neither cache nor stays on the GPU waits in main memory; between two turns that of all lanes.
    waiting = PINNED * sum((lane.memory_gb - ASLEEP_GB) * 1e9 - cache_bytes(lane) for lane in lanes)
    together = sum(lane.memory_gb for lane in lanes) * 1e9 <= (1 - SPARE) * gpu.free
    if not together and waiting > main_memory:
        return (
            "one engine would be awake at a time, and the weights of those that sleep need "
            f"{waiting / 1e9:.0f} GB of main memory, where {main_memory / 1e9:.0f} GB are available. "
            "A copy of the preset with fewer lanes needs less."
        )
    return ""
