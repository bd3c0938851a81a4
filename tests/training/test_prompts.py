"""Prompts: varied, filled in, and true where they state results."""

from __future__ import annotations

import doctest
import random

import pytest

from training.data import KINDS
from training.prompts import user_turn
from training.prompts.code import stub


def test_turns_are_filled_in_and_varied() -> None:
    rng = random.Random(0)
    turns = [user_turn(rng) for _ in range(3000)]
    assert {turn.kind for turn in turns} == set(KINDS)
    written = [turn.before for turn in turns if not turn.invented]
    assert len(set(written)) > 0.95 * len(written)
    assert all(turn.before or turn.invented for turn in turns)


@pytest.mark.parametrize("seed", range(20))
def test_examples_in_stubs_parse(seed: int) -> None:
    text = stub(random.Random(seed))
    examples = doctest.DocTestParser().get_examples(text)
    assert examples
    assert all(example.want for example in examples)
    compile(text, "stub", "exec")
