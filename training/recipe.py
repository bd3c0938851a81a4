"""Everything that decides how a drafter is trained."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Recipe:
    """One training; the defaults are DFlash's."""

    method: str = "dflash"
    layers: int = 5
    block_size: int = 8
    target_layer_ids: tuple[int, ...] = (1, 8, 15, 22, 28)
    mask_token_id: int = 16
    draft_vocab: int = 8192
    sequences: int = 32
    anchors: int = 192
    gamma: float = 4.0
    soft: float = 0.5
    shortened: float = 0.25
    matrix_lr: float = 3e-3
    vector_lr: float = 1e-3
    warmup: float = 0.03
    clip: float = 1.0
    seconds: float = 970.0
    steps: int = 1_000_000
    held_out: int = 256
    seed: int = 0


RECIPES = {
    "dflash": Recipe(),
    "eagle3": Recipe(method="eagle3", layers=1, shortened=0.0),
}
"""What each method starts from; options of the command line replace single values."""

OPTIONS = {
    "layers": "--layers",
    "block_size": "--block-size",
    "gamma": "--gamma",
    "soft": "--soft",
    "anchors": "--anchors",
    "matrix_lr": "--matrix-lr",
    "seconds": "--train-seconds",
}
"""Options of the command line that replace fields of a recipe."""
