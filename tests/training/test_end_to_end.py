"""Generation, training, export and reading back on a tiny random target."""

from __future__ import annotations

import dataclasses
import json
import random
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from tokenizers import Tokenizer

from training.acceptance import run_lengths
from training.card import write_card
from training.conversation import UserTurn
from training.data import Corpus, loop_mask
from training.export import export, load_drafter, shards_of, stored_name
from training.generate import generate
from training.methods import method_of
from training.target import Target
from training.train import Recipe, Trainer

RECIPE = Recipe(
    layers=2,
    target_layer_ids=(0, 2),
    mask_token_id=200,
    draft_vocab=200,
    sequences=4,
    anchors=32,
    matrix_lr=2e-2,
    seconds=60,
    steps=30,
    held_out=4,
)
EAGLE3 = dataclasses.replace(RECIPE, method="eagle3", layers=1, target_layer_ids=(0, 1, 3), shortened=0)
both = pytest.mark.parametrize("recipe", [RECIPE, EAGLE3], ids=lambda recipe: recipe.method)


def turn(rng: random.Random) -> UserTurn:
    """A written or a half invented user turn."""
    return UserTurn("maths", f"Add {rng.randrange(100)}.", invented=rng.choice([0, 6]), after="?")


@pytest.fixture(scope="module")
def corpus(target: Target, tokenizer: Tokenizer, tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    """24 conversations of 224 tokens, written by the target."""
    out = tmp_path_factory.mktemp("data")
    generate(target, tokenizer, out, rows=24, columns=224, seconds=0, seed=1, source=turn)
    return Corpus.load(out, "cpu")


def test_text_follows_the_script(corpus: Corpus, tokenizer: Tokenizer) -> None:
    text = tokenizer.decode(corpus.tokens[0].tolist(), skip_special_tokens=False)
    assert text.startswith("<|im_start|>system\nYou are a helpful")
    assert "<|im_start|>user\nAdd " in text
    first = int((corpus.marks[0] > 0).long().argmax())
    before = tokenizer.decode(corpus.tokens[0, :first].tolist(), skip_special_tokens=False)
    assert before.endswith("?<|im_end|>\n<|im_start|>assistant\n")


def test_greedy_answers_are_the_targets_argmax(corpus: Corpus, target: Target) -> None:
    tokens = corpus.tokens.long()
    _, last = target.forward(tokens)
    best = (last @ target.head.T).argmax(-1)
    greedy = corpus.marks[:, 1:] == 1
    agree = (best[:, :-1] == tokens[:, 1:])[greedy].float().mean()
    assert greedy.any()
    assert agree > 0.99


@both
def test_a_few_steps_lower_the_loss_and_survive_export(
    recipe: Recipe, corpus: Corpus, target: Target, folder: Path
) -> None:
    trainer = Trainer(target, corpus, recipe, compiled=False)
    early = float(torch.stack([trainer.step(0.5) for _ in range(3)]).mean())
    trainer.train(folder)
    assert trainer.log[-1]["loss"] < early
    tokens = trainer.valid_part.tokens[:2].long()
    starts = torch.arange(tokens.shape[1]).expand(tokens.shape)
    before, after = (
        run_lengths(target, drafter, tokens, starts, recipe.block_size).float()
        for drafter in (trainer.drafter, load_drafter(folder, target))
    )
    assert (before - after).abs().mean() < 0.05  # bfloat16 storage


@both
def test_files_stay_small_and_complete(recipe: Recipe, corpus: Corpus, target: Target, folder: Path) -> None:
    trainer = Trainer(target, corpus, recipe, compiled=False)
    trainer.train(folder)
    write_card(folder, figures_file=None)
    assert f'"method": "{recipe.method}"' in (folder / "README.md").read_text()
    assert method_of(folder) == recipe.method
    stored: dict[str, torch.Tensor] = {}
    for path in folder.glob("*.safetensors"):
        assert path.stat().st_size < 10_000_000
        stored |= load_file(path)
    expected = {stored_name(name) for name in trainer.drafter.state_dict()}
    expected -= {"feature_scale.weight", "draft_ids.weight"}
    assert set(stored) - {"t2d"} == expected | {"d2t", "lm_head.weight"}
    ids = torch.arange(recipe.draft_vocab) + stored["d2t"]
    assert ids.equal(trainer.drafter.draft_ids)
    assert stored["lm_head.weight"].equal(target.head[ids].bfloat16())
    if recipe is EAGLE3:
        assert stored["t2d"].nonzero().squeeze(1).equal(ids)


def test_vllm_finds_the_target_layers_by_the_number_of_their_reader(
    corpus: Corpus, target: Target, folder: Path
) -> None:
    trainer = Trainer(target, corpus, EAGLE3, compiled=False)
    export(trainer.drafter, folder, {})
    config = json.loads((folder / "config.json").read_text())
    assert config["eagle_config"]["eagle_aux_hidden_state_layer_ids"] == [1, 2, 4]
    assert load_drafter(folder, target).config.target_layer_ids == EAGLE3.target_layer_ids


def test_tensors_are_spread_over_small_files() -> None:
    tensors = {str(number): torch.zeros(1_000_000) for number in range(5)}
    shards = shards_of(tensors)
    assert [len(shard) for shard in shards] == [2, 2, 1]


def test_loops_are_found() -> None:
    text = torch.arange(200)
    text[60:] = 60 + torch.arange(140) % 5
    looping = loop_mask(text[None])[0]
    assert not looping[:80].any()
    assert looping[100:].all()
