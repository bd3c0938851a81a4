"""A trace as a notebook shows it: every step's block, one a line, as HTML without scripts.

Whatever comes from the trace is escaped. Marks, borders and titles say what the colours say; text
takes the notebook's own colour, so that light and dark themes both work.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dflash_viz.trace.model import Step, Trace

EDGE_STEPS = 60
"""Steps that are drawn at each end of a long trace."""

_MAX_CELLS = 64
_MAX_CHARACTERS = 60
_MAX_NOTICES = 5
_AL = (
    "Acceptance length, pooled: 1 + accepted tokens / steps that drafted. The 1 is the target's own token. "
    "Steps without a draft are left out."
)
# Mark, meaning, and form: none of them by colour alone.
_KINDS = {
    "accepted": ("✓", "accepted by the target", "1px solid", "rgba(0,140,90,.18)"),
    "cut": ("✓", "accepted by the target, but cut off where the answer ends", "1px dotted", "none"),
    "rejected": ("✗", "rejected: the target wanted another token here", "2px dashed", "rgba(200,60,40,.18)"),
    "discarded": ("·", "discarded: drafted after the first rejected token", "1px dotted", "none"),
    "recovered": ("↻", "recovered: the target's token at the first rejected position", "3px double",
                  "rgba(200,130,0,.2)"),
    "bonus": ("★", "bonus: the target's extra token after a full block", "3px solid", "rgba(60,110,220,.2)"),
    "plain": ("", "plain: decoded without a draft", "1px solid", "none"),
}  # fmt: skip
_VISIBLE = {" ": "␣", "\n": "↵", "\t": "⇥"}
_SPACE = dict.fromkeys("\n\t", " ")


def trace_html(trace: Trace) -> str:
    """The block view of a trace: a line about it, then its first and last steps, then the legend."""
    texts = trace.token_bytes
    return (
        '<div style="font:13px/1.9 system-ui,sans-serif">'
        f"<div>{_head(trace)}</div>{''.join(_notices(trace))}"
        f'<div style="overflow-x:auto">{"".join(_rows(trace, texts))}</div>'
        f'<div style="margin-top:4px">{_legend()}</div></div>'
    )


def _head(trace: Trace) -> str:
    header, steps = trace.header, trace.decode_steps
    drafting = [step for step in steps if step.drafted]
    accepted = sum(step.num_accepted for step in drafting)
    al = f"{1 + accepted / len(drafting):.2f}" if drafting else "–"
    ended = f"ended: {_shown(trace.end.finish_reason)}" if trace.end is not None else "not ended"
    parts = [
        f"<b>{_shown(header.lane)}</b>",
        f"K = {header.fingerprint.num_speculative_tokens}",
        f'<span title="{escape(_AL)}" style="text-decoration:underline dotted">AL</span> {al}',
        f"{len(steps)} steps, {len(trace.output_token_ids)} tokens",
        ended,
    ]
    return " &nbsp; ".join(parts)


def _notices(trace: Trace) -> Iterator[str]:
    for notice in trace.notices[:_MAX_NOTICES]:
        yield f"<div><b>!</b> {_shown(notice, 300)}</div>"


def _rows(trace: Trace, texts: Mapping[int, bytes]) -> Iterator[str]:
    steps = trace.steps
    left_out = len(steps) - 2 * EDGE_STEPS
    if left_out <= 0:
        yield from (_row(step, texts) for step in steps)
        return
    yield from (_row(step, texts) for step in steps[:EDGE_STEPS])
    yield f"<div>… {left_out:,} steps left out …</div>"
    yield from (_row(step, texts) for step in steps[-EDGE_STEPS:])


def _row(step: Step, texts: Mapping[int, bytes]) -> str:
    name = "prompt" if step.prefill else str(step.index)
    cells = list(_cells(step))
    drawn = "".join(_cell(kind, token, texts) for kind, token in cells[:_MAX_CELLS])
    more = f" … {len(cells) - _MAX_CELLS} more" if len(cells) > _MAX_CELLS else ""
    number = f'<span style="display:inline-block;min-width:4.5em;opacity:.8">{name}</span>'
    return f'<div style="white-space:nowrap">{number}{drawn}{more}</div>'


def _cells(step: Step) -> Iterator[tuple[str, int]]:
    """The drafted tokens and what became of each, then the target's own token."""
    for i, token in enumerate([] if step.padded else step.drafted):
        if i < step.num_accepted:
            yield ("accepted" if i < len(step.emitted) else "cut"), token
        else:
            yield ("rejected" if i == step.num_accepted else "discarded"), token
    if step.last is not None:
        yield step.last, step.emitted[-1]


def _cell(kind: str, token: int, texts: Mapping[int, bytes]) -> str:
    mark, meaning, border, background = _KINDS[kind]
    text = _token(texts.get(token))
    style = f"border:{border};background:{background};border-radius:3px;padding:1px 4px;margin-right:3px"
    sign = f"{mark}&nbsp;" if mark else ""
    return (
        f'<span style="{style}" title="{escape(meaning)}; token id {token}">{sign}'
        f'<bdi style="font-family:ui-monospace,monospace">{text}</bdi></span>'
    )


def _token(text: bytes | None) -> str:
    """A token's text with its whitespace made visible; bytes that are no text in hexadecimal."""
    if text is None:
        return "?"
    return _shown(text.decode("utf-8", "backslashreplace"), names=_VISIBLE)


def _shown(text: str, limit: int = _MAX_CHARACTERS, names: Mapping[str, str] = _SPACE) -> str:
    """Text from a trace, escaped and shortened, without characters that hide or turn what follows."""
    signs = (
        names.get(sign) or (sign if sign.isprintable() else f"\\u{ord(sign):04x}") for sign in text[:limit]
    )
    return escape("".join(signs) + ("…" if len(text) > limit else ""))


def _legend() -> str:
    shown = ("accepted", "rejected", "discarded", "recovered", "bonus")
    return " &nbsp; ".join(f"{_KINDS[kind][0]} {escape(kind)}" for kind in shown)
