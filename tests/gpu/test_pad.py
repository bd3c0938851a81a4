"""A padded model computes what the model did: the target in transformers, the drafters that ship in torch."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM

from gpu.pad import pad, pad_pair, padded_config
from training.export import load_drafter

# Engines start beside these tests: two threads that wait for each other would take ten times as long.
torch.set_num_threads(1)
DRAFTERS = Path(__file__).parents[2] / "assets" / "drafters"


@pytest.fixture
def target(tmp_path: Path) -> Path:
    """A small Llama with SmolLM2's numbers of heads, and random weights."""
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=64,
        hidden_size=36,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=9,
        num_key_value_heads=3,
        initializer_range=0.5,
    )
    LlamaForCausalLM(config).save_pretrained(tmp_path / "made")
    (tmp_path / "made" / "tokenizer.json").write_text("{}")
    return tmp_path / "made"


def logits(folder: Path) -> torch.Tensor:
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    with torch.no_grad():
        return model(torch.arange(20)[None]).logits


def test_a_padded_target_gives_the_same_logits(target: Path, tmp_path: Path) -> None:
    pad(target, tmp_path / "out")
    config = json.loads((tmp_path / "out" / "config.json").read_text())
    assert (config["num_attention_heads"], config["num_key_value_heads"], config["head_dim"]) == (12, 4, 4)
    assert (tmp_path / "out" / "tokenizer.json").is_file()
    before, after = logits(target), logits(tmp_path / "out")
    assert before.std() > 0.1
    torch.testing.assert_close(after, before, rtol=1e-5, atol=1e-5)


def test_new_heads_elsewhere_would_be_seen(target: Path, tmp_path: Path) -> None:
    """The new heads must come last: put first, they change which queries belong to which key head."""
    pad(target, tmp_path / "out")
    file = tmp_path / "out" / "model.safetensors"
    tensors = {k: t.roll(4, 0) if "q_proj" in k else t for k, t in load_file(file).items()}
    save_file(tensors, file, metadata={"format": "pt"})
    assert not torch.allclose(logits(tmp_path / "out"), logits(target), rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize(
    ("heads", "parts", "padded"),
    [
        ((9, 3), 2, (12, 4)),
        ((9, 3), 3, (9, 3)),
        ((9, 3), 4, (12, 4)),
        ((8, 8), 3, (9, 9)),
        ((8, 2), 2, (8, 2)),
    ],
)
def test_key_heads_are_divided_and_keep_their_queries(
    heads: tuple[int, int], parts: int, padded: tuple[int, int]
) -> None:
    config = {"num_attention_heads": heads[0], "num_key_value_heads": heads[1], "hidden_size": heads[0] * 64}
    found = padded_config(config, parts)
    assert (found["num_attention_heads"], found["num_key_value_heads"]) == padded
    assert found["head_dim"] == 64


@pytest.mark.parametrize("name", ["smollm2-135m-instruct-dflash-b8", "smollm2-135m-instruct-eagle3"])
@torch.no_grad()
def test_a_padded_drafter_drafts_the_same(name: str, target: Path, tmp_path: Path) -> None:
    _, folder = pad_pair(target, DRAFTERS / name, tmp_path / "out")
    torch.manual_seed(0)
    words = torch.randn(49152, 576)
    there = SimpleNamespace(embedding=words, head=words, device="cpu", dtype=torch.float32)
    features, tokens = torch.randn(1, 24, 5 * 576), torch.randint(49152, (1, 24))
    starts = torch.arange(4, 20)[None]
    drafted = []
    for one in (DRAFTERS / name, folder):
        drafter = load_drafter(one, there)  # type: ignore[arg-type]
        lengths = torch.full_like(starts, 6)
        drafted.append(drafter.draft(features, tokens, starts, lengths, 6))
    assert drafter.config.target.heads == 12
    assert drafted[0].std() > 0.1
    torch.testing.assert_close(drafted[1], drafted[0], rtol=1e-4, atol=1e-4)


def test_biases_are_refused(target: Path, tmp_path: Path) -> None:
    config = json.loads((target / "config.json").read_text())
    (target / "config.json").write_text(json.dumps({**config, "attention_bias": True}))
    with pytest.raises(ValueError, match="biases"):
        pad(target, tmp_path / "out")
