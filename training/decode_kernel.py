"""One decode step's attention on a GPU, as a Triton kernel.

General attention kernels waste most of their work on three queries per key head. This one streams
each row's keys and values once and takes the length from device memory, so that a CUDA graph of a
decode step can be replayed for every column.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

BLOCK = 64
"""Columns per iteration."""
QUERIES = 16
"""Rows of the query tile; matrix units take no fewer."""


@triton.jit
def _attend(  # noqa: PLR0913, PLR0917
    q_ptr, k_ptr, v_ptr, out_ptr, column_ptr, scale, row_stride,
    group: tl.constexpr, dim: tl.constexpr, block: tl.constexpr, tile_rows: tl.constexpr,
):  # fmt: skip
    """Softmax attention of `group` queries over columns 0 .. column of one (row, key head)."""
    pair = tl.program_id(0).to(tl.int64)
    length = tl.load(column_ptr) + 1
    queries, dims, columns = tl.arange(0, tile_rows), tl.arange(0, dim), tl.arange(0, block)
    tile = queries[:, None] * dim + dims[None, :]
    real = queries[:, None] < group
    q = tl.load(q_ptr + pair * group * dim + tile, mask=real, other=0.0)
    best = tl.full((tile_rows,), -1e30, tl.float32)
    total = tl.zeros((tile_rows,), tl.float32)
    out = tl.zeros((tile_rows, dim), tl.float32)
    for start in range(0, length, block):
        inside = start + columns < length
        where = pair * row_stride + (start + columns[:, None]) * dim + dims[None, :]
        k = tl.load(k_ptr + where, mask=inside[:, None], other=0.0)
        v = tl.load(v_ptr + where, mask=inside[:, None], other=0.0)
        scores = tl.where(inside[None, :], tl.dot(q, tl.trans(k)) * scale, -1e30)
        top = tl.maximum(best, tl.max(scores, 1))
        weights = tl.exp(scores - top[:, None])
        shrink = tl.exp(best - top)
        total = total * shrink + tl.sum(weights, 1)
        out = out * shrink[:, None] + tl.dot(weights.to(v.dtype), v)
        best = top
    result = (out / total[:, None]).to(q.dtype)
    tl.store(out_ptr + pair * group * dim + tile, result, mask=real)


def attend(q: Tensor, keys: Tensor, values: Tensor, column: Tensor) -> Tensor:
    """Attention of ``q`` [B, kv_heads, group, D] over columns 0 .. ``column`` (a scalar tensor).

    keys, values: [B, kv_heads, T, D], each contiguous. Returns the shape of ``q``.
    """
    batch, kv_heads, group, dim = q.shape
    q = q.contiguous()
    out = torch.empty_like(q)
    _attend[(batch * kv_heads,)](
        q, keys, values, out, column, dim**-0.5, keys.stride(1),
        group=group, dim=dim, block=BLOCK, tile_rows=QUERIES, num_warps=2, num_stages=3,
    )  # fmt: skip
    return out
