"""The NVIDIA GPUs that an engine would see, told by the driver's own program.

The app holds no CUDA context: it would take memory from the engines, and it has no torch to ask with.
"""

from __future__ import annotations

import csv
import os
import subprocess
from collections.abc import Sequence

import msgspec

QUERY = [
    "nvidia-smi",
    "--query-gpu=index,uuid,name,memory.total,memory.free,compute_cap",
    "--format=csv,noheader,nounits",
]
TIMEOUT_S = 30.0
"""Without persistence mode the driver wakes every GPU first, which takes seconds."""
CHOICE = "CUDA_VISIBLE_DEVICES"
_MIB = 2**20


class Gpu(msgspec.Struct, frozen=True):
    """One GPU: ``total`` and ``free`` are bytes, ``capability`` is CUDA's compute capability."""

    name: str
    total: int
    free: int
    capability: tuple[int, int]


def visible_gpus(chosen: str | None = None) -> list[Gpu]:
    """The GPUs in the order in which an engine numbers them; none where nobody can tell.

    ``chosen`` is the ``CUDA_VISIBLE_DEVICES`` to obey, by default this process's own. A part of a GPU
    (MIG) is nothing that the driver tells the memory of: it and what follows it are left out.
    """
    chosen = os.environ.get(CHOICE) if chosen is None else chosen
    try:
        found = [_read(row) for row in csv.reader(_told(), skipinitialspace=True) if row]
    except (OSError, ValueError, subprocess.SubprocessError):
        return []
    return [gpu for _, _, gpu in found] if chosen is None else _chosen(found, chosen)


def _told() -> Sequence[str]:
    """Raises ``OSError`` without NVIDIA's driver, ``SubprocessError`` where it answers nothing useful."""
    answer = subprocess.run(
        QUERY, capture_output=True, text=True, errors="replace", timeout=TIMEOUT_S, check=True
    )
    return answer.stdout.splitlines()


def _read(row: list[str]) -> tuple[str, str, Gpu]:
    """Index, UUID and GPU. Raises ``ValueError`` for a line of another form."""
    index, uuid, name, total, free, capability = row
    major, minor = capability.split(".")
    return index, uuid, Gpu(name, int(total) * _MIB, int(free) * _MIB, (int(major), int(minor)))


def _chosen(found: Sequence[tuple[str, str, Gpu]], chosen: str) -> list[Gpu]:
    """As CUDA reads the variable: indices or beginnings of UUIDs, up to the first that there is not."""
    gpus: list[Gpu] = []
    for name in (part.strip() for part in chosen.split(",")):
        fits = [
            gpu
            for index, uuid, gpu in found
            if name == index or (name[:4] == "GPU-" and uuid.startswith(name))
        ]
        if len(fits) != 1:
            break
        gpus += fits
    return gpus
