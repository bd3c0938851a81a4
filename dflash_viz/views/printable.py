"""Texts of models, users and files for terminals and files that end up in one."""

from __future__ import annotations

import re

_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""What commands a terminal, turns its text round, or cannot be printed; tabs and line ends may stay."""


def printable(text: str) -> str:
    """The text with its control characters as JSON writes them."""
    return _CONTROLS.sub(lambda one: f"\\u{ord(one[0]):04x}", text)


def on_one_line(text: str) -> str:
    """The text printable, on one line."""
    return printable(" ".join(text.split()))
