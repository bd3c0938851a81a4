"""How well the drafter knows when it is right, as a curve and a table, and what a smaller K would bring."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dflash_viz.metrics import (
    CALIBRATION_FIGURES,
    Bin,
    Calibration,
    MixedTracesError,
    WhatIf,
    calibrate,
    what_if,
)
from dflash_viz.trace import Trace
from dflash_viz.views.markup import all_named, definitions, heading, items, number, page, paragraph, table

LABEL = "Calibration"
SIDE = 300
"""Length of the axes in the drawing's own units."""
LEFT, BOTTOM, MARGIN = 52, 46, 18
NO_PROBABILITIES = (
    "No position has the drafter's probability: these runs were recorded without probabilities, or nothing "
    "drafts from a model. Set “Recorded probabilities” above 0 under Settings and ask again."
)


def calibration_html(traces: Sequence[Trace], plain: Sequence[Trace] = ()) -> str:
    """The whole page for the traces of one lane; one sentence if they are of several or there are none.

    ``plain`` are runs of the same target without speculation, which tell what a shorter block saves.
    """
    if not traces:
        return page(LABEL, paragraph("Choose a trace.", "note"))
    try:
        calibration, estimate = calibrate(traces), what_if(traces, plain)
    except MixedTracesError as error:
        return page(LABEL, paragraph(str(error), "problem"))
    return page(LABEL, paragraph(f"{all_named(traces)}."), *_reliability(calibration), *_smaller(estimate))


def _reliability(calibration: Calibration) -> Iterator[str]:
    yield heading("Does the drafter know when it is right?")
    if not calibration.n:
        yield paragraph(NO_PROBABILITIES, "note")
        return
    yield f'<div class="dv-calibration">{_drawing(calibration)}<div>'
    yield paragraph(f"Over {calibration.n} drafted positions:")
    yield definitions(
        (f"{figure.label} {number(getattr(calibration, figure.key), 3)}", figure.definition)
        for figure in CALIBRATION_FIGURES
    )
    if calibration.unknown:
        yield paragraph(
            f"{calibration.unknown} more were reached but have no recorded probability of the drafted token.",
            "note",
        )
    yield "</div></div>"
    yield table(
        "The points of the curve",
        ("drafter probability", "positions", "its mean", "accepted share", "95 % interval (Wilson)"),
        [_bin_row(one) for one in calibration.bins],
    )


def _bin_row(one: Bin) -> tuple[str, ...]:
    low, high = one.interval
    between = f"{low:.2f} to {high:.2f}" if one.n else "–"
    return f"{one.low:.1f} to {one.high:.1f}", str(one.n), number(one.mean_p), number(one.share), between


def _drawing(calibration: Calibration) -> str:
    """The reliability curve as SVG, in the colour of the text around it."""
    size = f"0 0 {LEFT + SIDE + MARGIN} {MARGIN + SIDE + BOTTOM}"
    described = (
        f"Reliability curve over {calibration.n} positions: accepted share against the drafter's "
        f"probability. Expected calibration error {number(calibration.ece, 3)}. The table holds the points."
    )
    points = [one for one in calibration.bins if one.n]
    return (
        f'<svg class="dv-reliability" viewBox="{size}" role="img" aria-label="{described}" fill="none" '
        f'stroke="currentColor">{_axes()}'
        f'<path class="dv-diagonal" d="M{_x(0)} {_y(0)}L{_x(1)} {_y(1)}" stroke-dasharray="2 5"/>'
        f'<polyline points="{" ".join(_place(one) for one in points)}" stroke-width="1.5"/>'
        f"{''.join(map(_point, points))}</svg>"
    )


def _axes() -> str:
    frame = f'<path d="M{_x(0)} {_y(1)}V{_y(0)}H{_x(1)}"/>'
    ticks = "".join(
        f'<path d="M{_x(v)} {_y(0)}v4M{_x(0)} {_y(v)}h-4"/>'
        f"{_words(_x(v), _y(0) + 16, f'{v:.1f}')}{_words(_x(0) - 16, _y(v) + 4, f'{v:.1f}')}"
        for v in (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
    )
    middle = MARGIN + SIDE / 2
    return (
        f"{frame}{ticks}{_words(_x(0.5), _y(0) + 36, 'drafter probability of the drafted token')}"
        f'<g transform="rotate(-90 12 {middle:g})">{_words(12, middle + 4, "accepted share")}</g>'
        f"{_words(_x(0.72), _y(0.04), 'dotted: as often as it says')}"
    )


def _point(one: Bin) -> str:
    """A bin: its interval as a line, its point, and how many positions it holds."""
    x, y = _place(one).split(",")
    low, high = one.interval
    return (
        f'<path class="dv-interval" d="M{x} {_y(low)}V{_y(high)}" stroke-width="1"/>'
        f'<circle cx="{x}" cy="{y}" r="4.5" fill="currentColor"/>'
        f"{_words(float(x) - 12, float(y) - 8, str(one.n))}"
    )


def _place(one: Bin) -> str:
    return f"{_x(one.mean_p or 0.0)},{_y(one.share or 0.0)}"


def _x(value: float) -> float:
    return round(LEFT + SIDE * value, 1)


def _y(value: float) -> float:
    return round(MARGIN + SIDE * (1 - value), 1)


def _words(x: float, y: float, text: str) -> str:
    return f'<text x="{x:g}" y="{y:g}" text-anchor="middle" fill="currentColor" stroke="none">{text}</text>'


def _smaller(estimate: WhatIf) -> Iterator[str]:
    yield heading("What if K were smaller? (an estimate)")
    if not estimate.rows:
        yield paragraph("Nothing was drafted.", "note")
        return
    yield table(
        f"From {estimate.blocks} recorded blocks of up to {estimate.recorded} drafted tokens",
        ("K", "AL", "tokens/s", ""),
        [
            (str(row.k), number(row.al), number(row.speed, 1), _remark(row.k, estimate))
            for row in estimate.rows
        ],
    )
    yield paragraph(estimate.reason)
    if estimate.plain_speed is not None:
        yield paragraph(f"Measured without speculation: {estimate.plain_speed:.1f} tokens/s.")
    yield items(estimate.assumptions)


def _remark(k: int, estimate: WhatIf) -> str:
    remarks = ["◀ suggested"] * (k == estimate.suggested) + ["as recorded"] * (k == estimate.recorded)
    return ", ".join(remarks) or "estimate"
