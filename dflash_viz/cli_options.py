"""The command line's options, and what their help says."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from dflash_viz.bench.datasets import NAMES
from dflash_viz.lanes import LaneError, load_preset
from dflash_viz.lanes.auto import AUTO
from dflash_viz.lanes.spec import PRESETS
from dflash_viz.metrics.measured.expectations import EXPECTATIONS

DEFAULT_PRESET = "embedded-cpu"


class TurnChoice(StrEnum):
    """Which turns of a conversation are asked."""

    FIRST = "first"
    BOTH = "both"


def _shipped(folder: Path, pattern: str) -> str:
    """The names of the files that ship in a folder."""
    return ", ".join(sorted(path.stem for path in folder.glob(pattern)))


def named(preset: str) -> str:
    """A preset's name for a measurement. Raises ``LaneError`` for ``auto``, another one on each machine."""
    if preset == AUTO:
        raise LaneError(
            f"--preset {AUTO} is for the app alone; a measurement names its pair. "
            f"'python app.py --preset {AUTO}' says which one this machine has room for."
        )
    return preset


LANES = ", ".join(lane.name for lane in load_preset(DEFAULT_PRESET).lanes)
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document for machines.")]
DatasetName = Annotated[str, typer.Argument(help=f"One of {', '.join(NAMES)}, or a JSONL file.")]
Data = Annotated[
    Path | None, typer.Option("--data", help="A JSONL file, or a folder with it, instead of the hub.")
]
Limit = Annotated[int | None, typer.Option(help="How many questions (as the DFlash benchmark chooses them).")]
TurnsAsked = Annotated[TurnChoice, typer.Option(help="Of conversations: the first turn, or both.")]
Out = Annotated[
    Path | None, typer.Option(help="The result's folder; by default a new one in the app's cache.")
]
PresetName = Annotated[
    str,
    typer.Option(
        "--preset", help=f"A path to a preset's YAML file, or one of {_shipped(PRESETS, '*.yaml')}."
    ),
]
Lanes = Annotated[
    str,
    typer.Option(help=f"Lanes, with commas between; empty: all of the preset ({DEFAULT_PRESET}: {LANES})."),
]
SkipBadLines = Annotated[bool, typer.Option("--skip-bad-lines", help="Leave unreadable lines of a file out.")]
PairName = Annotated[
    str, typer.Option(help=f"The pair whose expectations are checked: {_shipped(EXPECTATIONS, '*.json')}.")
]
CheckedDataset = Annotated[
    str, typer.Option(help="The data set whose expectations are checked; empty: the pair's first.")
]
CheckedPreset = Annotated[str, typer.Option(help="The preset with the pair's lanes; empty: the pair's own.")]
ResumedChecks = Annotated[
    list[Path] | None,
    typer.Option(
        "--resume",
        help="Go on with the result in this folder, with the other options as they were; may be repeated.",
    ),
]
Drafter = Annotated[
    str,
    typer.Option(
        help="Another drafter in place of the pair's: a folder or hub id, of the lane --lanes names."
    ),
]
Written = Annotated[
    Path, typer.Option(help="The folder that the files are written into; it is made. No file is replaced.")
]
