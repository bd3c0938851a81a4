"""Whether a benchmark reaches what was published or recorded for its pair.

Expectations are data: each file of ``assets/expectations`` is a JSON list of rows (``Expectation``) of
one pair. An acceptance length depends on K, temperature, the questions and the way it is averaged, so
a row is judged by a setting that has all of this in common, or by none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import msgspec

from dflash_viz.metrics.measured.bootstrap import Estimate
from dflash_viz.metrics.measured.conditions import (
    Expectation,
    obstacles,
    remarks,
    same_target,
    thinking,
    turns_asked,
)
from dflash_viz.metrics.measured.figures import setting_value
from dflash_viz.results import Result

__all__ = [
    "EXPECTATIONS",
    "Expectation",
    "ExpectationError",
    "Outcome",
    "Verdict",
    "judge",
    "judge_rows",
    "read_expectations",
    "recorded_expectations",
    "write_expectations",
]

EXPECTATIONS = Path(__file__).resolve().parents[3] / "assets" / "expectations"
"""The product's own, a file a pair."""
Outcome = Literal["pass", "fail", "not comparable"]
_UNREADABLE = (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError)


class ExpectationError(ValueError):
    """Expectations cannot be read, or not be made; the message says where and why."""


@dataclass(frozen=True)
class Verdict:
    """What became of one expectation.

    ``setting`` is the one that fits it best, ``measured`` that setting's AL by the row's own definition,
    with its interval; it passes from ``needed`` on. ``reasons``: why it is not comparable, or what should
    be known beside pass and fail.
    """

    expectation: Expectation
    setting: int
    outcome: Outcome
    measured: Estimate | None
    needed: float
    reasons: tuple[str, ...]


def read_expectations(folder: Path = EXPECTATIONS) -> list[Expectation]:
    """The rows of all files in a folder, by file name.

    Raises ``ExpectationError`` naming the file and, where one is at fault, its row and field.
    """
    if not folder.is_dir():
        raise ExpectationError(f"There is no folder of expectations at {folder}.")
    return [row for file in sorted(folder.glob("*.json")) for row in _rows(file)]


def write_expectations(rows: Sequence[Expectation], path: Path) -> None:
    """Write the rows of one pair as a file that ``read_expectations`` reads. Raises ``OSError``."""
    path.write_bytes(msgspec.json.format(msgspec.json.encode(rows), indent=2) + b"\n")


def judge(result: Result, expectations: Sequence[Expectation]) -> list[Verdict]:
    """A verdict for every row of the result's data set, of its pair or target, and of a method that was
    measured; none for the others."""
    return judge_rows(result, [row for row in expectations if _concerns(row, result)])


def judge_rows(result: Result, expectations: Sequence[Expectation]) -> list[Verdict]:
    """A verdict for every row, whatever the result is of."""
    return [_judged(result, row) for row in expectations]


def recorded_expectations(result: Result, pair: str, tolerance: float, note: str) -> list[Expectation]:
    """Rows from a complete result: one for each of its drafting settings, by the pooled AL, which is the
    same however many requests are answered at once.

    Targets and drafters are known by their content hashes, the questions by theirs. Raises
    ``ExpectationError`` for a result that would itself not be comparable with such a row.
    """
    settings = [n for n, asked in enumerate(result.plan.settings) if not asked.plain]
    rows = [_recorded(result, number, pair, tolerance, note) for number in settings]
    if not rows:
        raise ExpectationError("Nothing in this result drafts, so there is nothing to expect of it.")
    for number, row in zip(settings, rows, strict=True):
        if reasons := obstacles(row, result, number):
            lane = result.plan.settings[number].lane
            raise ExpectationError(f"Nothing can be expected by {lane} of this result: {'; '.join(reasons)}.")
    return rows


def _rows(file: Path) -> list[Expectation]:
    try:
        return msgspec.json.decode(file.read_bytes(), type=list[Expectation])
    except _UNREADABLE as error:
        raise ExpectationError(f"The expectations in {file.name} cannot be read: {error}.") from error


def _concerns(row: Expectation, result: Result) -> bool:
    if row.dataset != result.plan.dataset.name or not _fitting(row, result):
        return False
    return row.pair == result.plan.pair or any(same_target(row, e) for e in result.engines.values())


def _fitting(row: Expectation, result: Result) -> list[int]:
    """The settings that draft by the row's method."""
    return [n for n, asked in enumerate(result.plan.settings) if asked.method == row.method]


def _judged(result: Result, row: Expectation) -> Verdict:
    fitting = _fitting(row, result) or list(range(len(result.plan.settings)))
    # The setting with the fewest obstacles; of several without any, the one with the fewest at once.
    against = {number: obstacles(row, result, number) for number in fitting}
    best = min(fitting, key=lambda n: (len(against[n]), result.plan.settings[n].concurrency))
    measured, reasons = setting_value(result, best, row.definition), against[best]
    if measured is None:
        reasons = reasons or ["nothing was drafted"]
    if measured is None or reasons:
        return Verdict(row, best, "not comparable", measured, row.needed, tuple(reasons))
    outcome: Outcome = "pass" if measured.value >= row.needed else "fail"
    return Verdict(row, best, outcome, measured, row.needed, tuple(remarks(row, result, best)))


def _recorded(result: Result, setting: int, pair: str, tolerance: float, note: str) -> Expectation:
    asked, plan, engine = result.plan.settings[setting], result.plan, result.engines.get(setting)
    al = setting_value(result, setting, "al")
    if engine is None or al is None:
        raise ExpectationError(f"Nothing can be expected by {asked.lane} of this result: it has no AL.")
    target, drafter = engine.fingerprint.target, engine.fingerprint.drafter
    device = engine.fingerprint.device or "an unknown device"
    return Expectation(
        pair=pair,
        target=target.name,
        drafter=drafter.name if drafter else "",
        method=asked.method,
        dataset=plan.dataset.name,
        num_speculative_tokens=asked.num_speculative_tokens,
        temperature=asked.temperature,
        max_tokens=plan.max_tokens,
        turns=turns_asked(result),
        definition="al",
        al=round(al.value, 3),
        tolerance=tolerance,
        source=f"recorded {result.head.created_at[:10]} by version {result.head.program} on {device}",
        thinking=thinking(result, setting),
        num_questions=plan.dataset.num_questions,
        note=note,
        drafter_hash=drafter.content_hash if drafter else None,
        target_hash=target.content_hash,
        dataset_hash=plan.dataset.content_hash or None,
    )
