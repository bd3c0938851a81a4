"""What the command line's tests share: they run it in this process and start no engine."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from dflash_viz import cli
from dflash_viz.lanes import LaneSpec
from dflash_viz.weights.resolver import ROOT

GALLERY = ROOT / "assets" / "recorded" / "gallery"
Shown = pytest.CaptureFixture[str]


def no_engine(spec: LaneSpec, *_: object) -> None:
    raise AssertionError(f"the engine of {spec.name!r} was started")


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every test works in a folder and with a cache of its own, and without engines whatever is broken."""
    monkeypatch.setattr("dflash_viz.lanes.lane.EngineServer", no_engine)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DFLASH_VIZ_CACHE", str(tmp_path / "cache"))


def run(monkeypatch: pytest.MonkeyPatch, *arguments: object) -> int:
    """Run the command line in this process; its exit status."""
    monkeypatch.setattr(sys, "argv", ["dflash_viz", *map(str, arguments)])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    code = ended.value.code
    assert isinstance(code, int)
    return code


def never(job: Any) -> bool:
    """In place of what runs a benchmark: none of these orders may come so far."""
    raise AssertionError(f"a benchmark of {job.total} answers began")
