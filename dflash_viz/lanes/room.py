"""Whether the engines of a preset have room beside each other on their GPU."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from dflash_viz.lanes.device import engine_gpus
from dflash_viz.lanes.gpus import CHOICE
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
    by_gpu: dict[str | None, list[LaneSpec]] = {}
    for spec in specs:
        by_gpu.setdefault(spec.environment.get(CHOICE), []).append(spec)
    for sharing in by_gpu.values():
        needed = sum(spec.memory_gb for spec in sharing)
        if len(sharing) > 1 and needed and (gpus := engine_gpus(sharing[0])):
            usable = (1 - SPARE) * gpus[0].free / 1e9
            if needed > usable:
                return Room(True, _why(len(sharing), needed, usable))
    return Room()


def _why(count: int, needed: float, usable: float) -> str:
    return (
        f"One engine awake at a time: {count} engines need {needed:.0f} GB of GPU memory, "
        f"{usable:.0f} GB are free for them."
    )
