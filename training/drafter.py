"""The DFlash drafter (arXiv:2602.06036) in plain torch.

One forward pass drafts a whole block: slot 0 holds the anchor, the other slots the mask token.
Every layer attends from the block to itself (both ways) and to the context, whose keys and values
come from the target's hidden states through ``fc`` and ``hidden_norm``, not from drafter states.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from training.layers import fold_query_heads, rms_norm, rope_tables, rotate, unfold_query_heads
from training.target import TargetConfig


@dataclass(frozen=True)
class DrafterConfig:
    """What a drafter adds to its target's shape."""

    target: TargetConfig
    layers: int
    block_size: int
    target_layer_ids: tuple[int, ...]
    mask_token_id: int


class Layer(nn.Module):
    """A Qwen3 decoder layer whose context keys and values are projected from elsewhere."""

    def __init__(self, c: TargetConfig) -> None:
        super().__init__()
        self.c = c
        q_size, kv_size = c.heads * c.head_dim, c.kv_heads * c.head_dim
        self.q_proj = nn.Linear(c.hidden, q_size, bias=False)
        self.k_proj = nn.Linear(c.hidden, kv_size, bias=False)
        self.v_proj = nn.Linear(c.hidden, kv_size, bias=False)
        self.o_proj = nn.Linear(q_size, c.hidden, bias=False)
        self.gate_proj = nn.Linear(c.hidden, c.intermediate, bias=False)
        self.up_proj = nn.Linear(c.hidden, c.intermediate, bias=False)
        self.down_proj = nn.Linear(c.intermediate, c.hidden, bias=False)
        self.q_norm = nn.Parameter(torch.ones(c.head_dim))
        # vLLM's CPU kernel normalises the context keys of all layers with the first layer's
        # weight, so the key norm stays at one; its scale lives in ``q_norm``.
        self.register_buffer("k_norm", torch.ones(c.head_dim))
        self.input_layernorm = nn.Parameter(torch.ones(c.hidden))
        self.post_attention_layernorm = nn.Parameter(torch.ones(c.hidden))

    def _heads(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (-1, self.c.head_dim))

    def keys_values(self, x: Tensor, tables: Tensor) -> tuple[Tensor, Tensor]:
        """Rotated keys and values of ``x`` [B, T, hidden]: [B, kv_heads, T, D] each."""
        keys = rms_norm(self._heads(self.k_proj(x)), self.k_norm, self.c.eps)
        return (
            rotate(keys, tables).transpose(1, 2),
            self._heads(self.v_proj(x)).transpose(1, 2),
        )

    def forward(self, x: Tensor, tables: Tensor, context: tuple[Tensor, Tensor], mask: Tensor) -> Tensor:
        """One layer over groups of blocks.

        x: [B, G, Q, hidden], Q slots of the blocks in each of G groups; tables: RoPE rows of the
        slots; context: keys and values [B, kv_heads, T, D]; mask: True where a slot (repeated for
        the query heads of one key head) may look, [B * G, 1, group * Q, T + Q].
        """
        batch, groups, slots, _ = x.shape
        flat, turns = x.flatten(0, 1), tables.flatten(0, 1)
        normed = rms_norm(flat, self.input_layernorm, self.c.eps)
        q = rotate(rms_norm(self._heads(self.q_proj(normed)), self.q_norm, self.c.eps), turns)
        keys, values = self.keys_values(normed, turns)
        shared = [part[:, None].expand(-1, groups, -1, -1, -1).flatten(0, 1) for part in context]
        out = F.scaled_dot_product_attention(
            fold_query_heads(q, self.c.kv_heads),
            torch.cat([shared[0], keys], 2),
            torch.cat([shared[1], values], 2),
            attn_mask=mask,
        )
        flat = flat + self.o_proj(unfold_query_heads(out, slots))
        normed = rms_norm(flat, self.post_attention_layernorm, self.c.eps)
        flat = flat + self.down_proj(F.silu(self.gate_proj(normed)) * self.up_proj(normed))
        return flat.view(batch, groups, slots, -1)


class Drafter(nn.Module):
    """Layers, the fusion of the target's hidden states, and the frozen shared embedding and head.

    ``feature_scale`` [n * hidden] holds each target channel's deviation; features are divided by
    it (position 0 reaches 25,000), and ``training.export`` folds it into ``fc``.
    ``draft_ids`` [V] are the target ids that the drafter can propose, in ascending order.
    """

    def __init__(self, config: DrafterConfig, embedding: Tensor, head: Tensor, draft_ids: Tensor) -> None:
        super().__init__()
        self.config = config
        t = config.target
        width = len(config.target_layer_ids) * t.hidden
        self.fc = nn.Linear(width, t.hidden, bias=False)
        self.hidden_norm = nn.Parameter(torch.ones(t.hidden))
        self.norm = nn.Parameter(torch.ones(t.hidden))
        self.layers = nn.ModuleList(Layer(t) for _ in range(config.layers))
        rope = rope_tables(t.max_positions, t.head_dim, t.theta, "cpu")
        self.register_buffer("feature_scale", torch.ones(width))
        self.register_buffer("rope", rope, persistent=False)
        self.register_buffer("embedding", embedding, persistent=False)
        self.register_buffer("draft_ids", draft_ids)
        self.register_buffer("head", head[draft_ids.to(head.device)], persistent=False)

    def initialise(self, generator: torch.Generator) -> None:
        """Random start: uniform variance 1 / fan-in, residual outputs scaled down by depth."""
        for name, weight in self.named_parameters():
            if weight.dim() < 2:
                continue
            scale = weight.shape[1] ** -0.5
            if name.endswith(("o_proj.weight", "down_proj.weight")):
                scale *= (2 * len(self.layers)) ** -0.5
            with torch.no_grad():
                weight.copy_(torch.randn(weight.shape, generator=generator) * scale)

    def context(self, features: Tensor) -> Tensor:
        """Fuse target features [B, T, n * hidden] to what the layers project: [B, T, hidden]."""
        scaled = features / self.feature_scale.to(features.dtype)
        return rms_norm(self.fc(scaled), self.hidden_norm, self.config.target.eps)

    def forward(self, features: Tensor, anchors: Tensor, positions: Tensor, mask: Tensor) -> Tensor:
        """Hidden states of all slots, [B, G, Q, hidden].

        features: [B, T, n * hidden]; anchors: token of slot 0 of each block [B, G, blocks];
        positions: of all slots [B, G, Q] with Q = blocks * block length; mask: see ``Layer``.
        """
        fused = self.context(features)
        tables = self.rope[: fused.shape[1]]
        batch, groups, slots = positions.shape
        ids = torch.full(
            (*anchors.shape, slots // anchors.shape[2]),
            self.config.mask_token_id,
            dtype=anchors.dtype,
            device=anchors.device,
        )
        ids = torch.cat([anchors[..., None], ids[..., 1:]], -1).view(batch, groups, slots)
        x = F.embedding(ids, self.embedding).to(fused.dtype)
        turns = self.rope[positions]
        for layer in self.layers:
            x = layer(x, turns, layer.keys_values(fused, tables), mask)
        return rms_norm(x, self.norm, self.config.target.eps)

    def logits(self, hidden: Tensor) -> Tensor:
        """Scores over ``draft_ids`` of hidden states [..., hidden]."""
        return F.linear(hidden, self.head.to(hidden.dtype))
