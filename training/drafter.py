"""What the drafters of all methods share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from training.layers import rms_norm, rope_tables
from training.target import TargetConfig


@dataclass(frozen=True)
class DrafterConfig:
    """What a drafter adds to its target's shape."""

    target: TargetConfig
    layers: int
    block_size: int
    """Slots that training lays out, the anchor included: 1 + drafted tokens."""
    target_layer_ids: tuple[int, ...]
    """Layers of the target, counted from 0, whose outputs the drafter reads."""
    mask_token_id: int = 0
    """Fills the slots to be drafted (DFlash)."""


class DecoderLayer(nn.Module):
    """Projections and norms of a decoder layer; ``width`` channels go into its attention."""

    def __init__(self, c: TargetConfig, width: int) -> None:
        super().__init__()
        self.c = c
        q_size, kv_size = c.heads * c.head_dim, c.kv_heads * c.head_dim
        self.q_proj = nn.Linear(width, q_size, bias=False)
        self.k_proj = nn.Linear(width, kv_size, bias=False)
        self.v_proj = nn.Linear(width, kv_size, bias=False)
        self.o_proj = nn.Linear(q_size, c.hidden, bias=False)
        self.gate_proj = nn.Linear(c.hidden, c.intermediate, bias=False)
        self.up_proj = nn.Linear(c.hidden, c.intermediate, bias=False)
        self.down_proj = nn.Linear(c.intermediate, c.hidden, bias=False)
        self.input_layernorm = nn.Parameter(torch.ones(c.hidden))
        self.post_attention_layernorm = nn.Parameter(torch.ones(c.hidden))

    def _heads(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (-1, self.c.head_dim))

    def finish(self, x: Tensor, attended: Tensor) -> Tensor:
        """Output projection and feed-forward part, both added to the residual ``x``."""
        x = x + self.o_proj(attended)
        normed = rms_norm(x, self.post_attention_layernorm, self.c.eps)
        return x + self.down_proj(F.silu(self.gate_proj(normed)) * self.up_proj(normed))


class Drafter(nn.Module, ABC):
    """The fusion of the target's hidden states, and the frozen shared embedding and head.

    ``feature_scale`` [n * hidden] holds each target channel's deviation; features are divided by
    it (position 0 reaches 25,000), and ``training.export`` folds it into ``fc``.
    ``draft_ids`` [V] are the target ids that the drafter can propose, in ascending order.
    """

    architecture: ClassVar[str]
    """vLLM's name of it, for the checkpoint's ``config.json``."""
    model_type: ClassVar[str]
    """transformers' name of the kind of layer."""
    marks_draftable: ClassVar[bool] = False
    """Whether checkpoints of the method customarily hold ``t2d``."""

    def __init__(self, config: DrafterConfig, embedding: Tensor, head: Tensor, draft_ids: Tensor) -> None:
        super().__init__()
        self.config = config
        t = config.target
        width = len(config.target_layer_ids) * t.hidden
        self.fc = nn.Linear(width, t.hidden, bias=False)
        self.norm = nn.Parameter(torch.ones(t.hidden))
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
                scale *= (2 * self.config.layers) ** -0.5
            with torch.no_grad():
                weight.copy_(torch.randn(weight.shape, generator=generator) * scale)

    def fuse(self, features: Tensor) -> Tensor:
        """Target features [B, T, n * hidden] in the drafter's own channels: [B, T, hidden]."""
        return self.fc(features / self.feature_scale.to(features.dtype))

    def logits(self, hidden: Tensor) -> Tensor:
        """Scores over ``draft_ids`` of hidden states [..., hidden]."""
        return F.linear(hidden, self.head.to(hidden.dtype))

    @abstractmethod
    def draft(self, features: Tensor, tokens: Tensor, starts: Tensor, lengths: Tensor, size: int) -> Tensor:
        """Hidden states of the ``size - 1`` slots behind each anchor, [B, A, size - 1, hidden].

        features: [B, T, n * hidden] of the text ``tokens`` [B, T]; the anchors are its tokens at
        ``starts`` [B, A], of which nothing but the token is known; of each block's slots the first
        ``lengths`` [B, A] exist, the anchor included.
        """

    @abstractmethod
    def own_settings(self) -> dict[str, Any]:
        """What the method adds to the checkpoint's ``config.json``."""

    @staticmethod
    @abstractmethod
    def read_config(raw: dict[str, Any], target: TargetConfig) -> DrafterConfig:
        """Undo ``own_settings``, given the whole ``config.json`` and the shape it holds."""
