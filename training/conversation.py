"""Scripts of whole conversations, which the target fills in."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from training.data import KINDS

SYSTEM = "You are a helpful AI assistant named SmolLM, trained by Hugging Face"
"""What SmolLM2's chat template puts first when a conversation has no system message."""
TEMPERATURES, TEMPERATURE_SHARES = (0.0, 0.7, 1.0), (0.7, 0.2, 0.1)
"""Of answers. Acceptance is judged on greedy text, so most of the data is greedy."""
ANSWER_LIMIT = 320
"""Tokens after which an answer is cut, so that a sequence holds several."""


@dataclass(frozen=True)
class UserTurn:
    """A user turn: written text, then up to ``invented`` tokens by the target, then more text."""

    kind: str
    before: str
    invented: int = 0
    after: str = ""


@dataclass(frozen=True)
class Segment:
    """Text to force, then up to ``limit`` tokens to sample (none for 0)."""

    text: str
    limit: int
    temperature: float
    min_p: float
    answer: bool


class TurnSource(Protocol):
    """Anything that makes user turns."""

    def __call__(self, rng: random.Random) -> UserTurn:
        """One user turn."""


def _turn_segments(turn: UserTurn, opening: str, rng: random.Random) -> Iterator[Segment]:
    """Segments of one user turn and its answer; ``opening`` closes what came before."""
    text = f"{opening}<|im_start|>user\n{turn.before}"
    closing = f"{turn.after}<|im_end|>\n<|im_start|>assistant\n"
    temperature = rng.choices(TEMPERATURES, TEMPERATURE_SHARES)[0]
    if turn.invented:
        yield Segment(text, turn.invented, 1.0, 0.05, answer=False)
        text = ""
    yield Segment(text + closing, ANSWER_LIMIT, temperature, 0.0, answer=True)


def script(source: TurnSource, turns: int, rng: random.Random) -> tuple[int, list[Segment]]:
    """A conversation of ``turns`` user turns; returns the kind of its first and its segments."""
    opening = f"<|im_start|>system\n{SYSTEM}<|im_end|>\n"
    segments: list[Segment] = []
    kind = 0
    for index in range(turns):
        turn = source(rng)
        kind = KINDS.index(turn.kind) if index == 0 else kind
        segments += _turn_segments(turn, opening, rng)
        opening = "<|im_end|>\n"
    return kind, segments
