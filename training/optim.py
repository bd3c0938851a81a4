"""Muon for weight matrices, AdamW for the rest."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable

import torch
from torch import Tensor, nn

NEWTON_SCHULZ = (3.4445, -4.7750, 2.0315)
"""Coefficients of the quintic iteration of K. Jordan's Muon (2024)."""


def orthogonalise(matrices: Tensor, steps: int = 5) -> Tensor:
    """Move the singular values of ``matrices`` [N, rows, columns] near one (Newton-Schulz)."""
    a, b, c = NEWTON_SCHULZ
    wide = matrices.shape[-2] <= matrices.shape[-1]
    x = (matrices if wide else matrices.mT).bfloat16()
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    for _ in range(steps):
        gram = x @ x.mT
        x = a * x + (b * gram + c * gram @ gram) @ x
    return (x if wide else x.mT).to(matrices.dtype)


class Muon(torch.optim.Optimizer):
    """Momentum whose update of every matrix is orthogonalised; equal shapes go in one batch.

    The update is scaled by sqrt(max(1, rows / columns)), so one learning rate fits all shapes.
    """

    def __init__(self, params: Iterable[nn.Parameter], lr: float, momentum: float = 0.95) -> None:
        super().__init__(params, {"lr": lr, "momentum": momentum})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """Apply one update to every parameter that has a gradient."""
        for group in self.param_groups:
            by_shape: dict[torch.Size, list[nn.Parameter]] = defaultdict(list)
            for param in group["params"]:
                by_shape[param.shape].append(param)
            for same in by_shape.values():
                self._update(same, group["lr"], group["momentum"])

    def _update(self, params: list[nn.Parameter], lr: float, momentum: float) -> None:
        grads = [p.grad for p in params]
        averages = [self.state[p].setdefault("average", torch.zeros_like(p)) for p in params]
        torch._foreach_lerp_(averages, grads, 1 - momentum)
        ahead = torch._foreach_lerp(grads, averages, momentum)  # Nesterov
        updates = orthogonalise(torch.stack(ahead))
        rows, columns = params[0].shape
        scale = math.sqrt(max(1.0, rows / columns))
        torch._foreach_add_(params, list(updates.unbind()), alpha=-lr * scale)


def build_optimisers(model: nn.Module, matrix_lr: float, vector_lr: float) -> list[torch.optim.Optimizer]:
    """Muon for parameters of two dimensions, AdamW without decay for norms."""
    matrices = [p for p in model.parameters() if p.dim() == 2]
    vectors = [p for p in model.parameters() if p.dim() < 2]
    return [
        Muon(matrices, matrix_lr),
        torch.optim.AdamW(vectors, vector_lr, betas=(0.9, 0.95), weight_decay=0.0),
    ]


def cosine(progress: float, warmup: float) -> float:
    """Factor of the learning rate after a share ``progress`` of training (linear warm-up)."""
    if progress < warmup:
        return progress / warmup
    return 0.5 * (1 + math.cos(math.pi * min(1.0, (progress - warmup) / (1 - warmup))))
