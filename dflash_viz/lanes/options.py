"""What a lane's options for vLLM's server say, as far as we need to understand them."""

from __future__ import annotations

import re
from typing import Any

from dflash_viz.lanes.spec import LaneSpec

_UNITS = {"": 1, "k": 10**3, "K": 2**10, "m": 10**6, "M": 2**20, "g": 10**9, "G": 2**30}


def option(spec: LaneSpec, name: str, default: Any = None) -> Any:
    """A server option's value; vLLM takes its name with dashes or underscores, and None is not passed on."""
    told = spec.engine.get(name, spec.engine.get(name.replace("-", "_")))
    return default if told is None else told


def whole(spec: LaneSpec, name: str, default: int) -> int | None:
    """A server option that is a whole number; None for what is none, which is for vLLM to refuse."""
    text = str(option(spec, name, default))
    return int(text) if text.isdecimal() else None


def size_bytes(size: object) -> float | None:
    """A size as vLLM's options give it: bytes, or a number with k, m, g (decimal) or K, M, G (binary);
    None for what is none."""
    parts = re.fullmatch(r"(\d+(?:\.\d+)?)([kKmMgG]?)", str(size))
    return float(parts[1]) * _UNITS[parts[2]] if parts else None


def cache_bytes(spec: LaneSpec) -> float:
    """The size that its KV cache is given; 0 where vLLM chooses it."""
    return size_bytes(option(spec, "kv-cache-memory-bytes")) or 0.0
