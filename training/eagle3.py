"""The EAGLE-3 head (arXiv:2503.01840) in plain torch, wired as vLLM runs it.

One Llama layer drafts token by token. Its entry at position t joins the target's fused hidden state
there with the embedding of token t + 1, and predicts token t + 2. Where no target state is known yet,
the layer's own output before the last norm takes its place: that is the chain of a draft. Training
runs the chain as decoding does ("training-time test"), with the text's tokens as its inputs: a draft
counts only as long as its tokens are the text's, so the accepted prefix comes out the same.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from training.drafter import DecoderLayer, Drafter, DrafterConfig
from training.layers import fold_query_heads, rms_norm, rotate, unfold_query_heads
from training.target import TargetConfig

Pair = tuple[Tensor, Tensor]


class Layer(DecoderLayer):
    """A Llama decoder layer whose attention reads an embedding beside a hidden state."""

    def __init__(self, c: TargetConfig) -> None:
        super().__init__(c, 2 * c.hidden)
        self.hidden_norm = nn.Parameter(torch.ones(c.hidden))

    def entry(self, embedded: Tensor, hidden: Tensor) -> Tensor:
        """Both parts normed, side by side: [..., 2 * hidden]."""
        parts = (
            rms_norm(embedded.to(hidden.dtype), self.input_layernorm, self.c.eps),
            rms_norm(hidden, self.hidden_norm, self.c.eps),
        )
        return torch.cat(parts, -1)

    def keys_values(self, entry: Tensor, tables: Tensor) -> Pair:
        """Rotated keys and values of ``entry`` [B, T, 2 * hidden]: [B, kv_heads, T, D] each."""
        keys = rotate(self._heads(self.k_proj(entry)), tables)
        return keys.transpose(1, 2), self._heads(self.v_proj(entry)).transpose(1, 2)

    def forward(
        self, entry: Tensor, hidden: Tensor, tables: Tensor, context: Pair, past: Tensor, chain: list[Pair]
    ) -> Tensor:
        """One step of all chains: the new hidden state [B, A, hidden].

        entry: [B, A, 2 * hidden] of each chain; hidden: its residual; tables: RoPE rows [B, A, ...];
        context: keys and values of the text [B, kv_heads, T, D]; past: True where a chain may look,
        [B, A, T]; chain: keys and values [B, kv_heads, A, D] of each chain's own earlier entries.
        """
        kv_heads, scale = self.c.kv_heads, self.c.head_dim**-0.5
        q = fold_query_heads(rotate(self._heads(self.q_proj(entry)), tables), kv_heads) * scale
        group = q.shape[2] // entry.shape[1]
        unseen = ~past.repeat(1, group, 1)[:, None]
        scores = [(q @ context[0].mT).masked_fill(unseen, -torch.inf)]
        repeated = [[part.repeat(1, 1, group, 1) for part in pair] for pair in chain]
        scores += [(q * keys).sum(-1, keepdim=True) for keys, _ in repeated]
        weights = torch.cat(scores, -1).float().softmax(-1).to(q.dtype)
        columns = past.shape[2]
        out = weights[..., :columns] @ context[1]
        for column, (_, values) in enumerate(repeated, columns):
            out = out + weights[..., column, None] * values
        return self.finish(hidden, unfold_query_heads(out, entry.shape[1]))


class Eagle3Drafter(Drafter):
    """The layer, and its unrolling along chains."""

    architecture = "LlamaForCausalLMEagle3"
    model_type = "llama"
    marks_draftable = True

    def __init__(self, config: DrafterConfig, embedding: Tensor, head: Tensor, draft_ids: Tensor) -> None:
        super().__init__(config, embedding, head, draft_ids)
        if config.layers != 1:
            raise ValueError("an EAGLE-3 head has one layer")
        self.midlayer = Layer(config.target)

    def draft(self, features: Tensor, tokens: Tensor, starts: Tensor, lengths: Tensor, size: int) -> Tensor:
        """See ``Drafter.draft``; a chain's beginning does not depend on its length.

        Nothing precedes an anchor at position 0; what is drafted there has no meaning.
        """
        fused, layer = self.fuse(features), self.midlayer
        embedded = F.embedding(tokens, self.embedding)
        columns = tokens.shape[1]
        text = layer.entry(embedded.roll(-1, 1), fused)  # nobody looks at the last column
        context = layer.keys_values(text, self.rope[:columns])
        behind = starts.clamp_min(1)
        past = torch.arange(columns, device=tokens.device) < behind[..., None]
        hidden = gather_rows(fused, behind - 1)
        chain: list[Pair] = []
        drafted = []
        for step in range(size - 1):
            entry = layer.entry(gather_rows(embedded, (behind + step).clamp_max(columns - 1)), hidden)
            tables = self.rope[behind - 1 + step]
            if step:  # the first entry is the context's last
                chain.append(layer.keys_values(entry, tables))
            hidden = layer(entry, hidden, tables, context, past, chain)
            drafted.append(rms_norm(hidden, self.norm, self.config.target.eps))
        return torch.stack(drafted, 2)

    def own_settings(self) -> dict[str, Any]:
        """vLLM numbers a layer's output by the layer that reads it, hence the + 1."""
        c = self.config
        return {
            "num_unrolled_steps": c.block_size - 1,
            "num_target_layers": c.target.layers,
            "eagle_config": {
                "use_aux_hidden_state": True,
                "eagle_aux_hidden_state_layer_ids": [number + 1 for number in c.target_layer_ids],
            },
        }

    @staticmethod
    def read_config(raw: dict[str, Any], target: TargetConfig) -> DrafterConfig:
        """Undo ``own_settings``."""
        read = raw["eagle_config"]["eagle_aux_hidden_state_layer_ids"]
        return DrafterConfig(
            target=target,
            layers=raw["num_hidden_layers"],
            block_size=raw["num_unrolled_steps"] + 1,
            target_layer_ids=tuple(number - 1 for number in read),
        )


def gather_rows(x: Tensor, where: Tensor) -> Tensor:
    """Rows of ``x`` [B, T, H] at ``where`` [B, A]: [B, A, H]."""
    return x.gather(1, where[..., None].expand(-1, -1, x.shape[2]))
