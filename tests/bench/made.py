"""Hand-made files of questions, and what is said of bad ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dflash_viz.bench.datasets import DatasetError, load_dataset


def written(path: Path, *rows: object) -> Path:
    """A file of one JSON document a line; text is written as it is."""
    lines = [row if isinstance(row, str) else json.dumps(row) for row in rows]
    path.write_text("".join(line + "\n" for line in lines))
    return path


def fault(name: str, path: Path | None = None, **more: Any) -> str:
    """What is said when it cannot be loaded."""
    with pytest.raises(DatasetError) as caught:
        load_dataset(name, path, **more)
    return str(caught.value)
