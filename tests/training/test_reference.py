"""The reference decoder and vLLM accept the same drafted tokens at every step."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from tokenizers import Tokenizer

DRAFTERS = Path(__file__).parents[2] / "assets/drafters"
PROMPTS = [
    "Explain how rain forms.",
    "Tom has 12 pears and buys 5 boxes with 6 pears each. How many pears does he have?",
    "Write a Python function that returns the even numbers of a list.",
]
NEW_TOKENS, K = 48, 7


@pytest.mark.engine
@pytest.mark.parametrize("name", ["smollm2-135m-instruct-dflash-b8", "smollm2-135m-instruct-eagle3"])
def test_accepted_counts_equal_vllms_in_float32(name: str) -> None:
    from dflash_viz.weights import resolve_model
    from training.export import load_drafter
    from training.reference import greedy_texts, reference_steps
    from training.server import accepted_per_step, serve
    from training.target import Target

    folder = resolve_model("embedded")
    with serve(folder, DRAFTERS / name, K, "float32") as url:
        measured = accepted_per_step(url, PROMPTS, NEW_TOKENS)
    target = Target.load(folder, "cpu", torch.float32)
    drafter = load_drafter(DRAFTERS / name, target)
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    expected = [
        reference_steps(target, drafter, text, start, K, NEW_TOKENS)
        for text, start in greedy_texts(target, tokenizer, PROMPTS, NEW_TOKENS + K)
    ]
    assert measured == expected
