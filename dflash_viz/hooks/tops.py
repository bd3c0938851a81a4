"""What the models found probable at the positions of a batch, computed without waiting for it.

Nothing here synchronises with the device: results come to pinned host memory in the runner's own
stream, and may be read once the device has come past that. On CUDA one kernel (``fused``) does what
torch needs a dozen calls for: with a small target these would cost more than the target itself.
"""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from dflash_viz.hooks.wire import TopK

# Probabilities of so many rows of the vocabulary exist at a time: 256 MB in float32.
MAX_ELEMENTS = 1 << 26
# vLLM brings it along for CUDA.
HAS_TRITON = importlib.util.find_spec("triton") is not None


def to_host(tensor: torch.Tensor) -> torch.Tensor:
    """A copy in pinned memory that is complete later; on the CPU the tensor itself."""
    return tensor.to("cpu", non_blocking=True)


def to_device(numbers: Sequence[int], device: torch.device) -> torch.Tensor:
    """Integers (int32) as a tensor on the device, without waiting for it."""
    tensor = torch.tensor(numbers, dtype=torch.int32)
    return tensor.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else tensor


class Pinned:
    """Pinned buffers of one type that are used again: to ask torch for new ones costs the host more
    than the copies into them. Elsewhere than on CUDA nothing is pinned."""

    def __init__(self, dtype: torch.dtype) -> None:
        self._dtype = dtype
        self._free: list[torch.Tensor] = []

    def take(self, size: int, pin: bool) -> torch.Tensor:
        """A buffer of at least so many elements."""
        if self._free and len(buffer := self._free.pop()) >= size:
            return buffer
        return torch.empty(max(1024, 2 * size), dtype=self._dtype, pin_memory=pin)

    def give(self, buffer: torch.Tensor) -> None:
        """Its content has been read."""
        self._free.append(buffer)

    def copy(self, tensor: torch.Tensor) -> torch.Tensor:
        """A one-dimensional tensor in a buffer; complete later."""
        buffer = self.take(len(tensor), tensor.is_cuda)
        buffer[: len(tensor)].copy_(tensor, non_blocking=True)
        return buffer


@dataclass(frozen=True)
class Positions:
    """Where logits are to be looked at, ``num_rows`` rows of them, and which token was drafted at each.

    Row r has the logits ``logits[index[r // per], r % per]`` (of [rows, vocabulary], where ``per`` is
    1, ``logits[index[r]]``), times ``scale[index[r // per]]`` where that is above 0; without ``index``
    it counts for itself. Its drafted token is ``drafted.flatten()[r]``, or with ``reads``, which says
    what each row of logits has read, ``drafted[reads[index[r] + 1]]``: what the next one has read.
    Anything where there is none.
    """

    logits: torch.Tensor
    num_rows: int
    drafted: torch.Tensor
    per: int = 1
    index: torch.Tensor | None = None
    scale: torch.Tensor | None = None
    reads: torch.Tensor | None = None


@dataclass(frozen=True)
class Span:
    """Where the positions of one request lie among the rows, and how many tokens it asks for."""

    first: int
    k: int


class Tops:
    """Top-k of some rows, in a buffer on the host as soon as the device is done; and whose rows they
    are, by request. A row holds k probabilities, k ids (as bits), the probability of its drafted token."""

    def __init__(self, buffer: torch.Tensor, num_rows: int, k: int, spans: dict[str, Span]) -> None:
        self.buffer = buffer
        self._num_rows = num_rows
        self._k = k
        self._spans = spans

    @functools.cached_property
    def _lists(self) -> tuple[list[list[int]], list[list[float]], list[float]]:
        k, width = self._k, 2 * self._k + 1
        rows = self.buffer.numpy()[: self._num_rows * width].reshape(self._num_rows, width)
        ids: Any = np.ascontiguousarray(rows[:, k : 2 * k]).view(np.int32)
        return ids.tolist(), rows[:, :k].tolist(), rows[:, 2 * k].tolist()

    def of(self, request_id: str, num_positions: int, num_drafted: int) -> TopK | None:
        """The first positions of one request; None if it did not ask."""
        if (span := self._spans.get(request_id)) is None:
            return None
        ids, p, own = self._lists
        rows = slice(span.first, span.first + num_positions)
        return TopK(
            [row[: span.k] for row in ids[rows]],
            [row[: span.k] for row in p[rows]],
            own[span.first : span.first + num_drafted],
        )


class TopFinder:
    """Finds the top-k of one model's positions; ``done`` gives a result's memory back."""

    def __init__(self) -> None:
        self._pinned = Pinned(torch.float32)

    @functools.cached_property
    def _fused(self) -> Any:
        from dflash_viz.hooks.fused import Fused

        return Fused(torch.device("cuda", torch.cuda.current_device()))

    def find(self, positions: Positions, spans: dict[str, Span]) -> Tops:
        """Top-k of softmax(logits) at temperature 1, before top-p."""
        k = min(max(span.k for span in spans.values()), positions.logits.shape[-1])
        if positions.logits.is_cuda and HAS_TRITON:
            k = self._fused.width(k)
            buffer = self._pinned.take(positions.num_rows * (2 * k + 1), pin=True)
            self._fused(positions, k, buffer)
        else:
            buffer = self._pinned.copy(pack(positions, k).flatten())
        return Tops(buffer, positions.num_rows, k, spans)

    def done(self, tops: Tops | None) -> None:
        """Nobody reads this result any more."""
        if tops is not None:
            self._pinned.give(tops.buffer)


def pack(positions: Positions, k: int) -> torch.Tensor:
    """What a ``Tops`` holds, [rows, 2 k + 1] in float32, with torch's own operations."""
    logits, drafted = _rows(positions)
    index = drafted.long().clamp(0, logits.shape[-1] - 1).unsqueeze(1)
    size = max(1, MAX_ELEMENTS // logits.shape[-1])
    pairs = zip(logits.split(size), index.split(size), strict=True)
    return torch.cat([_pack(*pair, k) for pair in pairs])


def _rows(at: Positions) -> tuple[torch.Tensor, torch.Tensor]:
    """Logits [rows, vocabulary] and the drafted token of each row."""
    logits = at.logits if at.index is None else at.logits[at.index.long()]
    if at.per > 1:
        logits = logits[:, : at.per]
    if at.scale is not None and at.index is not None:
        scale = at.scale[at.index.long()]
        logits = logits.float() * scale.where(scale > 0, 1.0).view(-1, *[1] * (logits.dim() - 1))
    drafted = at.drafted
    if at.reads is not None:
        drafted = drafted[at.reads].roll(-1)
        drafted = drafted if at.index is None else drafted[at.index.long()]
    return logits.reshape(at.num_rows, -1), drafted.flatten()


def _pack(logits: torch.Tensor, index: torch.Tensor, k: int) -> torch.Tensor:
    probabilities = torch.softmax(logits, dim=-1, dtype=torch.float32)
    values, ids = probabilities.topk(k, dim=-1)
    return torch.cat((values, ids.int().view(torch.float32), probabilities.gather(1, index)), 1)
