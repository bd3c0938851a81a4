"""The NVIDIA GPUs that an engine would see, told by the driver's own program.

The app holds no CUDA context: it would take memory from the engines, and it has no torch to ask with.
"""

from __future__ import annotations

import csv
import itertools
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

import msgspec

QUERY = [
    "nvidia-smi",
    "--query-gpu=index,uuid,name,memory.total,memory.free,compute_cap",
    "--format=csv,noheader,nounits",
]
TIMEOUT_S = 30.0
"""Without persistence mode the driver wakes every GPU first, which takes seconds."""
CHOICE = "CUDA_VISIBLE_DEVICES"
ORDER = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
"""What an engine's environment needs, so that both mean the same GPU by a number: the driver's program counts
along the PCI bus, CUDA by itself from the fastest on."""
INSTALL = 'see "An engine on a GPU" in the README.'
"""How one gets a vLLM that uses them."""
NODES = ("/dev/nvidiactl", "/dev/dxg", "/dev/kfd", "/dev/dri")
"""What is there where a driver is, NVIDIA's or another maker's."""
_MIB = 2**20


class Gpu(msgspec.Struct, frozen=True):
    """One GPU: ``total`` and ``free`` are bytes, ``capability`` is CUDA's compute capability, ``index`` its
    number for ``CUDA_VISIBLE_DEVICES``."""

    name: str
    total: int
    free: int
    capability: tuple[int, int]
    index: int = 0


def visible_gpus(chosen: str | None = None) -> list[Gpu]:
    """The GPUs in the order in which an engine (with ``ORDER``) numbers them; none where nobody can tell.

    ``chosen`` is the ``CUDA_VISIBLE_DEVICES`` to obey, by default this process's own. Some GPUs the driver
    tells no memory of, such as a part of one (MIG) or one that shares the machine's: such a one and what
    follows it are left out.
    """
    chosen = os.environ.get(CHOICE) if chosen is None else chosen
    try:
        found = [_read(row) for row in csv.reader(_told(), skipinitialspace=True) if row]
    except (OSError, ValueError, subprocess.SubprocessError):
        return []
    gpus = [gpu for _, _, gpu in found] if chosen is None else _chosen(found, chosen)
    return [gpu for gpu in itertools.takewhile(bool, gpus) if gpu]


def may_have_gpu() -> bool:
    """Whether there may be a GPU here, even one that nobody tells of."""
    return any(Path(node).exists() for node in NODES)


def _told() -> Sequence[str]:
    """Raises ``OSError`` without NVIDIA's driver, ``SubprocessError`` where it answers nothing useful."""
    answer = subprocess.run(
        QUERY, capture_output=True, text=True, errors="replace", timeout=TIMEOUT_S, check=True
    )
    return answer.stdout.splitlines()


def _read(row: list[str]) -> tuple[str, str, Gpu | None]:
    """Index, UUID and GPU, None where something of it is not told ("[N/A]"). Raises ``ValueError`` for a line
    of another form."""
    index, uuid, name, total, free, capability = row
    if any(told.startswith("[") for told in (total, free, capability)):
        return index, uuid, None
    major, minor = capability.split(".")
    gpu = Gpu(name, int(total) * _MIB, int(free) * _MIB, (int(major), int(minor)), int(index))
    return index, uuid, gpu


def _chosen(found: Sequence[tuple[str, str, Gpu | None]], chosen: str) -> list[Gpu | None]:
    """As CUDA reads the variable: indices or beginnings of UUIDs, up to the first that there is not."""
    gpus: list[Gpu | None] = []
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
