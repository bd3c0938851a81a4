"""What the command ``validate`` says of its benchmarks: before they begin, and of what came of them."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from dflash_viz.bench.validation import Check, Choice, Validation
from dflash_viz.metrics.measured.conditions import Expectation, question_obstacles
from dflash_viz.metrics.measured.expectations import Verdict
from dflash_viz.results import Result, labels
from dflash_viz.views.measured_report import document
from dflash_viz.views.measured_text import AL_NAMES, MARKS, TURNS, with_interval

Done = tuple[Result, Validation]
THINKING = {True: "; thinking", False: "; not thinking", None: ""}


def announced(checks: Sequence[Check]) -> str:
    """What will be run, what is expected of it, and what is known before to keep it from a verdict."""
    many = "One benchmark is" if len(checks) == 1 else f"{len(checks)} benchmarks, one after another, are"
    lines = [f"{many} run; how long it takes is known after the first answers:"]
    for number, check in enumerate(checks, start=1):
        lines += [f"{number}. {_asked(check)}", *(f"   - expected: {_expected(row)}" for row in check.rows)]
        lines += [f"   - {_hopeless(row, reasons)}" for row, reasons in check.obstacles()]
    return "\n".join(lines)


def misfits(check: Check, result: Result) -> list[str]:
    """A sentence for every row to which the questions that were found do not fit."""
    found = ((row, question_obstacles(row, result)) for row in check.rows)
    return [_hopeless(row, reasons) for row, reasons in found if reasons]


def way_on(pair: str, choice: Choice, folders: Iterable[Path]) -> str:
    """The command that goes on with the results in these folders and judges them."""
    chosen = {
        "--dataset": choice.dataset,
        "--data": choice.data,
        "--preset": choice.preset,
        "--lanes": ",".join(choice.lanes),
        "--drafter": choice.drafter,
    }
    words = ["python", "-m", "dflash_viz", "validate", "--pair", pair]
    words += [str(word) for name, value in chosen.items() if value for word in (name, value)]
    return shlex.join([*words, *(str(word) for folder in folders for word in ("--resume", folder))])


def outcome(done: Sequence[Done]) -> str:
    """Passed or not, every verdict, and for what failed the reasons that traces and weights show."""
    lines = ["Validation passed." if _passed(done) else "Validation FAILED.", ""]
    lines += [line for _, validation in done for one in validation.verdicts for line in _verdict(one)]
    for result, validation in done:
        for name, found in _findings(result, validation).items():
            lines += ["", f"{name} on {result.plan.dataset.name}: what its traces show", *_told(found)]
    return "\n".join(lines)


def outcome_document(done: Sequence[Done]) -> dict[str, Any]:
    """The same for machines: whether all passed, and of each benchmark its document and findings."""
    checks = [
        {
            **document(result, validation.verdicts),
            "passed": validation.passed,
            "findings": _findings(result, validation),
        }
        for result, validation in done
    ]
    return {"passed": _passed(done), "checks": checks}


def _passed(done: Sequence[Done]) -> bool:
    return bool(done) and all(validation.passed for _, validation in done)


def _asked(check: Check) -> str:
    order = check.order
    number = "all questions" if order.limit is None else f"{order.limit} questions"
    ks = ", ".join(map(str, order.ks))
    return (
        f"{order.dataset}, {number} ({TURNS[order.turns]}), lanes {', '.join(order.lanes)} of "
        f"{order.preset}: K = {ks}; temperature {order.temperatures[0]:g}; {order.concurrencies[0]} at once; "
        f"at most {order.max_tokens} tokens{THINKING[check.rows[0].thinking]}"
    )


def _named(row: Expectation) -> str:
    """Which expectation it is, among those of its pair."""
    return (
        f"{row.method} on {row.dataset} ({TURNS[row.turns]}), K = {row.num_speculative_tokens}, temperature "
        f"{row.temperature:g}"
    )


def _expected(row: Expectation) -> str:
    return f"{_named(row)}: {AL_NAMES[row.definition]}, at least {row.needed:.2f} ({row.source})"


def _hopeless(row: Expectation, reasons: Sequence[str]) -> str:
    return f"will not be comparable: {_named(row)}: {'; '.join(reasons)}"


def _verdict(verdict: Verdict) -> list[str]:
    row = verdict.expectation
    measured = f"{AL_NAMES[row.definition]} {with_interval(verdict.measured)}, needed {row.needed:.2f}"
    said = f"- {MARKS[verdict.outcome]}: {_named(row)}: {measured} ({row.source})"
    return [said, *(f"  - {reason}" for reason in verdict.reasons)]


def _findings(result: Result, validation: Validation) -> dict[str, list[dict[str, Any]]]:
    """By setting that failed, what the rules found."""
    names = labels(result.plan.settings)
    return {names[n]: [asdict(one) for one in found] for n, found in validation.findings.items()}


def _told(found: Sequence[dict[str, Any]]) -> Iterator[str]:
    if not found:
        yield "- No rule finds a reason."
    for one in found:
        yield f"- {one['title']}. {one['meaning']}"
        yield from (f"  - {line}" for line in one["evidence"])
        yield f"  - What to do: {one['action']}"
