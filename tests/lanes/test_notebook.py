"""The notebook in the docs: its cells run, on a lane that is already there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dflash_viz.lanes import Fleet

NOTEBOOK = Path(__file__).resolve().parents[2] / "docs" / "lane.ipynb"


@pytest.mark.engine
def test_the_notebooks_cells_run(fleet: Fleet, capsys: pytest.CaptureFixture[str]) -> None:
    cells = json.loads(NOTEBOOK.read_text())["cells"]
    start, *middle, end = ["".join(c["source"]) for c in cells if c["cell_type"] == "code"]
    for name in ("lane.start()", "lane.wait_ready()", 'load_preset("embedded-cpu")'):
        assert name in start
    assert end == "lane.close()"
    namespace: dict[str, Any] = {"lane": fleet.lanes["dflash"]}
    for cell in middle:
        exec(compile(cell, NOTEBOOK.name, "exec"), namespace)
    printed = capsys.readouterr().out
    assert "step 1: " in printed
    assert "decode speed" in printed
    assert len(namespace["steps"]) > 2
