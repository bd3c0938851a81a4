"""The reference decoder and vLLM accept the same drafted tokens at every step."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from tokenizers import Tokenizer

from dflash_viz.lanes import Fleet
from dflash_viz.weights import resolve_model
from training.export import load_drafter
from training.reference import greedy_texts, reference_steps
from training.server import accepted_per_step
from training.target import Target

ROOT = Path(__file__).parents[2]
PROMPTS = [
    "Explain how rain forms.",
    "Tom has 12 pears and buys 5 boxes with 6 pears each. How many pears does he have?",
    "Write a Python function that returns the even numbers of a list.",
]
NEW_TOKENS = 32


@pytest.fixture(scope="module")
def reference() -> Target:
    """The embedded target in plain torch, float32."""
    return Target.load(resolve_model("embedded"), "cpu", torch.float32)


@pytest.fixture(scope="module")
def texts(fleet: Fleet, reference: Target) -> list[tuple[torch.Tensor, int]]:
    """What it answers, whatever the drafter, and where each answer begins."""
    tokenizer = Tokenizer.from_file(str(resolve_model("embedded") / "tokenizer.json"))
    largest_k = max(lane.spec.num_speculative_tokens for lane in fleet.lanes.values())
    return greedy_texts(reference, tokenizer, PROMPTS, NEW_TOKENS + largest_k)


@pytest.mark.engine
@pytest.mark.parametrize("name", ["dflash", "eagle3"])
def test_accepted_counts_equal_vllms_in_float32(
    fleet: Fleet, reference: Target, texts: list[tuple[torch.Tensor, int]], name: str
) -> None:
    lane = fleet.lanes[name]
    k = lane.spec.num_speculative_tokens
    assert lane._server is not None
    measured = accepted_per_step(lane._server.url, PROMPTS, NEW_TOKENS)
    drafter = load_drafter(ROOT / (lane.spec.drafter or ""), reference)
    expected = [reference_steps(reference, drafter, text, start, k, NEW_TOKENS) for text, start in texts]
    assert measured == expected
