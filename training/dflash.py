"""The DFlash drafter (arXiv:2602.06036) in plain torch.

One forward pass drafts a whole block: slot 0 holds the anchor, the other slots the mask token.
Every layer attends from the block to itself (both ways) and to the context, whose keys and values
come from the target's hidden states through ``fc`` and ``hidden_norm``, not from drafter states.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from training.blocks import GROUP, make_blocks
from training.drafter import DecoderLayer, Drafter, DrafterConfig
from training.layers import fold_query_heads, rms_norm, rotate, unfold_query_heads
from training.target import TargetConfig


class Layer(DecoderLayer):
    """A Qwen3 decoder layer whose context keys and values are projected from elsewhere."""

    def __init__(self, c: TargetConfig) -> None:
        super().__init__(c, c.hidden)
        self.q_norm = nn.Parameter(torch.ones(c.head_dim))
        # vLLM's CPU kernel normalises the context keys of all layers with the first layer's
        # weight, so the key norm stays at one; its scale lives in ``q_norm``.
        self.register_buffer("k_norm", torch.ones(c.head_dim))

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
        return self.finish(flat, unfold_query_heads(out, slots)).view(batch, groups, slots, -1)


class DFlashDrafter(Drafter):
    """Layers that read the fused target states, over blocks of masks."""

    architecture = "DFlashDraftModel"
    model_type = "qwen3"

    def __init__(self, config: DrafterConfig, embedding: Tensor, head: Tensor, draft_ids: Tensor) -> None:
        super().__init__(config, embedding, head, draft_ids)
        self.hidden_norm = nn.Parameter(torch.ones(config.target.hidden))
        self.layers = nn.ModuleList(Layer(config.target) for _ in range(config.layers))

    def forward(self, features: Tensor, anchors: Tensor, positions: Tensor, mask: Tensor) -> Tensor:
        """Hidden states of all slots, [B, G, Q, hidden].

        features: [B, T, n * hidden]; anchors: token of slot 0 of each block [B, G, blocks];
        positions: of all slots [B, G, Q] with Q = blocks * block length; mask: see ``Layer``.
        """
        fused = rms_norm(self.fuse(features), self.hidden_norm, self.config.target.eps)
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

    def draft(self, features: Tensor, tokens: Tensor, starts: Tensor, lengths: Tensor, size: int) -> Tensor:
        """See ``Drafter.draft``; A must be a multiple of ``GROUP``."""
        c = self.config.target
        blocks = make_blocks(tokens, starts, lengths, size, c.heads // c.kv_heads)
        hidden = self(features, blocks.anchors, blocks.positions, blocks.mask)
        return hidden.unflatten(2, (GROUP, size))[..., 1:, :].flatten(1, 2)

    def own_settings(self) -> dict[str, Any]:
        """Block size, and the keys in which vLLM looks for a DFlash drafter's wiring."""
        c = self.config
        return {
            "block_size": c.block_size,
            "num_target_layers": c.target.layers,
            "dflash_config": {
                "mask_token_id": c.mask_token_id,
                "target_layer_ids": list(c.target_layer_ids),
            },
        }

    @staticmethod
    def read_config(raw: dict[str, Any], target: TargetConfig) -> DrafterConfig:
        """Undo ``own_settings``."""
        return DrafterConfig(
            target=target,
            layers=raw["num_hidden_layers"],
            block_size=raw["block_size"],
            target_layer_ids=tuple(raw["dflash_config"]["target_layer_ids"]),
            mask_token_id=raw["dflash_config"]["mask_token_id"],
        )
