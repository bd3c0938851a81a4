"""A benchmark's result, and two of them beside each other, as fragments of HTML."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pandas as pd

from dflash_viz.metrics.measured import Estimate, Verdict
from dflash_viz.results import Result, labels
from dflash_viz.views.markup import page
from dflash_viz.views.measured_engines import changed_fields
from dflash_viz.views.measured_parts import Definitions, Folded, Heading, Paragraph, Part, Table, to_html
from dflash_viz.views.measured_sections import Links, result_parts
from dflash_viz.views.measured_tables import COMPARED, compare_frame, same_questions
from dflash_viz.views.measured_text import (
    FIGURE,
    INTERVALS,
    about,
    column,
    dataset,
    defined,
    digits,
    state,
    title,
    with_interval,
)

OTHER_QUESTIONS = (
    "The two results asked different questions: a difference can come from the prompts, so that none is "
    "given with an interval."
)


def result_html(result: Result, verdicts: Sequence[Verdict], links: Links | None = None) -> str:
    """Everything that a result says, as a fragment; charts are apart (``measured_charts``).

    ``links`` leads from a trace's path in the result's folder to where it opens; without it the prompts
    have no links.
    """
    return page("Result of a benchmark", to_html(result_parts(result, verdicts, links)))


def compare_html(a: Result, b: Result) -> str:
    """Two results, setting by setting: the figures of both, their difference, and what else differs."""
    return page("Two results", to_html(comparison(a, b)))


def comparison(a: Result, b: Result) -> Iterator[Part]:
    """What ``compare_html`` says, as parts that can be written in other ways too."""
    yield Heading("Two results beside each other")
    for name, result in (("A", a), ("B", b)):
        yield Paragraph(f"{name}: {title(result)}. {dataset(result.plan.dataset)}. {state(result)[0]}")
    frame = compare_frame(a, b)
    if frame.empty:
        yield Paragraph(
            "No setting is in both: they match by lane, method, K, temperature and concurrency.", "problem"
        )
        return
    if not same_questions(a, b):
        yield Paragraph(OTHER_QUESTIONS, "problem")
    yield _compared_table(a, frame)
    yield Paragraph(
        "Differences and ratios are B against A, over the prompts that both answered, resampled together.",
        "note",
    )
    yield Definitions([*defined(COMPARED), ("[ ]", INTERVALS)])
    yield from _changes(a, b, frame)


def _compared_table(a: Result, frame: pd.DataFrame) -> Table:
    both = [f"{column(FIGURE[key])}: {side}" for key in COMPARED for side in "AB"]
    head = ["setting", *both, "common prompts", "AL, B less A", "decode speed, B / A"]
    names = labels(a.plan.settings)
    rows = [_compared_row(names[row["setting_a"]], row) for row in frame.to_dict("records")]
    return Table("Every setting that both have [95 % interval]", head, rows)


def _compared_row(name: str, row: dict[str, float]) -> list[str]:
    shown = [with_interval(_estimate(row, f"{key}_{side}"), digits(key)) for key in COMPARED for side in "ab"]
    changes = [with_interval(_estimate(row, key)) for key in ("al_difference", "speed_ratio")]
    return [name, *shown, str(row["common_prompts"]), *changes]


def _estimate(row: dict[str, float], key: str) -> Estimate | None:
    """A table's three cells as the estimate that they were made of."""
    value, low, high = (None if pd.isna(row[key + end]) else row[key + end] for end in ("", "_low", "_high"))
    return None if value is None else Estimate(value, low, high, 0)


def _changes(a: Result, b: Result, frame: pd.DataFrame) -> Iterator[Part]:
    """What was not the same in both, besides the figures."""
    plan = [
        (term, ours, theirs)
        for (term, ours), (_, theirs) in zip(about(a), about(b), strict=True)
        if ours != theirs and term != "Measured with"
    ]
    if plan:
        yield Table("What was asked differently", ("", "A", "B"), plan)
    names = labels(a.plan.settings)
    rows = [
        (f"{names[first]}: {path}", ours, theirs)
        for first, second in zip(frame["setting_a"], frame["setting_b"], strict=True)
        for path, ours, theirs in changed_fields(a.engines.get(first), b.engines.get(second))
    ]
    if not rows:
        yield Paragraph("The engines are the same, as far as the results tell.")
        return
    yield Folded(
        f"The engines differ in {len(rows)} fields", [Table("Fields that differ", ("field", "A", "B"), rows)]
    )
