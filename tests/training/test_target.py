"""The plain target against transformers' Llama, and its decode steps against whole sequences."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

from training.target import Cache, Target


def test_equals_transformers(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    config = transformers.LlamaConfig(
        vocab_size=128,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=64,
        tie_word_embeddings=True,
    )
    model = transformers.LlamaForCausalLM(config).float().eval()
    model.save_pretrained(tmp_path)
    target = Target.load(tmp_path, "cpu", torch.float32)
    tokens = torch.randint(0, 128, (2, 20))
    with torch.no_grad():
        expected = model(tokens, output_hidden_states=True)
    features, last = target.forward(tokens, (0, 1))
    torch.testing.assert_close(last @ target.head.T, expected.logits, atol=1e-4, rtol=1e-4)
    states = torch.cat(expected.hidden_states[1:3], -1)
    torch.testing.assert_close(features, states, atol=1e-4, rtol=1e-4)


def test_decode_steps_equal_a_whole_sequence(target: Target) -> None:
    tokens = torch.randint(3, 200, (3, 12))
    cache = Cache.empty(target, 3, 12)
    steps = [target.decode(tokens[:, i], torch.tensor([i]), cache) for i in range(12)]
    _, last = target.forward(tokens)
    torch.testing.assert_close(torch.stack(steps, 1), last @ target.head.T, atol=1e-4, rtol=1e-4)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="the kernel runs on a GPU")
@pytest.mark.parametrize("column", [0, 63, 64, 200])
def test_kernel_equals_general_attention(column: int) -> None:
    from training.decode_kernel import attend

    keys, values = torch.randn(2, 5, 3, 256, 64, device="cuda", dtype=torch.bfloat16)
    q = torch.randn(5, 3, 3, 64, device="cuda", dtype=torch.bfloat16)
    out = attend(q, keys, values, torch.tensor([column], device="cuda"))
    expected = F.scaled_dot_product_attention(q, keys[:, :, : column + 1], values[:, :, : column + 1])
    torch.testing.assert_close(out, expected, atol=2e-2, rtol=2e-2)
