"""Texts of models and files that end up in a terminal."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dflash_viz.views.measured_parts import Heading, Items, Paragraph, Table, to_markdown
from dflash_viz.views.printable import on_one_line, printable

HOSTILE = "\x1b]0;mine\x07\x1b[2J\x9b31m\u202e\ud800"


def test_controls_are_written_out() -> None:
    assert printable("a\x1b[2J\tb\n\u202ec é") == "a\\u001b[2J\tb\n\\u202ec é"
    assert on_one_line(" a\n\tb\r\nc\x07 ") == "a b c\\u0007"


@given(st.text(alphabet=st.characters(exclude_categories=())))
def test_any_text_can_be_printed(text: str) -> None:
    shown = printable(text)
    shown.encode()
    assert all(c in "\t\n" or c.isprintable() or ord(c) > 0x9F for c in shown)
    assert "\n" not in on_one_line(text)


def test_markdown_commands_no_terminal() -> None:
    parts = [Heading(HOSTILE), Paragraph(HOSTILE), Items([HOSTILE]), Table(HOSTILE, [HOSTILE], [[HOSTILE]])]
    written = to_markdown(parts)
    assert written.count("u202e") == 6
    assert printable(written) == written
