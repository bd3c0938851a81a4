"""What can be told of a lane before its engine starts: whether drafter and target fit each other, and the
GPU (``device.py``).

vLLM finds most of this too, a minute later and as a stack trace. Where a configuration does not say
enough, the lane is let through: refusing a good pair would be worse.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from dflash_viz.hooks.wire import layer_ids
from dflash_viz.lanes.device import check_device, check_models, check_place, engine_gpus
from dflash_viz.lanes.errors import LaneError
from dflash_viz.lanes.spec import LaneSpec
from dflash_viz.trace import PLAIN

# Methods whose drafter is a checkpoint of its own (vLLM's config/speculative.py).
NEEDS_DRAFTER = ("dflash", "eagle", "eagle3", "medusa", "mlp_speculator", "draft_model")
# Methods whose drafter reads the target's hidden states and shares its embedding.
READS_TARGET = ("dflash", "eagle", "eagle3")
MISFIT = "A drafter works only with the target it was trained for."


def check_spec(spec: LaneSpec) -> None:
    """Raise ``LaneError`` for a lane that cannot run here whatever its models are."""
    _drafting(spec)
    gpus = engine_gpus(spec)
    check_place(spec, gpus)
    check_device(spec, gpus)


def check_pair(spec: LaneSpec, target: Path, drafter: Path | None) -> None:
    """Raise ``LaneError`` when the drafter was not made for this target, K is over its block, or the GPU
    has no room for the two or cannot run them.

    ``target`` and ``drafter`` are model folders.
    """
    gpus = engine_gpus(spec)
    if drafter is None and not gpus:
        return
    theirs = _config(target)
    models = [(target, theirs)]
    if drafter is not None:
        ours = _config(drafter)
        _fit(spec, theirs, ours)
        models.append((drafter, ours))
    check_models(spec, gpus, models)


def _drafting(spec: LaneSpec) -> None:
    if spec.method == PLAIN:
        return
    if spec.num_speculative_tokens < 1:
        raise LaneError(
            f"Lane {spec.name!r} drafts {spec.num_speculative_tokens} tokens a step: set "
            "num_speculative_tokens (K) to 1 or more in the preset."
        )
    if spec.method in NEEDS_DRAFTER and spec.drafter is None:
        raise LaneError(f"Lane {spec.name!r} has no drafter: name one in the preset (drafter: ...).")


def _fit(spec: LaneSpec, theirs: dict[str, Any], ours: dict[str, Any]) -> None:
    """Whether the drafter was made for the target, by their configurations."""
    _vocabulary(spec, theirs, ours)
    if spec.method in READS_TARGET:
        _hidden(spec, theirs, ours)
        _layers(spec, theirs, ours)
    _block(spec, ours)


def _config(folder: Path) -> dict[str, Any]:
    """A model's numbers, flat; empty where it keeps them in a form that only vLLM reads."""
    path = folder / "config.json"
    if not path.is_file() and (folder / "params.json").is_file():
        return {}
    try:
        raw = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise LaneError(f"{folder.name} is no model: its config.json cannot be read ({error}).") from None
    # Models that also see pictures, and drafters in speculators' format, keep the numbers apart.
    return {**raw, **(raw.get("text_config") or raw.get("transformer_layer_config") or {})}


def _vocabulary(spec: LaneSpec, target: dict[str, Any], drafter: dict[str, Any]) -> None:
    """A model that drafts by itself must speak the target's tokens; one that reads the target's
    states may know fewer (a padded target), never more."""
    wanted, found = target.get("vocab_size"), drafter.get("vocab_size")
    if wanted is None or found is None or wanted == found:
        return
    own = spec.method == "draft_model" and not spec.speculative.get("use_heterogeneous_vocab")
    if own or (spec.method in READS_TARGET and found > wanted):
        raise LaneError(_differs(spec, "vocabulary", found, wanted))


def _hidden(spec: LaneSpec, target: dict[str, Any], drafter: dict[str, Any]) -> None:
    wanted = target.get("hidden_size")
    found = drafter.get("target_hidden_size") or drafter.get("hidden_size")
    if wanted is not None and found is not None and wanted != found:
        raise LaneError(_differs(spec, "hidden size", found, wanted))


def _differs(spec: LaneSpec, what: str, found: int, wanted: int) -> str:
    return (
        f"The drafter of lane {spec.name!r} does not fit the target: its {what} is {found:,}, the "
        f"target's {wanted:,}. {MISFIT}"
    )


def _layers(spec: LaneSpec, target: dict[str, Any], drafter: dict[str, Any]) -> None:
    count, ids = target.get("num_hidden_layers"), layer_ids(drafter)
    if count is not None and ids and max(ids) > count:
        raise LaneError(
            f"The drafter of lane {spec.name!r} does not fit the target: it reads layer {max(ids)}, the "
            f"target has {count}. {MISFIT}"
        )


def _block(spec: LaneSpec, drafter: dict[str, Any]) -> None:
    """K up to the block's size: a block is trained as an anchor and one drafted token less than its size,
    but vLLM drafts one more, and its own checks do."""
    size = drafter.get("block_size")
    if spec.method == "dflash" and size is not None and spec.num_speculative_tokens > size:
        raise LaneError(
            f"K = {spec.num_speculative_tokens} is more than the drafter of lane {spec.name!r} can draft: "
            f"its block of {size} holds the anchor and {size - 1} drafted tokens. Set "
            f"num_speculative_tokens to {size - 1}; {size} is the most that vLLM takes."
        )
