"""The drafting methods by vLLM's names."""

from __future__ import annotations

import json
from pathlib import Path

from training.dflash import DFlashDrafter
from training.drafter import Drafter
from training.eagle3 import Eagle3Drafter

METHODS: dict[str, type[Drafter]] = {"dflash": DFlashDrafter, "eagle3": Eagle3Drafter}


def method_of(folder: Path) -> str:
    """Method of an exported drafter."""
    (architecture,) = json.loads((folder / "config.json").read_text())["architectures"]
    return next(name for name, kind in METHODS.items() if kind.architecture == architecture)
