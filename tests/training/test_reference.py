"""The reference decoder and vLLM accept the same drafted tokens at every step."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from tokenizers import Tokenizer

from dflash_viz.lanes import Fleet
from dflash_viz.weights import resolve_model

ROOT = Path(__file__).parents[2]
PROMPTS = [
    "Explain how rain forms.",
    "Tom has 12 pears and buys 5 boxes with 6 pears each. How many pears does he have?",
    "Write a Python function that returns the even numbers of a list.",
]
NEW_TOKENS = 32


@pytest.mark.engine
@pytest.mark.parametrize("name", ["dflash", "eagle3"])
def test_accepted_counts_equal_vllms_in_float32(fleet: Fleet, name: str) -> None:
    from training.export import load_drafter
    from training.reference import greedy_texts, reference_steps
    from training.server import accepted_per_step
    from training.target import Target

    lane, folder = fleet.lanes[name], resolve_model("embedded")
    k = lane.spec.num_speculative_tokens
    assert lane._server is not None
    measured = accepted_per_step(lane._server.url, PROMPTS, NEW_TOKENS)
    target = Target.load(folder, "cpu", torch.float32)
    drafter = load_drafter(ROOT / (lane.spec.drafter or ""), target)
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    expected = [
        reference_steps(target, drafter, text, start, k, NEW_TOKENS)
        for text, start in greedy_texts(target, tokenizer, PROMPTS, NEW_TOKENS + k)
    ]
    assert measured == expected
