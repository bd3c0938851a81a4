"""The parts that a page about a benchmark is made of, and the two ways to write them: HTML and Markdown.

Texts are plain; whatever is markup in them is escaped where they are written.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

from dflash_viz.views import markup
from dflash_viz.views.printable import on_one_line


@dataclass(frozen=True)
class Heading:
    """A heading of a part of the page."""

    text: str


@dataclass(frozen=True)
class Paragraph:
    """A paragraph; ``kind`` is "problem", "note" or nothing."""

    text: str
    kind: str = ""


@dataclass(frozen=True)
class Items:
    """A list of sentences."""

    texts: Sequence[str]


@dataclass(frozen=True)
class Definitions:
    """Terms with their explanations."""

    pairs: Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Link:
    """A cell that leads somewhere."""

    text: str
    href: str


Cell = str | Link


@dataclass(frozen=True)
class Table:
    """A table whose first column names the rows; the columns in ``texts`` hold texts, which may break."""

    caption: str
    head: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    texts: Sequence[str] = ()


@dataclass(frozen=True)
class Folded:
    """Parts that are shown when the reader opens them; Markdown shows them at once."""

    summary: str
    parts: Sequence[Part]


Part = Heading | Paragraph | Items | Definitions | Table | Folded


def to_html(parts: Iterable[Part]) -> str:
    """The parts as HTML, for the frame that ``markup.page`` makes."""
    return "".join(map(_html, parts))


def to_markdown(parts: Iterable[Part]) -> str:
    """The parts as Markdown that GitHub renders."""
    return "\n\n".join(map(_markdown, parts)) + "\n"


def _html(part: Part) -> str:
    if isinstance(part, Heading):
        return markup.heading(part.text)
    if isinstance(part, Paragraph):
        return markup.paragraph(part.text, part.kind)
    if isinstance(part, Items):
        return markup.items(part.texts)
    if isinstance(part, Definitions):
        return f'<div class="dv-terms">{markup.definitions(part.pairs)}</div>'
    if isinstance(part, Table):
        return _html_table(part)
    return (
        f'<details class="dv-folded"><summary>{escape(part.summary)}</summary>{to_html(part.parts)}</details>'
    )


def _html_table(part: Table) -> str:
    head = "".join(f'<th scope="col">{escape(text)}</th>' for text in part.head)
    kinds = [' class="dv-text"' if text in part.texts else "" for text in part.head]
    rows = "".join(_html_row(row, kinds) for row in part.rows)
    return markup.scrolling(
        part.caption,
        f'<table class="dv-measured"><caption><span>{escape(part.caption)}</span></caption>'
        f"<thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>",
    )


def _html_row(cells: Sequence[Cell], kinds: Sequence[str]) -> str:
    """A row; ``kinds`` are the attributes of its cells."""
    name, *values = [(_html_cell(cell), kind) for cell, kind in zip(cells, kinds, strict=True)]
    data = "".join(f"<td{kind}>{value}</td>" for value, kind in values)
    return f'<tr><th scope="row"{name[1]}>{name[0]}</th>{data}</tr>'


def _html_cell(cell: Cell) -> str:
    if isinstance(cell, Link):
        return f'<a href="{escape(cell.href)}">{escape(cell.text)}</a>'
    return escape(cell)


def _markdown(part: Part) -> str:
    if isinstance(part, Heading):
        return f"## {_plain(part.text)}"
    if isinstance(part, Paragraph):
        return f"**{_plain(part.text)}**" if part.kind == "problem" else _plain(part.text)
    if isinstance(part, Items):
        return "\n".join(f"- {_plain(text)}" for text in part.texts)
    if isinstance(part, Definitions):
        return "\n".join(f"- **{_plain(term)}**: {_plain(text)}" for term, text in part.pairs)
    if isinstance(part, Table):
        return _markdown_table(part)
    return f"### {_plain(part.summary)}\n\n{to_markdown(part.parts).rstrip()}"


def _markdown_table(part: Table) -> str:
    lines = [part.head, ["---"] * len(part.head)]
    lines += [[_markdown_cell(cell) for cell in row] for row in part.rows]
    head, rule, *rows = (f"| {' | '.join(line)} |" for line in [list(map(_plain, lines[0])), *lines[1:]])
    return "\n".join([f"*{_plain(part.caption)}*", "", head, rule, *rows])


def _markdown_cell(cell: Cell) -> str:
    return _plain(cell.text if isinstance(cell, Link) else cell)


# What Markdown would read as markup: anywhere, at the beginning of a line, and there a list's number.
_MARKUP = re.compile(r"(?=[\\`*_|~$\[])|^(?=[#>+\-=])")
_LIST = re.compile(r"^(\d+)(?=[.)](?: |$))")


def _plain(text: str) -> str:
    """A text on one line, with nothing in it that Markdown, HTML or a terminal would act on."""
    escaped = _LIST.sub(r"\1\\", _MARKUP.sub(r"\\", on_one_line(text)))
    return escaped.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
