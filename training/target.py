"""The target in plain torch: a Llama decoder read from safetensors.

Generation and training need two things that a general library does slowly or not at all: decode
steps of thousands of rows that share one cache column, and the outputs of chosen layers.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from torch import Tensor

from training.layers import fold_query_heads, rms_norm, rope_tables, rotate, unfold_query_heads


@dataclass(frozen=True)
class TargetConfig:
    """Shape of a Llama model; sizes in channels, tokens or layers."""

    layers: int
    hidden: int
    intermediate: int
    heads: int
    kv_heads: int
    head_dim: int
    vocab: int
    max_positions: int
    eps: float
    theta: float

    @classmethod
    def read(cls, folder: Path) -> TargetConfig:
        """Read ``config.json`` of a Llama checkpoint, old or new spelling of the RoPE base."""
        raw = json.loads((folder / "config.json").read_text())
        rope = raw.get("rope_parameters") or {}
        heads = raw["num_attention_heads"]
        return cls(
            layers=raw["num_hidden_layers"],
            hidden=raw["hidden_size"],
            intermediate=raw["intermediate_size"],
            heads=heads,
            kv_heads=raw["num_key_value_heads"],
            head_dim=raw.get("head_dim") or raw["hidden_size"] // heads,
            vocab=raw["vocab_size"],
            max_positions=raw["max_position_embeddings"],
            eps=raw["rms_norm_eps"],
            theta=float(rope.get("rope_theta") or raw.get("rope_theta", 10000.0)),
        )


@dataclass
class Cache:
    """Keys and values of rows that all started at column 0: [layers, 2, B, kv_heads, T, D]."""

    data: Tensor

    @classmethod
    def empty(cls, target: Target, rows: int, columns: int) -> Cache:
        """Room for ``rows`` sequences of ``columns`` tokens."""
        c = target.config
        shape = (c.layers, 2, rows, c.kv_heads, columns, c.head_dim)
        return cls(torch.empty(shape, dtype=target.dtype, device=target.device))


class Target:
    """Frozen weights and the two ways of running them."""

    def __init__(self, config: TargetConfig, weights: dict[str, Tensor]) -> None:
        self.config = config
        self.w = weights
        self.embedding = weights["model.embed_tokens.weight"]
        self.head = weights.get("lm_head.weight", self.embedding)
        self.device, self.dtype = self.embedding.device, self.embedding.dtype
        self.rope = rope_tables(config.max_positions, config.head_dim, config.theta, self.device)

    @classmethod
    def load(cls, folder: Path, device: str, dtype: torch.dtype) -> Target:
        """Read every safetensors file in ``folder``."""
        weights: dict[str, Tensor] = {}
        for path in sorted(folder.glob("*.safetensors")):
            weights.update(load_file(path))
        placed = {name: value.to(device, dtype) for name, value in weights.items()}
        return cls(TargetConfig.read(folder), placed)

    def _qkv(self, layer: int, x: Tensor, tables: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Rotated queries and keys, and values: [B, Q, heads or kv_heads, D]."""
        c, name = self.config, f"model.layers.{layer}."
        normed = rms_norm(x, self.w[name + "input_layernorm.weight"], c.eps)

        def project(which: str) -> Tensor:
            out = F.linear(normed, self.w[f"{name}self_attn.{which}_proj.weight"])
            return out.unflatten(-1, (-1, c.head_dim))

        return rotate(project("q"), tables), rotate(project("k"), tables), project("v")

    def _finish(self, layer: int, x: Tensor, attended: Tensor) -> Tensor:
        """Output projection and feed-forward part, both added to the residual ``x``."""
        name = f"model.layers.{layer}."
        x = x + F.linear(attended, self.w[name + "self_attn.o_proj.weight"])
        normed = rms_norm(x, self.w[name + "post_attention_layernorm.weight"], self.config.eps)
        gate = F.silu(F.linear(normed, self.w[name + "mlp.gate_proj.weight"]))
        up = F.linear(normed, self.w[name + "mlp.up_proj.weight"])
        return x + F.linear(gate * up, self.w[name + "mlp.down_proj.weight"])

    def forward(self, tokens: Tensor, layer_ids: tuple[int, ...] = ()) -> tuple[Tensor, Tensor]:
        """Run whole sequences ``tokens`` [B, T].

        Returns the outputs of ``layer_ids`` (counted from 0) side by side, [B, T, n * hidden], and
        the normed last hidden states [B, T, hidden], from which ``head`` makes logits.
        """
        c = self.config
        tables = self.rope[: tokens.shape[1]]
        x = F.embedding(tokens, self.embedding)
        kept: list[Tensor] = [x.new_empty(*x.shape[:2], 0)]
        group = c.heads // c.kv_heads
        for layer in range(c.layers):
            q, k, v = (part.transpose(1, 2) for part in self._qkv(layer, x, tables))
            k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
            out = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = self._finish(layer, x, out.transpose(1, 2).flatten(2))
            if layer in layer_ids:
                kept.append(x)
        return torch.cat(kept, -1), rms_norm(x, self.w["model.norm.weight"], c.eps)

    def decode(self, tokens: Tensor, column: Tensor, cache: Cache) -> Tensor:
        """Feed one token per row, ``tokens`` [B], at ``column``; returns logits [B, vocab].

        All rows share the column (a tensor of one integer, so that the step can be recorded as a
        CUDA graph): writing to the cache is one indexed copy, and attention needs no mask.
        """
        c = self.config
        tables = self.rope.index_select(0, column)
        x = F.embedding(tokens, self.embedding)[:, None]
        for layer in range(c.layers):
            q, k, v = self._qkv(layer, x, tables)
            keys, values = cache.data[layer]
            keys.index_copy_(2, column, k.transpose(1, 2))
            values.index_copy_(2, column, v.transpose(1, 2))
            out = attend_columns(fold_query_heads(q, c.kv_heads), keys, values, column)
            x = self._finish(layer, x, unfold_query_heads(out, 1))
        return F.linear(rms_norm(x[:, 0], self.w["model.norm.weight"], c.eps), self.head)


def attend_columns(q: Tensor, keys: Tensor, values: Tensor, column: Tensor) -> Tensor:
    """Attention of ``q`` [B, kv_heads, group, D] over the first ``column`` + 1 keys and values."""
    if q.is_cuda:
        from training.decode_kernel import attend  # Triton exists with CUDA only

        return attend(q, keys, values, column)
    length = int(column) + 1
    return F.scaled_dot_product_attention(q, keys[:, :, :length], values[:, :, :length])
