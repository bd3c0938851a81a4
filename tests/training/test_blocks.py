"""Masks, labels and weights of draft blocks."""

from __future__ import annotations

import math

import pytest
import torch

from training.acceptance import accepted_run, walk
from training.blocks import (
    GROUP,
    attention_mask,
    gather_ahead,
    label_weights,
    make_blocks,
    position_weights,
    sample_starts,
)
from training.dflash import DFlashDrafter
from training.drafter import DrafterConfig
from training.target import Target

SIZE, COLUMNS = 4, 64


@pytest.fixture
def starts() -> torch.Tensor:
    """16 anchors of one sequence, [1, 1, GROUP]."""
    return torch.arange(2, 2 + 3 * GROUP, 3).view(1, 1, GROUP)


def test_a_slot_sees_the_past_before_its_anchor_and_its_own_block(starts: torch.Tensor) -> None:
    lengths = torch.full_like(starts, SIZE)
    mask = attention_mask(starts, lengths, SIZE, COLUMNS)[0, 0]
    for slot in range(GROUP * SIZE):
        block = slot // SIZE
        seen = mask[slot].nonzero().squeeze(1).tolist()
        past = list(range(int(starts[0, 0, block])))
        own = [COLUMNS + block * SIZE + offset for offset in range(SIZE)]
        assert seen == past + own


def test_nobody_sees_slots_that_a_shortened_block_lacks(starts: torch.Tensor) -> None:
    mask = attention_mask(starts, torch.full_like(starts, 2), SIZE, COLUMNS)[0, 0]
    offsets = torch.arange(GROUP * SIZE) % SIZE
    assert not mask[:, COLUMNS:][:, offsets >= 2].any()


def test_drafts_do_not_depend_on_the_future(target: Target, starts: torch.Tensor) -> None:
    config = DrafterConfig(target.config, 2, SIZE, (0, 2), 200)
    drafter = DFlashDrafter(config, target.embedding, target.head, torch.arange(260))
    drafter.initialise(torch.Generator().manual_seed(3))
    tokens = torch.randint(3, 200, (1, COLUMNS), generator=torch.Generator().manual_seed(4))
    changed = tokens.clone()
    anchor = int(starts[0, 0, 5])
    changed[0, anchor + 1 :] = (changed[0, anchor + 1 :] + 7) % 200
    outputs = []
    for text in (tokens, changed):
        features, _ = target.forward(text, (0, 2))
        blocks = make_blocks(text, starts[0], torch.full_like(starts[0], SIZE), SIZE, 2)
        outputs.append(drafter(features, blocks.anchors, blocks.positions, blocks.mask))
    before, after = (out.view(GROUP, SIZE, -1) for out in outputs)
    torch.testing.assert_close(before[:6], after[:6])
    assert not torch.allclose(before[8:], after[8:])


def test_weights_decay_and_end_at_the_first_label_that_does_not_count() -> None:
    decay = position_weights(SIZE, 4.0, "cpu")
    assert decay.tolist() == pytest.approx([1, math.exp(-1 / 4), math.exp(-2 / 4)])
    starts = torch.arange(GROUP)[None]
    lengths = torch.full_like(starts, SIZE)
    answers = torch.ones(1, COLUMNS, dtype=torch.bool)
    labels = answers.clone()
    labels[0, 5] = False
    answers[0, 9] = labels[0, 9] = False
    weights = label_weights(starts, lengths, answers, labels, SIZE, 4.0)[0]
    torch.testing.assert_close(weights[0], decay)
    torch.testing.assert_close(weights[3], decay * torch.tensor([1, 0, 0]))
    torch.testing.assert_close(weights[5], decay)  # a rare token is a fair anchor
    assert weights[9].sum() == 0


def test_shortened_blocks_have_no_weight_behind_their_end() -> None:
    starts = torch.arange(GROUP)[None]
    everything = torch.ones(1, COLUMNS, dtype=torch.bool)
    weights = label_weights(starts, torch.full_like(starts, 2), everything, everything, SIZE, 4.0)
    assert (weights > 0).sum(-1).unique().tolist() == [1]


def test_anchors_are_drawn_from_trainable_positions_first() -> None:
    trainable = torch.zeros(2, COLUMNS, dtype=torch.bool)
    trainable[:, 20:40] = True
    drawn = sample_starts(trainable, GROUP, torch.Generator().manual_seed(0))
    assert trainable.gather(1, drawn).all()
    assert all(len(set(row)) == GROUP for row in drawn.tolist())


def test_labels_are_the_tokens_behind_the_anchor() -> None:
    values = torch.arange(10)[None]
    ahead = gather_ahead(values, torch.tensor([[0, 7]]), SIZE, -1)
    assert ahead.tolist() == [[[1, 2, 3], [8, 9, -1]]]


def test_walk_steps_over_accepted_tokens() -> None:
    drafted = torch.tensor([[1, 2, 9], [4, 9, 6]])
    assert accepted_run(drafted, torch.tensor([[1, 2, 3], [4, 5, 6]])).tolist() == [2, 1]
    lengths = torch.tensor([0, 2, 0, 0, 1, 0, 0, 3])
    assert walk(lengths, 1, 7) == [2, 1, 0]
