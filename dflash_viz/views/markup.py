"""Pieces of HTML that the pages about traces share; every text that goes in comes out escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from dflash_viz.trace import Trace

MAX_NAMED = 5
"""Traces that are named one by one."""


def page(label: str, *parts: str) -> str:
    """A page's parts, which are HTML already, in its frame."""
    return f'<section class="dv-findings" aria-label="{escape(label)}">{"".join(parts)}</section>'


def heading(text: str) -> str:
    """A heading of a part of the page."""
    return f"<h3>{escape(text)}</h3>"


def paragraph(text: str, kind: str = "") -> str:
    """A paragraph; ``kind`` is "problem", "note" or nothing."""
    of_kind = f' class="dv-{kind}"' if kind else ""
    return f"<p{of_kind}>{escape(text)}</p>"


def items(texts: Sequence[str]) -> str:
    """A list of sentences."""
    return f"<ul>{''.join(f'<li>{escape(text)}</li>' for text in texts)}</ul>"


def definitions(pairs: Iterable[tuple[str, str]]) -> str:
    """Terms with their explanations."""
    return f"<dl>{''.join(f'<dt>{escape(term)}</dt><dd>{escape(text)}</dd>' for term, text in pairs)}</dl>"


def table(caption: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table whose first column names the rows; it scrolls inside its own box where it is too wide."""
    columns = "".join(f'<th scope="col">{escape(cell)}</th>' for cell in head)
    return scrolling(
        caption,
        f"<table><caption>{escape(caption)}</caption><thead><tr>{columns}</tr></thead>"
        f"<tbody>{''.join(map(_row, rows))}</tbody></table>",
    )


def scrolling(label: str, html: str, kind: str = "dv-wide") -> str:
    """A box that scrolls sideways, by keyboard too, so that the page need not."""
    return f'<div class="{kind}" tabindex="0" role="region" aria-label="{escape(label)}">{html}</div>'


def number(value: float | None, digits: int = 2) -> str:
    """A value as it is shown; a dash where there is none."""
    return "–" if value is None else f"{value:.{digits}f}"


def named(trace: Trace) -> str:
    """A trace in a few words: its lane, method, K, and when it was recorded."""
    header = trace.header
    engine = header.fingerprint
    k = f", K = {engine.num_speculative_tokens}" if engine.num_speculative_tokens else ""
    return f"{header.lane} ({engine.method}{k}), {header.recorded_at[:19].replace('T', ' ')}"


def all_named(traces: Sequence[Trace]) -> str:
    """Some traces in a few words each; how many more there are."""
    more = f" and {len(traces) - MAX_NAMED} more" if len(traces) > MAX_NAMED else ""
    return "; ".join(map(named, traces[:MAX_NAMED])) + more


def _row(cells: Sequence[str]) -> str:
    name, *values = cells
    data = "".join(f"<td>{escape(value)}</td>" for value in values)
    return f'<tr><th scope="row">{escape(name)}</th>{data}</tr>'
