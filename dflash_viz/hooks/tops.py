"""What the models found probable at the positions of a batch, computed without waiting for it.

Nothing here synchronises with the device: results are copied to pinned host memory in the runner's
own stream, and may be read once the device has come past that.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from dflash_viz.hooks.wire import TopK

# Probabilities of so many rows of the vocabulary exist at a time: 256 MB in float32.
MAX_ELEMENTS = 1 << 26


def to_host(tensor: torch.Tensor) -> torch.Tensor:
    """A copy in pinned memory that is complete later; on the CPU the tensor itself."""
    return tensor.to("cpu", non_blocking=True)


def to_device(numbers: Sequence[int], device: torch.device) -> torch.Tensor:
    """Integers as a tensor on the device, without waiting for it."""
    tensor = torch.tensor(numbers, dtype=torch.long)
    return tensor.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else tensor


@dataclass(frozen=True)
class Span:
    """Where the positions of one request lie among the rows, and how many tokens it asks for."""

    first: int
    k: int


@dataclass
class Tops:
    """Top-k of some rows, on the host as soon as the device is done: ids and p [rows, k], ``own`` [rows]
    the probability of the token that was drafted there; and whose rows they are, by request."""

    ids: torch.Tensor
    p: torch.Tensor
    own: torch.Tensor
    spans: dict[str, Span]

    @functools.cached_property
    def _lists(self) -> tuple[list[list[int]], list[list[float]], list[float]]:
        return self.ids.tolist(), self.p.tolist(), self.own.tolist()

    def of(self, request_id: str, num_positions: int, num_drafted: int) -> TopK | None:
        """The first positions of one request; None if it did not ask."""
        if (span := self.spans.get(request_id)) is None:
            return None
        ids, p, own = self._lists
        rows = slice(span.first, span.first + num_positions)
        return TopK(
            [row[: span.k] for row in ids[rows]],
            [row[: span.k] for row in p[rows]],
            own[span.first : span.first + num_drafted],
        )


def top_of(logits: torch.Tensor, drafted: torch.Tensor, spans: dict[str, Span]) -> Tops:
    """Top-k of softmax(logits), logits [rows, vocabulary]; temperature 1, before top-p. ``drafted``
    [rows] is the token drafted at each row; anything where none was."""
    k = min(max(span.k for span in spans.values()), logits.shape[-1])
    # An id that is none (-1, a placeholder) must never reach the device as an index.
    index = drafted.long().clamp(0, logits.shape[-1] - 1).unsqueeze(1)
    size = max(1, MAX_ELEMENTS // logits.shape[-1])
    parts = [_top(*pair, k) for pair in zip(logits.split(size), index.split(size), strict=True)]
    ids, p, own = parts[0] if len(parts) == 1 else map(torch.cat, zip(*parts, strict=True))
    return Tops(to_host(ids), to_host(p), to_host(own), spans)


def _top(
    logits: torch.Tensor, index: torch.Tensor, k: int
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    probabilities = torch.softmax(logits, dim=-1, dtype=torch.float32)
    values, ids = probabilities.topk(k, dim=-1)
    return ids, values, probabilities.gather(1, index).squeeze(1)
