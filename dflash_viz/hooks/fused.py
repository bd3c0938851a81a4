"""Top-k of softmax(logits) in one kernel, straight to the host's memory (CUDA, Triton).

Each program takes a piece of one row: its maximum, its sum of exponentials, its own k best. The one
that finishes its row last joins the pieces. Compared with torch's softmax, topk and gather this is one
launch instead of a dozen, a fifth of the device's time, and no copy: the result is written to pinned
memory, which is complete when the stream has come past the kernel.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl

from dflash_viz.hooks.tops import Positions

# Logits of one program.
PIECE = 2048
# Each k is a kernel of its own, which takes a second to compile: so these only.
WIDTHS = (5, 20)

_PLAIN = ["stride_state", "stride_place", "vocabulary", "num_reads"]
_POINTERS = ["logits", "index", "scale", "drafted", "reads", "out", "parts", "done"]


# Nothing depends on how numbers and addresses divide, so that a compiled kernel fits every call.
@triton.jit(do_not_specialize=_PLAIN, do_not_specialize_on_alignment=_POINTERS)
def _kernel(
    logits,
    index,
    scale,
    drafted,
    reads,
    out,
    parts,
    done,
    stride_state,
    stride_place,
    vocabulary,
    num_reads,
    per: tl.constexpr,
    has_index: tl.constexpr,
    has_scale: tl.constexpr,
    has_reads: tl.constexpr,
    k: tl.constexpr,
    piece: tl.constexpr,
    pieces: tl.constexpr,
    lanes: tl.constexpr,
):
    row = tl.program_id(0)
    this = tl.program_id(1)
    base = row // per
    state = base.to(tl.int64)
    if has_index:
        state = tl.load(index + base).to(tl.int64)
    first = logits + state * stride_state + (row % per) * stride_place
    factor = 1.0
    if has_scale:
        factor = tl.load(scale + state)
        factor = tl.where(factor > 0, factor, 1.0)

    lane = tl.arange(0, piece)
    at = this * piece + lane
    x = tl.load(first + at, mask=at < vocabulary, other=float("-inf")).to(tl.float32) * factor
    best = tl.max(x, 0)
    total = tl.sum(tl.exp(x - tl.where(best == float("-inf"), 0.0, best)), 0)
    width = 2 * k + 2
    mine = parts + (row * pieces + this) * width
    tl.store(mine, best)
    tl.store(mine + 1, total)
    for i in tl.static_range(k):
        value, where = tl.max(x, 0, return_indices=True)
        tl.store(mine + 2 + i, value)
        tl.store(mine + 2 + k + i, (this * piece + where).to(tl.float32, bitcast=True))
        x = tl.where(lane == where, float("-inf"), x)

    # Every thread's part is written before the row's counter says so.
    tl.debug_barrier()
    if tl.atomic_add(done + row, 1, sem="acq_rel", scope="gpu") == pieces - 1:
        tl.store(done + row, 0)
        theirs = parts + row * pieces * width
        p = tl.arange(0, lanes)
        held = p < pieces
        # .cg: what other processors wrote lies in the second cache, not in this one's first.
        bests = tl.load(theirs + p * width, mask=held, other=float("-inf"), cache_modifier=".cg")
        totals = tl.load(theirs + p * width + 1, mask=held, other=0.0, cache_modifier=".cg")
        top = tl.max(bests, 0)
        norm = top + tl.log(tl.sum(tl.where(held, totals * tl.exp(bests - top), 0.0), 0))
        result = out + row * (2 * k + 1)
        taken = tl.zeros([lanes], dtype=tl.int32)
        for i in tl.static_range(k):
            next_one = theirs + p * width + 2 + tl.minimum(taken, k - 1)
            open_ = held & (taken < k)
            values = tl.load(next_one, mask=open_, other=float("-inf"), cache_modifier=".cg")
            value, where = tl.max(values, 0, return_indices=True)
            nth = tl.sum(tl.where(p == where, taken, 0), 0)
            token = tl.load(theirs + where * width + 2 + k + nth, cache_modifier=".cg")
            tl.store(result + i, tl.exp(value - norm))
            tl.store(result + k + i, token)
            taken = tl.where(p == where, taken + 1, taken)
        if has_reads:
            known = state + 1 < num_reads
            own = tl.load(drafted + tl.load(reads + state + 1, mask=known, other=0), mask=known, other=0)
        else:
            own = tl.load(drafted + row)
        # An id that is none (-1, a placeholder) must never become an address.
        own = tl.minimum(tl.maximum(own.to(tl.int64), 0), vocabulary - 1)
        tl.store(result + 2 * k, tl.exp(tl.load(first + own).to(tl.float32) * factor - norm))


class Fused:
    """The kernel with its working memory; for calls in one stream."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._parts = torch.empty(0, device=device)
        self._done = torch.zeros(0, dtype=torch.int32, device=device)
        self._none = torch.zeros(1, dtype=torch.int32, device=device)
        # To find the kernel by its arguments costs more than to launch it.
        self._compiled: dict[tuple[Any, ...], Any] = {}

    def width(self, k: int) -> int:
        """How many are found where k are asked for."""
        return next(width for width in WIDTHS if width >= k)

    def __call__(self, at: Positions, k: int, out: torch.Tensor) -> None:
        """Write [rows, 2 k + 1] into ``out`` (float32, pinned or on the device; see ``Tops``)."""
        logits, vocabulary = at.logits, at.logits.shape[-1]
        pieces = -(-vocabulary // PIECE)
        self._reserve(at.num_rows, at.num_rows * pieces * (2 * k + 2))
        drafted = at.drafted if at.drafted.is_contiguous() else at.drafted.contiguous()
        given = (at.index is not None, at.scale is not None, at.reads is not None)
        arguments = (
            logits,
            *(tensor if tensor is not None else self._none for tensor in (at.index, at.scale)),
            drafted,
            at.reads if at.reads is not None else self._none,
            out,
            self._parts,
            self._done,
            logits.stride(0),
            logits.stride(1) if logits.dim() == 3 else 0,
            vocabulary,
            len(at.reads) if at.reads is not None else 0,
            at.per,
            *given,
            k,
            PIECE,
            pieces,
            triton.next_power_of_2(pieces),
        )
        kind = (arguments[12:], *(a.dtype for a in arguments[:5]))
        grid = (at.num_rows, pieces, 1)
        if (compiled := self._compiled.get(kind)) is None:
            self._compiled[kind] = _kernel[grid](*arguments, num_warps=8)
        else:
            compiled[grid](*arguments)

    def _reserve(self, num_rows: int, num_parts: int) -> None:
        if len(self._parts) < num_parts:
            self._parts = torch.empty(2 * num_parts, device=self._device)
        if len(self._done) < num_rows:
            self._done = torch.zeros(2 * num_rows, dtype=torch.int32, device=self._device)
