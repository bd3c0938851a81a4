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
from dflash_viz.weights import WeightsError, resolve_model
from dflash_viz.weights.compare import TensorDifference, differing_tensors

DIFFERENCES = {
    "reordered": "the same numbers in another order",
    "changed": "other numbers",
    "shape": "another shape or number format",
    "missing": "nothing, where the expected drafter has something,",
    "added": "something that the expected drafter does not have",
}
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


def conclude(result: Result, check: Check) -> Validation:
    """Judge a result; of what failed, look for the reasons in its traces and in its drafter's weights."""
    verdicts = judge(result, check.rows)
    failed = {verdict.setting for verdict in verdicts if verdict.outcome == "fail"}
    findings = {
        setting: [*_weights(result.plan.settings[setting].lane, check), *diagnose(_traces(result, setting))]
        for setting in sorted(failed)
    }
    return Validation(tuple(verdicts), findings)


def _weights(lane: str, check: Check) -> list[Finding]:
    """How a drafter that was taken instead of the preset's differs from it."""
    replaced = check.replaced.get(lane)
    own = next(spec for spec in load_preset(check.order.preset).lanes if spec.name == lane)
    if replaced is None or replaced.drafter is None or own.drafter is None:
        return []
    try:
        found = differing_tensors(resolve_model(own.drafter), resolve_model(replaced.drafter))
    except (OSError, ValueError, WeightsError):  # another file format, or gone meanwhile
        return []
    if not found:
        return []
    by_layer: dict[str, list[TensorDifference]] = {}
    for one in found:
        by_layer.setdefault(_layer(one.name), []).append(one)
    places = ", ".join(by_layer)
    return [
        Finding(
            "weights",
            f"The drafter's weights differ from the expected ones: {places}",
            "These are not the weights that the expectation was recorded with. Numbers in another order mean "
            "a tensor that was shuffled or transposed on its way; other numbers another training or a "
            "damaged file.",
            tuple(_told(place, some) for place, some in by_layer.items()),
            f"Take the pair's own drafter ({own.drafter}), or export this one again and compare.",
        )
    ]


def _layer(tensor: str) -> str:
    """``layers.2.mlp.up_proj.weight`` is of layer 2; other tensors stand for themselves."""
    parts = tensor.split(".")
    if "layers" in parts[:-1] and (number := parts[parts.index("layers") + 1]).isdecimal():
        return f"layer {number}"
    return tensor


def _told(place: str, found: Sequence[TensorDifference]) -> str:
    """What is different in one place, each kind of difference with the tensors that have it."""
    kinds: dict[str, list[str]] = {}
    for one in found:
        kinds.setdefault(DIFFERENCES[one.how], []).append(one.name)
    return f"{place}: " + "; ".join(f"{kind} in {', '.join(names)}" for kind, names in kinds.items()) + "."


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
