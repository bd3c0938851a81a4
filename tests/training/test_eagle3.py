"""The EAGLE-3 head against plain token-by-token drafting."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from training.drafter import DrafterConfig
from training.eagle3 import Eagle3Drafter
from training.layers import rms_norm, rotate
from training.target import Target

SIZE, COLUMNS, LAYERS = 5, 40, (0, 1, 3)


@pytest.fixture
def drafter(target: Target) -> Eagle3Drafter:
    """A random head over the whole vocabulary."""
    config = DrafterConfig(target.config, 1, SIZE, LAYERS)
    made = Eagle3Drafter(config, target.embedding, target.head, torch.arange(260))
    made.initialise(torch.Generator().manual_seed(3))
    return made


def text(seed: int) -> torch.Tensor:
    """Random tokens, [1, COLUMNS]."""
    return torch.randint(3, 200, (1, COLUMNS), generator=torch.Generator().manual_seed(seed))


@torch.no_grad()
def drafted_one_by_one(drafter: Eagle3Drafter, features: torch.Tensor, tokens: list[int]) -> torch.Tensor:
    """Hidden states of ``SIZE - 1`` drafts behind the last of ``tokens``, as an engine gets them.

    Every entry joins the next token with the state at its own position; the entries of the drafted
    tokens take the layer's last output for a state. ``features`` [T, n * hidden] end before that token.
    """
    layer, c = drafter.midlayer, drafter.config.target
    states = list(drafter.fuse(features))
    following = tokens[1:]
    keys: list[torch.Tensor] = []
    values: list[torch.Tensor] = []
    drafts = []
    position = 0
    while len(drafts) < SIZE - 1:
        state = states[position]
        embedded = rms_norm(drafter.embedding[following[position]], layer.input_layernorm, c.eps)
        entry = torch.cat([embedded, rms_norm(state, layer.hidden_norm, c.eps)])
        tables = drafter.rope[position][None]
        q = rotate(layer.q_proj(entry).view(1, c.heads, c.head_dim), tables)[0]
        keys.append(rotate(layer.k_proj(entry).view(1, c.kv_heads, c.head_dim), tables)[0])
        values.append(layer.v_proj(entry).view(c.kv_heads, c.head_dim))
        group = c.heads // c.kv_heads
        seen = [torch.stack(part, 1).repeat_interleave(group, 0) for part in (keys, values)]
        attended = F.scaled_dot_product_attention(q[:, None], *seen)
        hidden = state + layer.o_proj(attended.flatten())
        normed = rms_norm(hidden, layer.post_attention_layernorm, c.eps)
        hidden = hidden + layer.down_proj(F.silu(layer.gate_proj(normed)) * layer.up_proj(normed))
        position += 1
        if position == len(states):
            drafts.append(rms_norm(hidden, drafter.norm, c.eps))
            states.append(hidden)
            best = drafter.logits(drafts[-1]).argmax()
            following.append(int(drafter.draft_ids[best]))
    return torch.stack(drafts)


@pytest.mark.parametrize("start", [1, 7, COLUMNS - SIZE])
def test_chains_equal_token_by_token_drafting(drafter: Eagle3Drafter, target: Target, start: int) -> None:
    tokens = text(4)
    features, _ = target.forward(tokens, LAYERS)
    known = tokens[0, : start + 1].tolist()
    expected = drafted_one_by_one(drafter, features[0, :start], known)
    drafted = drafter.draft_ids[drafter.logits(expected).argmax(-1)]
    tokens[0, start + 1 : start + SIZE] = drafted  # chains read the text's tokens
    starts = torch.tensor([[start]])
    hidden = drafter.draft(features, tokens, starts, torch.full_like(starts, SIZE), SIZE)
    torch.testing.assert_close(hidden[0, 0], expected, atol=1e-5, rtol=1e-4)


def test_drafts_do_not_depend_on_the_future(drafter: Eagle3Drafter, target: Target) -> None:
    tokens, start = text(5), 11
    changed = tokens.clone()
    changed[0, start + 2 :] = (changed[0, start + 2 :] + 7) % 200
    starts = torch.tensor([[start]])
    before, after = (
        drafter.draft(target.forward(t, LAYERS)[0], t, starts, torch.full_like(starts, SIZE), SIZE)[0, 0]
        for t in (tokens, changed)
    )
    torch.testing.assert_close(before[:2], after[:2])
    assert not torch.allclose(before[2], after[2])


def test_a_head_has_one_layer(target: Target) -> None:
    with pytest.raises(ValueError, match="one layer"):
        Eagle3Drafter(
            DrafterConfig(target.config, 2, SIZE, LAYERS), target.embedding, target.head, torch.arange(9)
        )
