"""A tiny random target with a real tokenizer's special tokens, and tiny written data."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer, models, pre_tokenizers
from tokenizers.decoders import ByteLevel

from training.target import Target, TargetConfig

# Engines start beside these tests: two threads that wait for each other would take ten times as long.
torch.set_num_threads(1)
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]


@pytest.fixture(scope="session")
def tokenizer() -> Tokenizer:
    """Bytes and three special tokens, ids as SmolLM2 has them."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocab = {token: index for index, token in enumerate([*SPECIAL, *alphabet])}
    made = Tokenizer(models.BPE(vocab=vocab, merges=[]))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = ByteLevel()
    made.add_special_tokens(SPECIAL)
    return made


def random_weights(config: TargetConfig, seed: int) -> dict[str, torch.Tensor]:
    """Weights of a Llama model with tied embeddings."""
    generator = torch.Generator().manual_seed(seed)
    sizes = {
        "self_attn.q_proj": (config.heads * config.head_dim, config.hidden),
        "self_attn.k_proj": (config.kv_heads * config.head_dim, config.hidden),
        "self_attn.v_proj": (config.kv_heads * config.head_dim, config.hidden),
        "self_attn.o_proj": (config.hidden, config.heads * config.head_dim),
        "mlp.gate_proj": (config.intermediate, config.hidden),
        "mlp.up_proj": (config.intermediate, config.hidden),
        "mlp.down_proj": (config.hidden, config.intermediate),
    }
    weights = {"model.embed_tokens.weight": torch.randn(config.vocab, config.hidden)}
    for layer in range(config.layers):
        for name, shape in sizes.items():
            value = torch.randn(shape, generator=generator) * shape[1] ** -0.5
            weights[f"model.layers.{layer}.{name}.weight"] = value
        for name in ("input_layernorm", "post_attention_layernorm"):
            weights[f"model.layers.{layer}.{name}.weight"] = torch.ones(config.hidden)
    weights["model.norm.weight"] = torch.ones(config.hidden)
    return weights


@pytest.fixture(scope="session")
def target() -> Target:
    """Four layers of 32 channels over the byte vocabulary."""
    config = TargetConfig(
        layers=4,
        hidden=32,
        intermediate=64,
        heads=4,
        kv_heads=2,
        head_dim=8,
        vocab=260,
        max_positions=256,
        eps=1e-5,
        theta=10000.0,
    )
    torch.manual_seed(0)
    return Target(config, random_weights(config, 0))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where a test may write."""
    return tmp_path


def save_target(config: TargetConfig, tokenizer: Tokenizer, folder: Path) -> None:
    """Write a checkpoint that ``Target.load`` reads."""
    raw = {
        "num_hidden_layers": config.layers,
        "hidden_size": config.hidden,
        "intermediate_size": config.intermediate,
        "num_attention_heads": config.heads,
        "num_key_value_heads": config.kv_heads,
        "head_dim": config.head_dim,
        "vocab_size": config.vocab,
        "max_position_embeddings": config.max_positions,
        "rms_norm_eps": config.eps,
        "rope_theta": config.theta,
    }
    (folder / "config.json").write_text(json.dumps(raw))
    tokenizer.save(str(folder / "tokenizer.json"))
    save_file(random_weights(config, 1), folder / "model.safetensors")


@pytest.fixture
def target_folder(target: Target, tokenizer: Tokenizer, tmp_path: Path) -> Path:
    """A checkpoint as narrow as ``target``, with the embedded target's 30 layers."""
    folder = tmp_path / "target"
    folder.mkdir()
    save_target(dataclasses.replace(target.config, layers=30), tokenizer, folder)
    return folder
