"""How a drafter's weights differ from the expected ones, in words: why a check failed."""

from __future__ import annotations

from collections.abc import Sequence

from dflash_viz.metrics.rules.case import Finding
from dflash_viz.weights import WeightsError, resolve_model
from dflash_viz.weights.compare import TensorDifference, differing_tensors

DIFFERENCES = {
    "reordered": "the same numbers in another order",
    "changed": "other numbers",
    "shape": "another shape or number format",
    "missing": "nothing, where the expected drafter has something,",
    "added": "something that the expected drafter does not have",
}


def damage(expected: str, used: str) -> list[Finding]:
    """How the drafter ``used`` differs from the expected one; both are names as in a preset.

    Nothing where they are the same, or where one of them cannot be had or read.
    """
    try:
        found = differing_tensors(resolve_model(expected), resolve_model(used))
    except (OSError, ValueError, WeightsError):  # another file format, or gone meanwhile
        return []
    if not found:
        return []
    by_layer: dict[str, list[TensorDifference]] = {}
    for one in found:
        by_layer.setdefault(_layer(one.name), []).append(one)
    places = ", ".join(by_layer)
    return [
        Finding(
            "weights",
            f"The drafter's weights differ from the expected ones: {places}",
            "These are not the weights that the expectation was recorded with. Numbers in another order mean "
            "a tensor that was shuffled or transposed on its way; other numbers another training or a "
            "damaged file.",
            tuple(_told(place, some) for place, some in by_layer.items()),
            f"Take the pair's own drafter ({expected}), or export this one again and compare.",
        )
    ]


def _layer(tensor: str) -> str:
    """``layers.2.mlp.up_proj.weight`` is of layer 2; other tensors stand for themselves."""
    parts = tensor.split(".")
    if "layers" in parts[:-1] and (number := parts[parts.index("layers") + 1]).isdecimal():
        return f"layer {number}"
    return tensor


def _told(place: str, found: Sequence[TensorDifference]) -> str:
    """What is different in one place, each kind of difference with the tensors that have it."""
    kinds: dict[str, list[str]] = {}
    for one in found:
        kinds.setdefault(DIFFERENCES[one.how], []).append(one.name)
    return f"{place}: " + "; ".join(f"{kind} in {', '.join(names)}" for kind, names in kinds.items()) + "."
