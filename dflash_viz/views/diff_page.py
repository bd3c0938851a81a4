"""Two traces of one prompt beside each other: what the second won or lost against the first, and where."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

from dflash_viz.metrics import DiffError, Side, Span, TraceDiff, diff
from dflash_viz.trace import Step, Trace
from dflash_viz.views.markup import heading, named, number, page, paragraph, scrolling, table
from dflash_viz.views.token_text import token_texts, visible

ROWS = 60
"""Spans in the table: what one can read through."""
STRIP_TOKENS = 300
"""Tokens in the strip: some screens of it."""
TEXT = 48
"""Characters of a span's text in the table."""
SAME = 0.05
"""Seconds that differ by less, relative to the larger, are called the same: single steps vary by as much."""
LABEL = "Difference of two traces"


def diff_html(a: Trace, b: Trace) -> str:
    """The whole page for two traces; one sentence if they do not answer the same prompt."""
    try:
        found = diff(a, b)
    except DiffError as error:
        return page(LABEL, paragraph(str(error), "problem"))
    texts = token_texts(a.output_token_ids, a.token_bytes)
    return page(
        LABEL,
        paragraph(f"A: {named(a)}. B: {named(b)}."),
        paragraph(_agreement(a, b, found)),
        *(paragraph(f"Times are not comparable: {why}", "problem") for why in found.incomparable_times),
        *_totals(found),
        *_fingerprints(found),
        *_strip(a, b, found, texts),
        *_spans(found, texts),
    )


def _agreement(a: Trace, b: Trace, found: TraceDiff) -> str:
    compared = found.total.tokens if found.total else 0
    rest = (
        f" After the last place where both end a step, {found.rest_a} tokens of A and {found.rest_b} of B "
        "are not compared."
        if found.rest_a or found.rest_b
        else ""
    )
    if found.parting is None:
        return f"The texts agree as far as both go; {compared} tokens are compared.{rest}"
    at = found.parting.at
    ours, theirs = (
        visible(token_texts(trace.output_token_ids[: at + 1], trace.token_bytes)[at]) for trace in (a, b)
    )
    return (
        f"The texts part at token {at}: A writes “{ours}”, B “{theirs}”. The {compared} compared tokens lie "
        f"before that.{rest}"
    )


def _totals(found: TraceDiff) -> Iterator[str]:
    yield heading("In total")
    if found.total is None:
        yield paragraph("Nothing to compare: the traces end no step at the same token.")
        return
    a, b, tokens = found.total.a, found.total.b, found.total.tokens
    differing = sum(not span.same_steps for span in found.spans)
    yield table(
        f"{tokens} tokens in {len(found.spans)} spans, after the prompt's own step",
        ("", "A", "B", "B against A"),
        (
            ("steps", str(a.steps), str(b.steps), f"{b.steps - a.steps:+d}"),
            ("AL", number(a.al), number(b.al), _difference(a.al, b.al)),
            ("seconds", number(a.seconds, 3), number(b.seconds, 3), _result(found.total, found)),
            ("tokens/s", _speed(tokens, a), _speed(tokens, b), _ratio(found)),
            ("prompt, s", number(found.prompt_a, 3), number(found.prompt_b, 3), ""),
        ),
    )
    yield paragraph(
        f"A span lies between two neighbouring places where both traces end a step. In {differing} of "
        f"{len(found.spans)} the steps differ: the same tokens, covered by other blocks. AL is pooled over "
        "the steps that drafted. Seconds run from the end of the step before a span to the end of its last. "
        f"Won and lost are B's seconds against A's; under {SAME:.0%} is called the same.",
        "note",
    )


def _fingerprints(found: TraceDiff) -> Iterator[str]:
    yield heading("What was different")
    if not found.fields:
        yield paragraph("The same engine, models, versions and settings, as far as the traces tell.")
        return
    yield table(
        "Fields of the fingerprint, the settings and the circumstances that differ",
        ("field", "A", "B"),
        [(field.path, field.a, field.b) for field in found.fields],
    )
    yield paragraph("–: not recorded, or the run has no such thing.", "note")


def _spans(found: TraceDiff, texts: Sequence[str]) -> Iterator[str]:
    if not found.spans:
        return
    weight = (lambda span: 0.0) if found.incomparable_times else (lambda span: -abs(span.won))
    shown = sorted(sorted(found.spans, key=weight)[:ROWS], key=lambda span: span.start)
    yield heading("Span by span")
    yield table(
        "Spans in the order of the answer",
        ("tokens", "B against A", "ms A / B", "steps A / B", "AL A / B", "blocks", "text"),
        [_span_row(span, found, texts) for span in shown],
    )
    if left := len(found.spans) - len(shown):
        which = "first" if found.incomparable_times else "largest gains and losses"
        chosen = {span.start for span in shown}
        won = sum(span.won for span in found.spans if span.start not in chosen)
        yield paragraph(
            f"The {len(shown)} {which} are shown; {left} more spans are left out, in which B "
            f"{'won' if won >= 0 else 'lost'} {abs(won) * 1000:.1f} ms together.",
            "note",
        )


def _span_row(span: Span, found: TraceDiff, texts: Sequence[str]) -> tuple[str, ...]:
    text = visible("".join(texts[span.start : span.end]))
    a, b = span.a, span.b
    return (
        f"{span.start}–{span.end - 1}",
        _result(span, found),
        f"{a.seconds * 1000:.1f} / {b.seconds * 1000:.1f}",
        f"{a.steps} / {b.steps}",
        f"{number(a.al)} / {number(b.al)}",
        "same" if span.same_steps else "differ",
        text if len(text) <= TEXT else text[: TEXT - 1] + "…",
    )


def _strip(a: Trace, b: Trace, found: TraceDiff, texts: Sequence[str]) -> Iterator[str]:
    """The beginning of the answer, A's steps over the tokens and B's under them."""
    if not found.spans:
        return
    first = found.spans[0].start
    shown = [span for span in found.spans if span.end - first <= STRIP_TOKENS]
    yield heading("The answer with both traces' steps")
    lanes = '<div class="dv-diff-lanes"><span>A</span><span>text</span><span>B</span></div>'
    inside = "".join(_strip_span(span, a, b, found, texts) for span in shown)
    yield scrolling("The tokens with A's steps over and B's under them", lanes + inside, "dv-diff-strip")
    left = len(found.spans) - len(shown)
    yield paragraph(
        "A's steps stand over the tokens and B's under them, with their numbers, each as wide as its tokens. "
        "The mark below says whether B won (▲), lost (▼) or needed the same time (=) in the span."
        + (f" The first {STRIP_TOKENS} tokens; {left} more spans are left out." if left else ""),
        "note",
    )


def _strip_span(span: Span, a: Trace, b: Trace, found: TraceDiff, texts: Sequence[str]) -> str:
    tokens = "".join(
        f'<bdi class="dv-diff-token">{escape(visible(texts[i]) or "…")}</bdi>'
        for i in range(span.start, span.end)
    )
    return (
        f'<div class="dv-diff-span" style="grid-template-columns:repeat({span.tokens},auto)">'
        f"{_segments('A', span.a, a.steps)}{tokens}{_segments('B', span.b, b.steps)}"
        f'<span class="dv-diff-mark" style="grid-column:1/-1">{escape(_result(span, found))}</span></div>'
    )


def _segments(name: str, side: Side, steps: Sequence[Step]) -> str:
    return "".join(
        f'<span class="dv-diff-step" style="grid-column:span {len(step.emitted)}" '
        f'title="{name}, step {step.index}: {escape(_block(step))}">{step.index}</span>'
        for step in steps[side.first : side.first + side.steps]
        if step.emitted
    )


def _block(step: Step) -> str:
    drafted = f"{step.num_accepted} of {step.num_drafted} accepted" if step.drafted else "no draft"
    return f"{drafted}, {(step.end - step.start) * 1000:.1f} ms"


def _result(span: Span, found: TraceDiff) -> str:
    if found.incomparable_times:
        return "not comparable"
    if abs(span.won) <= SAME * max(span.a.seconds, span.b.seconds):
        return "= same"
    amount = f"{abs(span.won) * 1000:.1f} ms"
    return f"▲ won {amount}" if span.won > 0 else f"▼ lost {amount}"


def _difference(a: float | None, b: float | None) -> str:
    return "–" if a is None or b is None else f"{b - a:+.2f}"


def _speed(tokens: int, side: Side) -> str:
    return number(tokens / side.seconds if side.seconds > 0 else None, 1)


def _ratio(found: TraceDiff) -> str:
    total = found.total
    if found.incomparable_times or total is None or total.b.seconds <= 0:
        return "–"
    return f"{total.a.seconds / total.b.seconds:.2f} times"
