"""The few tensor operations that target and drafter share."""

from __future__ import annotations

import torch
from torch import Tensor


def rms_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """Divide ``x`` [..., D] by its root mean square (taken in float32) and scale by ``weight``."""
    wide = x.float()
    wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + eps)
    return wide.to(x.dtype) * weight.to(x.dtype)


def rope_tables(positions: int, head_dim: int, theta: float, device: torch.device | str) -> Tensor:
    """Cosines and sines of rotary embedding, [positions, 2, head_dim / 2], float32."""
    steps = torch.arange(0, head_dim, 2, dtype=torch.float32, device=device) / head_dim
    angles = torch.arange(positions, device=device).float()[:, None] * (theta**-steps)[None]
    return torch.stack([angles.cos(), angles.sin()], dim=1)


def rotate(x: Tensor, tables: Tensor) -> Tensor:
    """Rotate ``x`` [..., positions, heads, head_dim] by the rows of ``tables`` (halves layout).

    ``tables`` [..., positions, 2, head_dim / 2] holds one row per position.
    """
    cos, sin = tables[..., 0, :].unsqueeze(-2), tables[..., 1, :].unsqueeze(-2)
    first, second = x.float().chunk(2, dim=-1)
    turned = torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1)
    return turned.to(x.dtype)


def fold_query_heads(q: Tensor, kv_heads: int) -> Tensor:
    """Lay the query heads that share a key head along the query axis.

    [B, Q, heads, D] -> [B, kv_heads, group * Q, D], so that grouped-query attention needs no
    copies of keys and values. ``unfold_query_heads`` undoes it.
    """
    batch, queries, heads, dim = q.shape
    grouped = q.view(batch, queries, kv_heads, heads // kv_heads, dim)
    return grouped.permute(0, 2, 3, 1, 4).reshape(batch, kv_heads, -1, dim)


def unfold_query_heads(out: Tensor, queries: int) -> Tensor:
    """[B, kv_heads, group * Q, D] -> [B, Q, heads * D]."""
    batch, kv_heads, folded, dim = out.shape
    split = out.view(batch, kv_heads, folded // queries, queries, dim)
    return split.permute(0, 3, 1, 2, 4).reshape(batch, queries, -1)
