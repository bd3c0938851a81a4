"""Two checkpoints compared tensor by tensor: which differ, and how. Neither torch nor a GPU is needed."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from safetensors import SafetensorError, deserialize

How = Literal["reordered", "changed", "shape", "missing", "added"]


@dataclass(frozen=True)
class TensorDifference:
    """One tensor that is not the same in both: ``reordered`` holds the very same numbers in another
    order, ``changed`` others, ``missing`` and ``added`` are in one of the two only."""

    name: str
    how: How


def differing_tensors(first: Path, second: Path) -> list[TensorDifference]:
    """What is different in ``second``, by name. Both are folders with ``.safetensors`` files.

    Raises ``OSError`` and ``ValueError`` for what cannot be read.
    """
    theirs = dict(_tensors(first))
    found = []
    for name, tensor in _tensors(second):
        if (other := theirs.pop(name, None)) is None:
            found.append(TensorDifference(name, "added"))
        elif (how := _difference(other, tensor)) is not None:
            found.append(TensorDifference(name, how))
    found += [TensorDifference(name, "missing") for name in theirs]
    return sorted(found, key=lambda one: one.name)


@dataclass(frozen=True)
class _Tensor:
    shape: tuple[int, ...]
    dtype: str
    data: bytes


def _tensors(folder: Path) -> Iterator[tuple[str, _Tensor]]:
    for file in sorted(folder.glob("*.safetensors")):
        try:
            entries: list[tuple[str, dict[str, Any]]] = deserialize(file.read_bytes())  # type: ignore[no-untyped-call]
        except SafetensorError as error:
            raise ValueError(f"{file.name} cannot be read: {error}") from error
        for name, told in entries:
            yield name, _Tensor(tuple(told["shape"]), told["dtype"], bytes(told["data"]))


def _difference(first: _Tensor, second: _Tensor) -> How | None:
    if first == second:
        return None
    if (first.shape, first.dtype) != (second.shape, second.dtype):
        return "shape"
    return "reordered" if np.array_equal(_sorted(first), _sorted(second)) else "changed"


def _sorted(tensor: _Tensor) -> np.ndarray:
    """The tensor's numbers as bit patterns, sorted: numpy knows no bfloat16."""
    size = len(tensor.data) // math.prod(tensor.shape) or 1  # formats of less than a byte are packed
    return np.sort(np.frombuffer(tensor.data, dtype=np.dtype(f"u{size}")))
