"""Repairs an engine needs before its samples can be believed.

vLLM's CPU build (0.32.0) expands the temperature, top-p and top-k of a batch to its drafted tokens with
a kernel that knows integers only (``utils/cpu_triton_utils.py``, ``_expand_kernel_impl``): floats are
converted into a copy that is thrown away, and the logits are then divided by uninitialised memory.
Above temperature 0 every drafting lane writes nonsense, without any error.
"""

from __future__ import annotations

from typing import Any

import torch


def expand_batch_to_tokens(
    x: torch.Tensor,
    cu_num_tokens: torch.Tensor,
    num_tokens: int,
    replace_from: int = 0,
    replace_to: int = 0,
) -> torch.Tensor:
    """[batch] -> [num_tokens]: each value as often as its request has tokens (``cu_num_tokens`` is
    their cumulative number, [batch]); ``replace_from`` becomes ``replace_to``."""
    counts = torch.diff(cu_num_tokens, prepend=cu_num_tokens.new_zeros(1))
    replaced = torch.where(x == replace_from, torch.full_like(x, replace_to), x)
    return torch.repeat_interleave(replaced, counts.long(), output_size=num_tokens)


def repair_sampling(sampler: Any, device: torch.device) -> list[str]:
    """Replace what computes wrongly in ``vllm.v1.sample.rejection_sampler``; say what was replaced.

    The function is tried first, so a build that has been mended is left alone.
    """
    values = torch.tensor([0.5, 0.75], device=device)
    cumulative = torch.tensor([2, 3], dtype=torch.int32, device=device)
    expected = torch.tensor([0.5, 0.5, 0.75], device=device)
    if torch.equal(sampler.expand_batch_to_tokens(values, cumulative, 3), expected):
        return []
    sampler.expand_batch_to_tokens = expand_batch_to_tokens
    return ["expand_batch_to_tokens"]
