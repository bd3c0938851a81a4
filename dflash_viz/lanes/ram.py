"""How much of this machine's memory is left, or of the container's that the app runs in."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psutil

CGROUP = Path("/sys/fs/cgroup")
# Where Linux tells a container's limit and what it uses (version 2, and 1): limit, used, and what of that
# is pages of files, which go when memory is wanted.
_FILES = (
    ("memory.max", "memory.current", "memory.stat", ("inactive_file", "active_file")),
    (
        "memory/memory.limit_in_bytes",
        "memory/memory.usage_in_bytes",
        "memory/memory.stat",
        ("total_inactive_file", "total_active_file"),
    ),
)


def free_ram() -> int:
    """Bytes that programs can still have."""
    return min([psutil.virtual_memory().available, *_left_in_container()])


def _left_in_container() -> Iterator[int]:
    """What the container's limit leaves; nothing where there is none, or nobody tells."""
    for limit, used, stat, pages in _FILES:
        try:
            told = dict(line.split() for line in (CGROUP / stat).read_text().splitlines())
            files = sum(int(told[name]) for name in pages)
            yield int((CGROUP / limit).read_text()) - int((CGROUP / used).read_text()) + files
        except (OSError, ValueError, KeyError):  # "max": no limit
            continue
