"""User turns for the target to answer, all written for this product.

A turn is either written out in full from combinatorial templates, or begun here and continued by
the target, or invented by the target alone. No benchmark text is used or paraphrased.
"""

from __future__ import annotations

import random

from training.conversation import UserTurn
from training.prompts.chat import chat_turn
from training.prompts.code import code_turn
from training.prompts.maths import maths_turn

SOURCES = (maths_turn, code_turn, chat_turn)
SHARES = (0.30, 0.28, 0.27)
"""Of maths, code and chat; the rest is invented by the target alone."""


def free_turn(rng: random.Random) -> UserTurn:
    """A turn that the target invents from its chat template."""
    return UserTurn("free", "", invented=rng.choice((40, 80, 120)))


def user_turn(rng: random.Random) -> UserTurn:
    """One user turn of any kind."""
    source = rng.choices((*SOURCES, free_turn), (*SHARES, 1 - sum(SHARES)))[0]
    return source(rng)


__all__ = ["user_turn"]
