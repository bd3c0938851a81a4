"""Whether the kernel that finds top-k (``dflash_viz.hooks.fused``) agrees with torch, and what both cost."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from dflash_viz.bench.speed import TOP_K
from dflash_viz.hooks.tops import Positions, pack
from gpu.checks import Made

# Rows and vocabulary: of one request, of one with a large vocabulary and K, of 128.
CASES = [(1, 49_152), (6, 49_152), (16, 151_936), (768, 49_152)]
STATES, K = 8, 5
# Between sums of 32-bit numbers in different orders.
TOLERANCE = 1e-5
CALLS = 100


async def kernel() -> Made:
    """Every case on random logits, and the ways in which the hooks name rows and drafted tokens."""
    from dflash_viz.hooks.fused import Fused

    device = torch.device("cuda")
    fused, random = Fused(device), torch.Generator(device).manual_seed(0)
    worst, words, figures = 0.0, [], {}
    for rows, vocabulary in CASES:
        logits = 3 * torch.randn(rows, vocabulary, generator=random, device=device)
        at = Positions(logits, rows, torch.arange(rows, device=device, dtype=torch.int32))
        out = torch.empty(rows * (2 * TOP_K + 1), pin_memory=True)
        ours, theirs = _us(functools.partial(fused, at, TOP_K, out)), _us(functools.partial(pack, at, TOP_K))
        worst = max(worst, difference(fused, at))
        words.append(f"{rows} × {vocabulary:,} logits {ours} µs (torch {theirs})")
        figures[f"{rows}x{vocabulary}_us"] = [ours, theirs]
    worst = max(worst, *(difference(fused, at) for at in as_hooks_ask(device, random)))
    return worst < TOLERANCE, f"{', '.join(words)}; largest difference {worst:.1e}", figures


def _us(call: Callable[[], Any]) -> float:
    """The mean time of a call (µs), on the device or on the host, whichever is slower."""
    call()
    torch.cuda.synchronize()
    began = time.perf_counter()
    for _ in range(CALLS):
        call()
    torch.cuda.synchronize()
    return round(1e6 * (time.perf_counter() - began) / CALLS, 1)


def as_hooks_ask(device: torch.device, random: torch.Generator) -> list[Positions]:
    """A target's rows, all and some, and a drafter's blocks before the temperature (``hooks/v2.py``)."""

    def normal(*shape: int) -> torch.Tensor:
        return 3 * torch.randn(*shape, CASES[0][1], generator=random, device=device)

    def numbers(*given: int) -> torch.Tensor:
        return torch.tensor(given, device=device, dtype=torch.int32)

    rows, reads = normal(6), torch.arange(1, 7, device=device)
    tokens, scale = (
        numbers(9, 10, 11, 12, 13, 14, 15),
        torch.tensor([0.0, 2.0] * (STATES // 2), device=device),
    )
    drafted = torch.arange(2 * K, device=device).view(2, K)
    return [
        Positions(rows, 6, tokens, reads=reads),
        Positions(rows, 3, tokens, index=numbers(0, 2, 5), reads=reads),
        Positions(normal(STATES, K + 1), 2 * K, drafted, per=K, index=numbers(7, 2), scale=scale),
    ]


def difference(fused: Any, at: Positions) -> float:
    """The largest of two probabilities; 1 where an id is another."""
    out = torch.empty(at.num_rows * (2 * TOP_K + 1), pin_memory=at.logits.is_cuda)
    fused(at, TOP_K, out)
    expected = pack(at, TOP_K).cpu().numpy()
    found = out.view(at.num_rows, -1).numpy()
    ids = slice(TOP_K, 2 * TOP_K)
    if (found[:, ids].copy().view(np.int32) != expected[:, ids].copy().view(np.int32)).any():
        return 1.0
    chances = [*range(TOP_K), 2 * TOP_K]
    return float(np.abs(found[:, chances] - expected[:, chances]).max())
