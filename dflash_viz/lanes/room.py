"""Whether the engines of a preset have room beside each other on their GPU."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from dflash_viz.lanes.device import engine_gpus, num_gpus
from dflash_viz.lanes.gpus import CHOICE, Gpu
from dflash_viz.lanes.spec import LaneSpec

# The share of the free memory that stays free: engines take a little more while they start.
SPARE = 0.05
# How much more than their size weights take of the machine's memory while their engine sleeps: pinned memory
# comes in powers of two.
PINNED = 1.5


class Room(msgspec.Struct, frozen=True):
    """``one_awake``: one engine has the GPU at a time while the others sleep; ``why`` says so in a line."""

    one_awake: bool = False
    why: str = ""


def find_room(specs: Sequence[LaneSpec]) -> Room:
    """Compare what the lanes take with what is free now, before any has started.

    A lane that does not say what it takes counts as fitting, and so does everything where engines run on
    the CPU.
    """
    if len(specs) < 2 or not any(spec.memory_gb for spec in specs):
        return Room()
    visible = {choice: engine_gpus(spec) for choice, spec in {_choice(spec): spec for spec in specs}.items()}
    by_gpu: dict[int, list[LaneSpec]] = {}
    for spec in specs:
        for gpu in visible[_choice(spec)][:1]:
            by_gpu.setdefault(gpu.index, []).append(spec)
    for sharing in by_gpu.values():
        gpus = visible[_choice(sharing[0])]
        needed, usable = sum(spec.memory_gb for spec in sharing), (1 - SPARE) * gpus[0].free / 1e9
        if len(sharing) > 1 and needed > usable:
            return Room(True, _why(sharing, needed, usable, gpus))
    return Room()


def _choice(spec: LaneSpec) -> str | None:
    return spec.environment.get(CHOICE)


def _why(sharing: Sequence[LaneSpec], needed: float, usable: float, gpus: Sequence[Gpu]) -> str:
    told = (
        f"One engine awake at a time: {len(sharing)} engines need {needed:.0f} GB of GPU memory, "
        f"{usable:.0f} GB are free for them."
    )
    if len(gpus) == 1 or any(num_gpus(spec) > 1 for spec in sharing):
        return told
    return (
        f"{told} All take the first of {len(gpus)} GPUs: a lane with environment: "
        f'{{{CHOICE}: "{gpus[1].index}"}} in the preset takes another.'
    )
