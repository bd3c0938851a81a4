"""The one command, on a tiny target of the shipped depth."""

from __future__ import annotations

import dataclasses
import json
import sys
from pathlib import Path

import pytest

from training import run
from training.recipe import RECIPES


@pytest.mark.parametrize(
    ("method", "options", "said"),
    [
        ("dflash", "--layers 1", "DFlash drafter (arXiv:2602.06036) of block size 8"),
        ("eagle3", "--method eagle3", "EAGLE-3 head"),
    ],
)
def test_one_command_writes_a_drafter_with_its_card(
    method: str, options: str, said: str, target_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The recipes hold 256 sequences out, and writing them would take most of the time.
    monkeypatch.setitem(RECIPES, method, dataclasses.replace(RECIPES[method], held_out=8))
    out = tmp_path / "drafter"
    options += f" --target {target_folder} --out {out} --device cpu --rows 24 --columns 160"
    options += " --generate-seconds 0 --anchors 16 --train-seconds 0.5"
    monkeypatch.setattr(sys, "argv", ["training.run", *options.split()])
    run.main()
    recorded = json.loads((out / "training.json").read_text())
    assert recorded["sequences"] == 16
    assert recorded["recipe"]["held_out"] == 8
    assert (out / "model.safetensors.index.json").is_file()
    assert said in (out / "README.md").read_text()
