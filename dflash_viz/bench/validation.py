"""A pair's check: what to run for its expectations, and what came of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from dflash_viz.bench.order import Order
from dflash_viz.lanes import LaneError, LaneSpec, load_preset
from dflash_viz.lanes.spec import PRESETS
from dflash_viz.metrics import diagnose
from dflash_viz.metrics.measured.expectations import Expectation, Verdict, judge
from dflash_viz.metrics.rules.case import Finding
from dflash_viz.results import Result
from dflash_viz.trace import Trace, TraceError, read_trace

ANY_CONCURRENCY = 16
"""Requests at once where the expectation leaves it open: acceptance is the same, and it takes less time."""


@dataclass(frozen=True)
class Check:
    """What a validation runs: the order, the lanes that replace the preset's, the rows that are judged."""

    order: Order
    replaced: Mapping[str, LaneSpec]
    rows: tuple[Expectation, ...]


@dataclass(frozen=True)
class Validation:
    """What came of it: a verdict a row, and by setting what the rules find in its traces."""

    verdicts: tuple[Verdict, ...]
    findings: Mapping[int, list[Finding]]

    @property
    def passed(self) -> bool:
        """Whether every row passed: a row that could not be compared was not checked."""
        return bool(self.verdicts) and all(verdict.outcome == "pass" for verdict in self.verdicts)


@dataclass(frozen=True)
class Choice:
    """What the user chooses of a pair's check; empty: as the pair's expectations say."""

    dataset: str = ""
    data: Path | None = None
    preset: str = ""
    lanes: tuple[str, ...] = ()
    drafter: str = ""


def plan_check(pair: str, known: Sequence[Expectation], choice: Choice) -> Check:
    """What to run for a pair; of its rows those that one benchmark can check, beginning with the first.

    Raises ``LaneError`` naming what is not known.
    """
    rows = _rows(pair, known, choice.dataset)
    preset = load_preset(choice.preset or _preset_of(pair))
    name = choice.preset or _preset_of(pair)
    methods = {row.method for row in rows}
    chosen = [lane for lane in preset.lanes if lane.method in methods and _wanted(lane, choice.lanes)]
    if not chosen:
        asked = f" of {', '.join(choice.lanes)}" if choice.lanes else ""
        raise LaneError(
            f"The preset {name!r} has no lane{asked} with a method in {', '.join(sorted(methods))}."
        )
    taken = {lane.method for lane in chosen}
    rows = [row for row in rows if row.method in taken]
    first = rows[0]
    order = Order(
        preset=name,
        dataset=first.dataset,
        path=choice.data,
        limit=first.num_questions,
        turns=first.turns,
        lanes=tuple(lane.name for lane in chosen),
        ks=tuple(sorted({row.num_speculative_tokens for row in rows})),
        temperatures=(first.temperature,),
        concurrencies=(first.concurrency or ANY_CONCURRENCY,),
        max_tokens=first.max_tokens,
    )
    return Check(order, _replaced(chosen, choice.drafter), tuple(rows))


def conclude(result: Result, rows: Sequence[Expectation]) -> Validation:
    """Judge a result, and look for the reasons in the traces of what failed."""
    verdicts = judge(result, rows)
    failed = {v.setting for v in verdicts if v.outcome == "fail" and v.setting is not None}
    findings = {setting: diagnose(_traces(result, setting)) for setting in sorted(failed)}
    return Validation(tuple(verdicts), findings)


def _rows(pair: str, known: Sequence[Expectation], dataset: str) -> list[Expectation]:
    rows = [row for row in known if row.pair == pair]
    if not rows:
        pairs = ", ".join(sorted({row.pair for row in known}))
        raise LaneError(f"There are no expectations for the pair {pair!r}. Pairs: {pairs}.")
    wanted = dataset or rows[0].dataset
    if not (on := [row for row in rows if row.dataset == wanted]):
        sets = ", ".join(sorted({row.dataset for row in rows}))
        raise LaneError(f"The pair {pair!r} has no expectations on {wanted!r}. Data sets: {sets}.")
    return [row for row in on if _together(row) == _together(on[0])]


def _together(row: Expectation) -> tuple[object, ...]:
    """Rows that agree in this can be checked by one benchmark."""
    return row.turns, row.max_tokens, row.temperature, row.concurrency, row.num_questions


def _preset_of(pair: str) -> str:
    """The preset that is called like the pair, or begins with its name."""
    names = sorted(path.stem for path in PRESETS.glob("*.yaml"))
    found = [name for name in names if name == pair or name.startswith(f"{pair}-")]
    if not found:
        raise LaneError(f"No preset ships for the pair {pair!r}: write one, and name it with --preset.")
    return found[0]


def _wanted(lane: LaneSpec, names: tuple[str, ...]) -> bool:
    return not names or lane.name in names


def _replaced(lanes: Sequence[LaneSpec], drafter: str) -> dict[str, LaneSpec]:
    """The one lane with another drafter."""
    if not drafter:
        return {}
    with_drafter = [lane for lane in lanes if lane.drafter is not None]
    if len(with_drafter) != 1:
        names = ", ".join(lane.name for lane in with_drafter) or "none"
        raise LaneError(
            f"--drafter replaces the drafter of one lane: choose it with --lanes (here: {names})."
        )
    lane = with_drafter[0]
    return {lane.name: msgspec.structs.replace(lane, drafter=drafter)}


def _traces(result: Result, setting: int) -> list[Trace]:
    """The setting's traces, as many as can be read."""
    found = []
    for answer in result.answers_of(setting):
        if result.folder is not None and answer.trace:
            try:
                found.append(read_trace(Path(result.folder) / answer.trace))
            except TraceError:  # the verdict stands without it
                continue
    return found
