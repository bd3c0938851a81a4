"""What a page about a benchmark says, part by part; ``measured_parts`` writes it as HTML or Markdown."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from dflash_viz.metrics.measured import (
    KIND_KEYS,
    MAX_PAIRS,
    MEASURED,
    Estimate,
    Pair,
    PromptFigure,
    Quality,
    Verdict,
    by_kind,
    by_prompt,
    indexed,
    pairs,
    per_position,
    quality,
    quality_warnings,
    setting_values,
    stops_paying,
)
from dflash_viz.results import Result, labels
from dflash_viz.views.measured_engines import common_fields, differing_fields
from dflash_viz.views.measured_parts import (
    Cell,
    Definitions,
    Folded,
    Heading,
    Items,
    Link,
    Paragraph,
    Part,
    Table,
)
from dflash_viz.views.measured_text import (
    AL_NAMES,
    FIGURE,
    INTERVALS,
    MAIN,
    MARKS,
    NONE,
    TURNS,
    about,
    checks,
    column,
    defined,
    digits,
    failures,
    few,
    fitting_setting,
    num_prompts,
    server_sums,
    shortened,
    state,
    title,
    with_interval,
)

Links = Callable[[str], str]
"""From a trace's path in the result's folder to where it opens."""

BEST = 3
"""Prompts that are named at either end of a setting."""
PROMPT_TEXT = 90
"""Characters of a prompt in a table."""
FOLDED_FROM = 30
"""Rows from which a table that is no summary is folded."""
MAX_LISTED = 20
"""Failures, notices and skipped lines that are told one by one."""


def result_parts(result: Result, verdicts: Sequence[Verdict], links: Links | None = None) -> list[Part]:
    """The whole page about a result."""
    result = indexed(result)
    return [
        Heading(title(result)),
        *_standing(result),
        Definitions(about(result)),
        *_figures(result),
        *_verdicts(result, verdicts),
        *_quality(result),
        *_kinds(result),
        *_pairs(result),
        *_positions(result),
        *_prompts(result, links),
        *_engines(result),
        *_troubles(result),
    ]


def _standing(result: Result) -> Iterator[Part]:
    """What a reader must know before the figures."""
    yield Paragraph(*state(result))
    yield Paragraph(*checks(result))
    if (sums := server_sums(result))[0]:
        yield Paragraph(*sums)
    if warning := few(result):
        yield Paragraph(f"⚠ {warning}", "problem")
    troubles = {
        "questions or engines that failed": failures(result),
        "lines of the result's file that were left out": result.notices,
        "lines of the data set that were left out": result.plan.dataset.skipped,
    }
    if told := [f"{what}: {len(sentences)}" for what, sentences in troubles.items() if sentences]:
        yield Paragraph(f"✗ {'; '.join(told)}. Each is under “What went wrong” at the end.", "problem")


def _figures(result: Result) -> Iterator[Part]:
    yield Heading("Figures")
    values = [setting_values(result, number) for number in range(len(result.plan.settings))]
    yield _figure_table(result, values, "Every setting that was measured [95 % interval]", MAIN)
    for sentence in stops_paying(result):
        yield Paragraph(sentence)
    yield Folded("What the columns mean", [Definitions([*defined(MAIN), ("[ ]", INTERVALS)])])
    rest = [figure.key for figure in MEASURED if figure.key not in MAIN]
    table = _figure_table(result, values, "The other figures of every setting [95 % interval]", rest)
    yield Folded("More figures", [table, Definitions(defined(rest))])


def _figure_table(
    result: Result, values: Sequence[dict[str, Estimate | None]], caption: str, keys: Sequence[str]
) -> Table:
    rows = [
        [name, str(num_prompts(result, number)), *_cells(values[number], keys)]
        for number, name in enumerate(labels(result.plan.settings))
    ]
    return Table(caption, ["setting", "prompts", *(column(FIGURE[key]) for key in keys)], rows)


def _cells(values: dict[str, Estimate | None], keys: Sequence[str]) -> list[str]:
    return [with_interval(values.get(key), digits(key)) for key in keys]


def _verdicts(result: Result, verdicts: Sequence[Verdict]) -> Iterator[Part]:
    yield Heading("Against what is expected")
    if not verdicts:
        yield Paragraph("No expectation is known for this target and data set.", "note")
        return
    yield Table(
        "Every expectation for this target and data set",
        ("outcome", "setting", "expected of", "AL expected", "passes from", "measured", "why", "source"),
        [_verdict_row(result, verdict) for verdict in verdicts],
        texts=("expected of", "AL expected", "why", "source"),
    )
    yield Paragraph(
        "A setting passes when the measured AL, of the expectation's own definition, is at least the "
        "tolerance's share of the expected one. The interval is told beside it and does not decide.",
        "note",
    )


def _verdict_row(result: Result, verdict: Verdict) -> list[str]:
    row = verdict.expectation
    return [
        MARKS[verdict.outcome],
        fitting_setting(result, verdict),
        _expected_of(verdict),
        f"{row.al:.2f} ({AL_NAMES[row.definition]})",
        f"{verdict.needed:.2f} ({row.tolerance:.0%})",
        with_interval(verdict.measured),
        "; ".join(verdict.reasons) or NONE,
        f"{row.source}; {row.note}" if row.note else row.source,
    ]


def _expected_of(verdict: Verdict) -> str:
    """What an expectation was measured with, and the speedup that was reported with it."""
    row = verdict.expectation
    speedup = f"; speedup there {row.speedup:.2f} ×" if row.speedup is not None else ""
    return (
        f"{row.drafter or row.method}, K = {row.num_speculative_tokens}, temperature {row.temperature:g}, "
        f"{row.dataset} ({TURNS[row.turns]}), at most {row.max_tokens} tokens{speedup}"
    )


def _quality(result: Result) -> Iterator[Part]:
    yield Heading("Are the answers as good?")
    for sentence in quality_warnings(result):
        yield Paragraph(f"✗ {sentence}", "problem")
    judged = [one for one in quality(result) if one.judged]
    if not judged:
        yield Paragraph("No answer of this data set can be judged by itself.", "note")
        return
    names = labels(result.plan.settings)
    yield Table(
        "Answers that could be judged: final number right, or Python that parses",
        ("setting", "good", "cut short", "good in both", "only here", "only without speculation", "p"),
        [_quality_row(names[one.setting], one) for one in judged],
    )
    yield Paragraph(
        "Good: the answer's final number is the reference's, or its code parses as Python (it is not run). "
        "Cut short: ended at the limit of tokens, so not judged. p: how probable so uneven a split between "
        "“only here” and “only without speculation” is if both are equally good (two-sided sign test).",
        "note",
    )


def _quality_row(name: str, one: Quality) -> list[str]:
    share = f"{one.good} of {one.judged} ({one.good / one.judged:.0%})"
    if one.p_value is None:
        return [name, share, str(one.cut), NONE, NONE, NONE, NONE]
    counts = map(str, (one.both_good, one.only_this, one.only_plain))
    return [name, share, str(one.cut), *counts, f"{one.p_value:.3f}"]


def _kinds(result: Result) -> Iterator[Part]:
    names = labels(result.plan.settings)
    rows = [
        [f"{name}: {kind}", *_cells(values, KIND_KEYS)]
        for number, name in enumerate(names)
        for kind, values in by_kind(result, number).items()
    ]
    if len({question.kind for question in result.questions.values()}) < 2 or not rows:
        return
    head = ["setting: kind", *(column(FIGURE[key]) for key in KIND_KEYS)]
    table = Table("The same figures, over the prompts of one kind [95 % interval]", head, rows)
    yield from _titled("By kind of prompt", table)


def _pairs(result: Result) -> Iterator[Part]:
    found = pairs(result)
    if not found:
        return
    names = labels(result.plan.settings)
    table = Table(
        "Every two settings of one temperature and concurrency, on the prompts both answered [95 % interval]",
        ("first / second", "prompts", "AL, difference", "decode speed, ×", "latency, ×", "same text"),
        [_pair_row(names, pair) for pair in found],
    )
    note = Paragraph(
        "Difference: the first's pooled AL less the second's. Ratios: first / second. Both are resampled "
        "together, prompt by prompt, so that what makes a prompt hard for both does not widen the interval. "
        "Same text: answers that are equal to the last character, at temperature 0 alone.",
        "note",
    )
    parts: list[Part] = [table, note]
    if len(found) == MAX_PAIRS:
        parts.append(Paragraph(f"No more than {MAX_PAIRS} pairs are listed.", "note"))
    yield Folded("Two settings against each other", parts)


def _pair_row(names: Sequence[str], pair: Pair) -> list[str]:
    same, compared = pair.same_text
    return [
        f"{names[pair.first]} / {names[pair.second]}",
        str(pair.num_prompts),
        with_interval(pair.al),
        with_interval(pair.speed),
        with_interval(pair.latency),
        f"{same} of {compared}" if compared else NONE,
    ]


def _positions(result: Result) -> Iterator[Part]:
    names = labels(result.plan.settings)
    found = {name: per_position(result, number) for number, name in enumerate(names)}
    longest = max(map(len, found.values()), default=0)
    if not longest:
        return
    rows = [
        [name, *(f"{rate:.1%} of {drafted}" for rate, drafted in rates), *[NONE] * (longest - len(rates))]
        for name, rates in found.items()
        if rates
    ]
    head = ["setting", *(f"position {number}" for number in range(1, longest + 1))]
    note = Paragraph(
        "Unconditional: drafts that were accepted at the position / drafts that had a token there. Position "
        "1 follows the anchor.",
        "note",
    )
    yield Folded("Acceptance by position", [Table("Accepted, of how many drafts", head, rows), note])


def _prompts(result: Result, links: Links | None) -> Iterator[Part]:
    rows = [
        row
        for number, name in enumerate(labels(result.plan.settings))
        for row in _prompt_rows(name, by_prompt(result, number), links)
    ]
    if not rows:
        return
    table = Table(
        f"The {BEST} best and the {BEST} worst of every setting: by AL, without speculation by decode speed",
        ("setting", "question", "kind", *(column(FIGURE[key]) for key in ("al", "speed", "speedup")), "text"),
        rows,
        texts=("text",),
    )
    yield from _titled("Best and worst prompts", table)


def _titled(title: str, table: Table) -> Iterator[Part]:
    """A table under its heading; a long one is folded."""
    if len(table.rows) > FOLDED_FROM:
        yield Folded(f"{title} ({len(table.rows)} rows)", [table])
    else:
        yield from (Heading(title), table)


def _prompt_rows(name: str, found: Sequence[PromptFigure], links: Links | None) -> Iterator[list[Cell]]:
    best, worst = found[:BEST], found[BEST:][-BEST:]
    for mark, chosen in (("▲ best", best), ("▼ worst", worst)):
        for one in chosen:
            turn = f", turn {one.turn + 1}" if one.turn else ""
            which = f"{one.question}{turn}"
            yield [
                f"{name}: {mark}",
                Link(which, links(one.trace)) if links is not None and one.trace else which,
                one.kind,
                *(NONE if value is None else f"{value:.2f}" for value in (one.al, one.speed, one.speedup)),
                shortened(one.text, PROMPT_TEXT),
            ]


def _engines(result: Result) -> Iterator[Part]:
    if not result.engines:
        yield Paragraph("No engine has been ready yet.", "note")
        return
    names = labels(result.plan.settings)
    parts: list[Part] = []
    if differing := differing_fields(result):
        head = ["field", *(names[number] for number in sorted(result.engines))]
        rows = [[path, *values.values()] for path, values in differing.items()]
        parts.append(Table("What differs between the settings", head, rows))
    same = [[path, value] for path, value in common_fields(result).items()]
    parts.append(Table("What is the same in all of them", ("field", "value"), same, ("value",)))
    parts.append(Paragraph("–: not recorded, or the engine has no such thing.", "note"))
    yield Folded("Engines, models, versions and options", parts)


def _troubles(result: Result) -> Iterator[Part]:
    told = {
        "Failures": failures(result),
        "Lines of the result's file": result.notices,
        "Lines of the data set": result.plan.dataset.skipped,
    }
    if any(told.values()):
        yield Heading("What went wrong")
    for summary, sentences in told.items():
        if sentences:
            more = len(sentences) - MAX_LISTED
            shown = [*sentences[:MAX_LISTED], *([f"… and {more} more."] if more > 0 else [])]
            yield Paragraph(f"{summary}:")
            yield Items([shortened(sentence, 400) for sentence in shown])
