"""Spacefiles for tests: the repository's own with some fields changed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from dflash_viz.weights.resolver import ROOT

VIEWER = {"kind": "viewer", "sdk": "gradio"}
GPU = {"hardware": "a100-large", "python_version": "3.12"}


def fields(**changes: Any) -> dict[str, Any]:
    """The fields of the repository's Spacefile; a change to None leaves the field out."""
    made = {**yaml.safe_load((ROOT / "Spacefile").read_text()), **changes}
    return {name: value for name, value in made.items() if value is not None}


def spacefile(folder: Path, **changes: Any) -> Path:
    """Write a Spacefile with some changes; its path."""
    path = folder / "Spacefile"
    path.write_text(yaml.safe_dump(fields(**changes), allow_unicode=True, sort_keys=False))
    return path
