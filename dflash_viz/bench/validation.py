"""A pair's check: what to run for its expectations, and what came of it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from dflash_viz.bench.damage import damage
from dflash_viz.bench.job import TEMPLATE_OPTION
from dflash_viz.bench.order import Order
from dflash_viz.lanes import LaneError, LaneSpec, load_preset
from dflash_viz.lanes.spec import preset_names
from dflash_viz.metrics import diagnose
from dflash_viz.metrics.measured.conditions import foreseen
from dflash_viz.metrics.measured.expectations import Expectation, Verdict, judge_rows
from dflash_viz.metrics.rules.case import Finding
from dflash_viz.results import Result, read_result
from dflash_viz.trace import Trace, TraceError, read_trace
from dflash_viz.weights.resolver import EMBEDDED, EMBEDDED_NAME

ANY_CONCURRENCY = 16
"""Requests at once where the expectation leaves it open: acceptance is the same, and it takes less time."""


@dataclass(frozen=True)
class Check:
    """One benchmark of a validation: its order, the lanes that replace the preset's, the rows that are
    judged by it."""

    order: Order
    replaced: Mapping[str, LaneSpec]
    rows: tuple[Expectation, ...]

    def specs(self) -> dict[str, LaneSpec]:
        """The preset's lanes as they are run here, by name."""
        return {lane.name: lane for lane in load_preset(self.order.preset).lanes} | dict(self.replaced)

    def obstacles(self) -> list[tuple[Expectation, list[str]]]:
        """The rows of which it is known before an engine starts that they will not be comparable, and why."""
        specs = self.specs()
        lanes = [specs[name] for name in self.order.lanes]
        by_row = [
            (row, min((_obstacles(row, one) for one in lanes if one.method == row.method), key=len))
            for row in self.rows
        ]
        return [(row, reasons) for row, reasons in by_row if reasons]

    def began(self, result: Result) -> bool:
        """Whether a result is one of this check, so that it can go on with it."""
        plan, order, asked = result.plan, self.order, result.plan.dataset
        limit = asked.num_available if order.limit is None else min(order.limit, asked.num_available)
        return (plan.pair, plan.settings, plan.max_tokens, asked.name, asked.turns, asked.num_questions) == (
            order.preset, order.settings(), order.max_tokens, order.dataset, order.turns, limit
        )  # fmt: skip


@dataclass(frozen=True)
class Validation:
    """What came of a check: a verdict a row, and by setting what the rules find in its traces."""

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


def plan_checks(pair: str, known: Sequence[Expectation], choice: Choice) -> list[Check]:
    """What to run for a pair's rows on one data set: rows that one benchmark can answer go together.

    Raises ``LaneError`` naming what is not known.
    """
    rows = _rows(pair, known, choice.dataset)
    name = choice.preset or preset_of(pair)
    lanes = _chosen(name, {row.method for row in rows}, choice.lanes)
    replaced = _replaced(lanes, choice.drafter)
    groups: dict[tuple[object, ...], list[Expectation]] = {}
    for row in rows:
        if any(lane.method == row.method for lane in lanes):
            groups.setdefault(_together(row), []).append(row)
    return [_check(name, lanes, replaced, group, choice.data) for group in groups.values()]


def begun_checks(checks: Sequence[Check], folders: Sequence[Path]) -> dict[int, Path]:
    """Which checks have a result already, by their numbers from 0: each folder is of the first that fits.

    Raises ``ResultError`` for what is no result, ``LaneError`` for one of another check.
    """
    found: dict[int, Path] = {}
    for folder in folders:
        result = read_result(folder)
        fitting = [n for n, check in enumerate(checks) if n not in found and check.began(result)]
        if not fitting:
            raise LaneError(
                f"{folder} holds no result of this check: give the pair, data set, preset and lanes that it "
                "was begun with."
            )
        found[fitting[0]] = folder
    return found


def conclude(result: Result, check: Check) -> Validation:
    """Judge a result; of what failed, look for the reasons in its traces and in its drafter's weights."""
    verdicts = judge_rows(result, check.rows)
    failed = {one.setting: one.expectation for one in verdicts if one.outcome == "fail"}
    findings = {
        setting: [*_weights(result, setting, failed[setting], check), *diagnose(_traces(result, setting))]
        for setting in sorted(failed)
    }
    return Validation(tuple(verdicts), findings)


def preset_of(pair: str) -> str:
    """The first preset that the pair's expectations are of. Raises ``LaneError``."""
    found = [name for name in preset_names() if load_preset(name).expectations == pair]
    if not found:
        raise LaneError(f"No preset ships for the pair {pair!r}: write one, and name it with --preset.")
    return found[0]


def _check(
    preset: str,
    lanes: Sequence[LaneSpec],
    replaced: Mapping[str, LaneSpec],
    rows: Sequence[Expectation],
    data: Path | None,
) -> Check:
    """The benchmark that answers these rows, which agree in all that ``_together`` says."""
    first, methods = rows[0], {row.method for row in rows}
    asked = [replaced.get(lane.name, lane) for lane in lanes if lane.method in methods]
    order = Order(
        preset=preset,
        dataset=first.dataset,
        path=data,
        limit=first.num_questions,
        turns=first.turns,
        lanes=tuple(lane.name for lane in asked),
        ks=tuple(sorted({row.num_speculative_tokens for row in rows})),
        temperatures=(first.temperature,),
        concurrencies=(first.concurrency or ANY_CONCURRENCY,),
        max_tokens=first.max_tokens,
    )
    changed = {lane.name: _told_to_think(lane, first.thinking) for lane in asked}
    own = {lane.name: lane for lane in lanes}
    return Check(order, {name: lane for name, lane in changed.items() if lane != own[name]}, tuple(rows))


def _obstacles(row: Expectation, lane: LaneSpec) -> list[str]:
    told = (_template_options(lane) or {}).get("enable_thinking")
    return foreseen(row, _model_name(lane.target), told if isinstance(told, bool) else None)


def _model_name(target: str) -> str:
    """What a target will be called in the engine's fingerprint."""
    if target == EMBEDDED:
        return EMBEDDED_NAME
    return target if target.count("/") == 1 and target[0] not in ".~/" else Path(target).name


def _template_options(lane: LaneSpec) -> dict[str, Any] | None:
    """What a lane's chat template is told; None where it is nothing that can be read."""
    told = lane.engine.get(TEMPLATE_OPTION) or {}
    try:
        read = json.loads(told) if isinstance(told, str) else told
    except ValueError:
        return None
    return read if isinstance(read, dict) else None


def _told_to_think(lane: LaneSpec, thinking: bool | None) -> LaneSpec:
    """The lane with its model thinking or not as the expectation has it, like K and the temperature."""
    options = _template_options(lane)
    if thinking is None or options is None or options.get("enable_thinking") is thinking:
        return lane
    told = json.dumps({**options, "enable_thinking": thinking})
    return msgspec.structs.replace(lane, engine={**lane.engine, TEMPLATE_OPTION: told})


def _weights(result: Result, setting: int, row: Expectation, check: Check) -> list[Finding]:
    """How the drafter that was measured differs from the one that ships for the row's pair."""
    lane = check.specs().get(result.plan.settings[setting].lane)
    try:
        shipped = [one.drafter for one in load_preset(preset_of(row.pair)).lanes if one.method == row.method]
    except LaneError:  # no preset ships for it
        return []
    expected = next((drafter for drafter in shipped if drafter), None)
    if lane is None or lane.drafter is None or expected is None or lane.drafter == expected:
        return []
    return damage(expected, lane.drafter)


def _rows(pair: str, known: Sequence[Expectation], dataset: str) -> list[Expectation]:
    rows = [row for row in known if row.pair == pair]
    if not rows:
        pairs = ", ".join(sorted({row.pair for row in known}))
        raise LaneError(f"There are no expectations for the pair {pair!r}. Pairs: {pairs}.")
    wanted = dataset or rows[0].dataset
    if not (on := [row for row in rows if row.dataset == wanted]):
        sets = ", ".join(sorted({row.dataset for row in rows}))
        raise LaneError(f"The pair {pair!r} has no expectations on {wanted!r}. Data sets: {sets}.")
    return on


def _chosen(preset: str, methods: set[str], names: tuple[str, ...]) -> list[LaneSpec]:
    """The preset's lanes of which something is expected; of these the ones that are named, if any are."""
    lanes = [lane for lane in load_preset(preset).lanes if lane.method in methods]
    chosen = [lane for lane in lanes if not names or lane.name in names]
    if not chosen:
        asked = f" of {', '.join(names)}" if names else ""
        raise LaneError(
            f"The preset {preset!r} has no lane{asked} with a method in {', '.join(sorted(methods))}."
        )
    return chosen


def _together(row: Expectation) -> tuple[object, ...]:
    """Rows that agree in this can be checked by one benchmark."""
    return row.turns, row.max_tokens, row.temperature, row.concurrency, row.num_questions, row.thinking


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
