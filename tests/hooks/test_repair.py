"""Sampling above temperature 0 on vLLM's CPU build: the repair, and the distribution it restores."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from dflash_viz.hooks.repair import expand_batch_to_tokens

ROOT = Path(__file__).resolve().parents[2]

# One drafted token, drafted greedily, then verified many times at temperature 1: whatever the draft, the
# first emitted token must follow the target's distribution (Leviathan et al., arXiv:2211.17192).
SAMPLES = """
import sys, torch
from types import SimpleNamespace
from vllm.platforms import current_platform
current_platform.import_kernels()
current_platform.register_triton_kernel_overrides()
from vllm.v1.sample import rejection_sampler as rs
from vllm.v1.spec_decode.metadata import SpecDecodeMetadata
from dflash_viz.hooks.repair import repair_sampling

repaired = repair_sampling(rs, torch.device("cpu"))
assert repair_sampling(rs, torch.device("cpu")) == [], "the repair does not mend it"
n = 4000
p = torch.tensor([0.5, 0.3, 0.15, 0.05])
metadata = SpecDecodeMetadata.make_dummy([[1]] * n, torch.device("cpu"))
bonus = torch.zeros((n, 1), dtype=torch.int32)
for temperature in map(float, sys.argv[1:]):
    sampling = SimpleNamespace(
        all_greedy=False, all_random=True, temperature=torch.full((n,), temperature), top_k=None,
        top_p=None, generators={},
    )
    logits = (p.log() * temperature).repeat(n, 1)
    logits = rs.apply_sampling_constraints(logits, metadata.cu_num_draft_tokens, sampling)
    out = rs.rejection_sample(
        metadata.draft_token_ids, metadata.num_draft_tokens, 1, metadata.cu_num_draft_tokens, None, logits,
        bonus, sampling,
    )
    counts = torch.bincount(out[:, 0].long(), minlength=4)[:4].float()
    expected = p * n
    print("REPAIRED", repaired, "CHI2", float(((counts - expected) ** 2 / expected).sum()))
"""


@given(st.lists(st.tuples(st.floats(0, 2, width=32), st.integers(0, 4)), min_size=1, max_size=6))
def test_expansion(batch: list[tuple[float, int]]) -> None:
    values = torch.tensor([v for v, _ in batch])
    counts = torch.tensor([c for _, c in batch])
    total = int(counts.sum())
    expanded = expand_batch_to_tokens(values, counts.cumsum(0).int(), total, replace_from=0, replace_to=1)
    assert expanded.tolist() == [
        v or 1.0 for v, c in zip(values.tolist(), counts.tolist(), strict=True) for _ in range(c)
    ]


@pytest.mark.engine
def test_samples_follow_the_targets_distribution() -> None:
    temperatures = ["1.0", "0.5"]
    ended = subprocess.run(
        [sys.executable, "-c", SAMPLES, *temperatures], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr[-2000:]
    distances = [float(line) for line in re.findall(r"CHI2 (\S+)", ended.stdout)]
    assert len(distances) == len(temperatures)
    # Three degrees of freedom: 21 is passed by chance once in ten thousand runs.
    assert all(distance < 21 for distance in distances), distances
