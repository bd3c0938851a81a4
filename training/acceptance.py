"""What greedy speculative decoding would accept along a known greedy text."""

from __future__ import annotations

import torch
from torch import Tensor

from training.blocks import gather_ahead
from training.drafter import Drafter
from training.target import Target


def accepted_run(drafted: Tensor, labels: Tensor) -> Tensor:
    """Length of the accepted prefix: leading agreements of ``drafted`` and ``labels`` [..., K]."""
    return (drafted == labels).long().cumprod(-1).sum(-1)


def walk(run_lengths: Tensor, first: int, last: int) -> list[int]:
    """Accepted counts of the steps of greedy decoding from index ``first`` to ``last``.

    ``run_lengths`` [A] holds the accepted prefix a block would have at successive anchors. Greedy
    decoding visits only some: each step moves on by its accepted prefix and one recovered token.
    """
    steps: list[int] = []
    at = first
    lengths = run_lengths.tolist()
    while at < last:
        steps.append(int(lengths[at]))
        at += steps[-1] + 1
    return steps


@torch.no_grad()
def run_lengths(target: Target, drafter: Drafter, tokens: Tensor, starts: Tensor, size: int) -> Tensor:
    """Accepted prefix [B, A] of blocks of ``size`` slots at ``starts`` [B, A] of ``tokens`` [B, T].

    A is a multiple of ``GROUP``. Behind the text's end labels lack and count as rejections.
    """
    features, _ = target.forward(tokens, drafter.config.target_layer_ids)
    slots = drafter.draft(features, tokens, starts, torch.full_like(starts, size), size)
    drafted = drafter.draft_ids[drafter.logits(slots).argmax(-1)]
    return accepted_run(drafted, gather_ahead(tokens, starts, size, -1))
