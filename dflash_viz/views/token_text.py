"""Tokens as text: a token's bytes need not be a character of their own."""

from __future__ import annotations

import codecs
from collections.abc import Mapping, Sequence

_VISIBLE = str.maketrans({" ": "␣", "\n": "⏎", "\r": "⏎", "\t": "⇥"})


def token_texts(tokens: Sequence[int], token_bytes: Mapping[int, bytes]) -> list[str]:
    """The text that each token completes, in order.

    A character that several tokens spell appears whole with the last of them and is empty before;
    bytes that form none, and unknown tokens, become replacement characters.
    """
    decode = codecs.getincrementaldecoder("utf-8")("replace").decode
    return [decode(token_bytes.get(token, b"\xff"), i == len(tokens) - 1) for i, token in enumerate(tokens)]


def visible(text: str) -> str:
    """The text with its white space drawn."""
    return text.translate(_VISIBLE)
