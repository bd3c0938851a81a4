"""What can be told of a lane before its engine starts: whether drafter and target fit each other.

vLLM finds most of this too, a minute later and as a stack trace.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from dflash_viz.lanes.errors import LaneError
from dflash_viz.lanes.spec import LaneSpec

# Methods whose drafter is a checkpoint of its own (vLLM's config/speculative.py).
NEEDS_DRAFTER = ("dflash", "eagle", "eagle3", "medusa", "mlp_speculator", "draft_model")
# Methods whose drafter reads the target's hidden states and shares its embedding.
READS_TARGET = ("dflash", "eagle", "eagle3")


def check_spec(spec: LaneSpec) -> None:
    """Raise ``LaneError`` for a lane that cannot run whatever its models are."""
    if spec.method == "none":
        return
    if spec.num_speculative_tokens < 1:
        raise LaneError(
            f"Lane {spec.name!r} drafts {spec.num_speculative_tokens} tokens a step: set "
            "num_speculative_tokens (K) to 1 or more in the preset."
        )
    if spec.method in NEEDS_DRAFTER and spec.drafter is None:
        raise LaneError(f"Lane {spec.name!r} has no drafter: name one in the preset (drafter: ...).")


def check_pair(spec: LaneSpec, target: Path, drafter: Path | None) -> None:
    """Raise ``LaneError`` when the drafter was not made for this target, or K is over its block.

    ``target`` and ``drafter`` are folders with a ``config.json``.
    """
    if drafter is None:
        return
    theirs, ours = _config(target), _config(drafter)
    _same(spec, "vocabulary", "vocab_size", theirs, ours)
    if spec.method in READS_TARGET:
        _same(spec, "hidden size", _hidden_key(ours), theirs, ours)
        _layers(spec, theirs, ours)
    _block(spec, ours)


def _config(folder: Path) -> dict[str, Any]:
    try:
        raw = json.loads((folder / "config.json").read_text())
    except (OSError, ValueError) as error:
        raise LaneError(
            f"{folder.name} is no model folder: its config.json cannot be read ({error})."
        ) from None
    # A target that also sees pictures keeps its language model's numbers apart.
    return {**raw, **raw.get("text_config", {})}


def _hidden_key(drafter: dict[str, Any]) -> str:
    return "target_hidden_size" if "target_hidden_size" in drafter else "hidden_size"


def _same(spec: LaneSpec, what: str, key: str, target: dict[str, Any], drafter: dict[str, Any]) -> None:
    wanted, found = target.get(key.removeprefix("target_")), drafter.get(key)
    if wanted is not None and found is not None and wanted != found:
        raise LaneError(
            f"The drafter of lane {spec.name!r} does not fit the target: its {what} is {found:,}, the "
            f"target's {wanted:,}. A drafter works only with the target it was trained for."
        )


def layer_ids(drafter: dict[str, Any]) -> list[int]:
    """The target layers that a drafter reads, from its configuration; empty when it does not say."""
    for part, key in (
        ("dflash_config", "target_layer_ids"),
        ("eagle_config", "eagle_aux_hidden_state_layer_ids"),
    ):
        if ids := (drafter.get(part) or {}).get(key):
            return list(ids)
    return list(drafter.get("eagle_aux_hidden_state_layer_ids") or [])


def _layers(spec: LaneSpec, target: dict[str, Any], drafter: dict[str, Any]) -> None:
    count, ids = target.get("num_hidden_layers"), layer_ids(drafter)
    if count is not None and ids and max(ids) > count:
        raise LaneError(
            f"The drafter of lane {spec.name!r} does not fit the target: it reads layer {max(ids)}, the "
            f"target has {count}. A drafter works only with the target it was trained for."
        )


def _block(spec: LaneSpec, drafter: dict[str, Any]) -> None:
    size = drafter.get("block_size")
    if spec.method == "dflash" and size is not None and spec.num_speculative_tokens > size - 1:
        raise LaneError(
            f"K = {spec.num_speculative_tokens} is more than the drafter of lane {spec.name!r} can draft: "
            f"its block of {size} holds the anchor and {size - 1} drafted tokens. Set "
            f"num_speculative_tokens to {size - 1} or less."
        )
