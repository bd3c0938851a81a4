"""Anchors, masks, labels and weights of the draft blocks of one batch."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

GROUP = 16
"""Blocks that share one attention call; more wastes keys, fewer copies the context more often."""


@dataclass
class Blocks:
    """Draft blocks laid out for ``DFlashDrafter.forward``: B sequences, G groups of ``GROUP`` blocks."""

    anchors: Tensor
    """Token of slot 0, [B, G, GROUP]."""
    positions: Tensor
    """Of every slot, [B, G, GROUP * S]."""
    mask: Tensor
    """[B * G, 1, repeat * GROUP * S, T + GROUP * S], True where a slot may look."""


def sample_starts(trainable: Tensor, count: int, generator: torch.Generator) -> Tensor:
    """Draw ``count`` distinct positions per row, those where ``trainable`` [B, T] holds first.

    Random anchors instead of fixed block borders are the paper's augmentation. Rows with too few
    trainable positions are filled up with others, whose labels weigh nothing. Sorted: [B, count].
    """
    keys = torch.rand(trainable.shape, generator=generator, device=trainable.device)
    chosen = (keys + trainable).topk(count, dim=1).indices
    return chosen.sort(dim=1).values


def attention_mask(starts: Tensor, lengths: Tensor, size: int, context: int) -> Tensor:
    """Who may look where: [B, G, GROUP * S, context + GROUP * S], boolean.

    A slot sees the context strictly before its anchor (the anchor has no hidden state yet) and
    the existing slots of its own block, before and after itself.
    """
    per_slot = starts.repeat_interleave(size, -1)
    columns = torch.arange(context, device=starts.device)
    past = columns < per_slot[..., None]
    blocks = torch.arange(starts.shape[-1], device=starts.device).repeat_interleave(size)
    own = (blocks[:, None] == blocks[None]).expand(*per_slot.shape, len(blocks))
    offsets = torch.arange(size, device=starts.device).repeat(starts.shape[-1])
    exists = offsets < lengths.repeat_interleave(size, -1)
    return torch.cat([past, own & exists[..., None, :]], -1)


def make_blocks(tokens: Tensor, starts: Tensor, lengths: Tensor, size: int, repeat: int) -> Blocks:
    """Lay out blocks of ``size`` slots that begin at ``starts`` [B, A]; A is a multiple of GROUP.

    ``repeat`` is the number of query heads per key head, along which the mask is tiled.
    """
    rows = tokens.shape[0]
    anchors = tokens.gather(1, starts).view(rows, -1, GROUP)
    starts, lengths = starts.view(rows, -1, GROUP), lengths.view(rows, -1, GROUP)
    offsets = torch.arange(size, device=tokens.device)
    positions = (starts[..., None] + offsets).flatten(2)
    mask = attention_mask(starts, lengths, size, tokens.shape[1])
    tiled = mask.flatten(0, 1)[:, None].repeat(1, 1, repeat, 1)
    return Blocks(anchors, positions, tiled)


def gather_ahead(values: Tensor, starts: Tensor, size: int, fill: int) -> Tensor:
    """``values`` [B, T] at the ``size - 1`` positions after each start [B, A]: [B, A, size - 1]."""
    padded = torch.nn.functional.pad(values, (0, size), value=fill)
    ahead = starts[..., None] + torch.arange(1, size, device=starts.device)
    return padded.gather(1, ahead.flatten(1)).view(*starts.shape, size - 1)


def position_weights(size: int, gamma: float, device: torch.device | str) -> Tensor:
    """exp(-(k - 1) / gamma) for the drafted positions k = 1 .. size - 1 (the paper's decay).

    An error early in the block costs everything behind it, so early positions weigh more.
    """
    return torch.exp(-torch.arange(size - 1, device=device).float() / gamma)


def label_weights(
    starts: Tensor, lengths: Tensor, answers: Tensor, labels_ok: Tensor, size: int, gamma: float
) -> Tensor:
    """Weights [B, A, size - 1]: the decay, ended by the first label that does not count.

    The blocks begin at ``starts`` [B, A] and have ``lengths`` [B, A] of ``size`` slots.
    ``answers`` [B, T] marks the target's own tokens, the only fair anchors; ``labels_ok`` [B, T]
    those that also count as labels. Behind a label that does not count (end of the answer, a
    repetition loop, a token outside the draft vocabulary) no draft could be accepted anyway.
    """
    counts = gather_ahead(labels_ok.long(), starts, size, 0).float()
    reachable = counts.cumprod(-1) * answers.gather(1, starts)[..., None]
    slots = torch.arange(1, size, device=answers.device)
    exists = slots < lengths[..., None]
    return reachable * exists * position_weights(size, gamma, answers.device)


def sample_lengths(starts: Tensor, size: int, shortened: float, generator: torch.Generator) -> Tensor:
    """Slots per block [B, A]: mostly ``size``; a share ``shortened`` gets size / 2 .. size - 1.

    A drafter that always saw seven masks would meet a new situation at K = 4.
    """
    device = starts.device
    short = torch.randint(size // 2, size, starts.shape, generator=generator, device=device)
    cut = torch.rand(starts.shape, generator=generator, device=device) < shortened
    return torch.where(cut, short, size)
