"""A pair's check without engines: what it would run, and what comes of results made by hand."""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch
from safetensors.torch import load_file, save_file

from dflash_viz.bench.job import resume_job
from dflash_viz.bench.order import Order
from dflash_viz.bench.validation import (
    ANY_CONCURRENCY,
    Check,
    Choice,
    begun_checks,
    conclude,
    plan_checks,
)
from dflash_viz.lanes import LaneError, LaneSpec, load_preset
from dflash_viz.lanes.client import LaneClient
from dflash_viz.metrics import diagnose
from dflash_viz.metrics.measured.expectations import Expectation, read_expectations, recorded_expectations
from dflash_viz.results import Failure, Result, write_result
from dflash_viz.results.files import being_written
from dflash_viz.trace import read_trace
from dflash_viz.weights.resolver import ROOT
from tests.measured import empty_result, made_result, made_settings

KNOWN = read_expectations()
DRAFTER = ROOT / "assets" / "drafters" / "smollm2-135m-instruct-dflash-b8"
GALLERY = ROOT / "assets" / "recorded" / "gallery"
PAIR = """
title: Qwen3-8B on a GPU
lanes:
  - name: wide
    method: dflash
    target: Qwen/Qwen3-8B
    drafter: z-lab/Qwen3-8B-DFlash-b16
    num_speculative_tokens: 7
  - {name: quick, method: ngram, target: Qwen/Qwen3-8B, num_speculative_tokens: 5}
  - {name: alone, method: none, target: Qwen/Qwen3-8B}
"""


def row(**changes: Any) -> Expectation:
    """An expectation of the embedded pair."""
    fields: dict[str, Any] = {
        "pair": "embedded", "target": "target", "drafter": "dflash-drafter", "method": "dflash",
        "dataset": "builtin", "num_speculative_tokens": 5, "temperature": 0.0, "max_tokens": 64,
        "turns": "first", "definition": "al", "al": 2.0, "tolerance": 0.9, "source": "a test",
    }  # fmt: skip
    return Expectation(**{**fields, **changes})


def refusal(pair: str, choice: Choice, known: list[Expectation] | None = None) -> str:
    with pytest.raises(LaneError) as caught:
        plan_checks(pair, KNOWN if known is None else known, choice)
    return str(caught.value)


def plan_check(pair: str, known: list[Expectation], choice: Choice) -> Check:
    """The check where there is but one."""
    (check,) = plan_checks(pair, known, choice)
    return check


def test_the_embedded_pair_is_checked_as_it_was_recorded() -> None:
    check = plan_check("embedded", KNOWN, Choice())
    first = next(one for one in KNOWN if one.pair == "embedded")
    assert check.order == Order(
        preset="embedded-cpu",
        dataset=first.dataset,
        limit=first.num_questions,
        lanes=tuple(one.name for one in load_preset("embedded-cpu").lanes if one.name in check.order.lanes),
        ks=(5,),
        concurrencies=(first.concurrency or ANY_CONCURRENCY,),
        max_tokens=first.max_tokens,
    )
    assert "dflash" in check.order.lanes
    assert "none" not in check.order.lanes, "nothing is expected of it"
    assert check.replaced == {}
    assert {one.dataset for one in check.rows} == {first.dataset}
    assert {one.method for one in check.rows} == set(check.order.lanes)


def test_a_pair_that_nobody_knows_is_named_with_those_there_are() -> None:
    told = (
        "There are no expectations for the pair 'qwen9'. Pairs: embedded, llama-3.1-8b, qwen3-4b, qwen3-8b."
    )
    assert refusal("qwen9", Choice()) == told


def test_a_data_set_without_expectations_is_named_with_those_there_are() -> None:
    known = [row(), row(dataset="gsm8k")]
    told = "The pair 'embedded' has no expectations on 'mbpp'. Data sets: builtin, gsm8k."
    assert refusal("embedded", Choice(dataset="mbpp"), known) == told


def test_a_data_set_is_chosen_by_its_name(tmp_path: Path) -> None:
    known = [row(), row(dataset="gsm8k", num_questions=30, turns="both", max_tokens=99, temperature=0.6)]
    check = plan_check("embedded", known, Choice(dataset="gsm8k", data=tmp_path))
    assert check.rows == (known[1],)
    order = check.order
    assert (order.dataset, order.path, order.limit, order.turns) == ("gsm8k", tmp_path, 30, "both")
    assert (order.max_tokens, order.temperatures) == (99, (0.6,))


def test_where_the_row_says_nothing_many_are_asked_at_once() -> None:
    order = plan_check("embedded", [row()], Choice()).order
    assert (order.concurrencies, order.limit) == ((ANY_CONCURRENCY,), None)
    assert plan_check("embedded", [row(concurrency=4)], Choice()).order.concurrencies == (4,)


def test_rows_that_need_another_benchmark_get_one() -> None:
    same = row(method="eagle3", num_speculative_tokens=3)
    wide = row(num_speculative_tokens=16)
    others = [
        row(temperature=1.0), row(max_tokens=65), row(turns="both"), row(concurrency=1),
        row(num_questions=5), row(thinking=True),
    ]  # fmt: skip
    foreign = [row(dataset="gsm8k"), row(pair="another")]
    first, *rest = plan_checks("embedded", [row(), *others, *foreign, wide, same], Choice())
    assert first.rows == (row(), wide, same)
    assert first.order.lanes == ("dflash", "eagle3")
    assert first.order.ks == (3, 5, 16)
    assert [check.rows for check in rest] == [(one,) for one in others]
    assert [check.order.lanes for check in rest] == [("dflash",)] * len(others)
    orders = [check.order for check in rest]
    assert orders[0].temperatures == (1.0,)
    assert (orders[1].max_tokens, orders[2].turns) == (65, "both")
    assert (orders[3].concurrencies, orders[4].limit) == ((1,), 5)


def test_every_published_row_is_reached() -> None:
    for pair in ("qwen3-4b", "qwen3-8b", "llama-3.1-8b"):
        rows = [one for one in KNOWN if one.pair == pair]
        sets = dict.fromkeys(one.dataset for one in rows)
        checks = [check for name in sets for check in plan_checks(pair, KNOWN, Choice(dataset=name))]
        assert sorted((one for check in checks for one in check.rows), key=str) == sorted(rows, key=str)
        for check in checks:
            assert check.obstacles() == []
            settings = check.order.settings()
            for one in check.rows:
                asked = (one.method, one.num_speculative_tokens, one.temperature)
                found = [(s.method, s.num_speculative_tokens, s.temperature) for s in settings]
                assert asked in found
                assert check.order.limit == one.num_questions


def test_the_papers_and_vllms_k_go_together() -> None:
    checks = plan_checks("qwen3-8b", KNOWN, Choice())
    assert [(check.order.preset, check.order.ks, check.order.temperatures) for check in checks] == [
        ("qwen3-8b", (15, 16), (0.0,)),
        ("qwen3-8b", (15,), (1.0,)),
    ]


def test_the_model_thinks_where_the_expectation_says_so() -> None:
    checks = plan_checks("qwen3-8b", KNOWN, Choice(dataset="mt-bench"))
    told = [
        {
            name: json.loads(lane.engine["default-chat-template-kwargs"])
            for name, lane in check.replaced.items()
        }
        for check in checks
    ]
    assert [check.rows[0].thinking for check in checks] == [False, False, False, True]
    assert told == [{}, {}, {}, {"eagle3": {"enable_thinking": True}}], "the preset says no for all"


@pytest.mark.parametrize(
    ("option", "told"),
    [
        (None, {"enable_thinking": False}),
        ('{"enable_thinking": true, "x": 1}', {"enable_thinking": False, "x": 1}),
        ('{"enable_thinking": false}', None),
        ("no JSON", None),
        ("[1]", None),
    ],
)
def test_what_the_preset_says_of_thinking_gives_way(
    tmp_path: Path, option: str | None, told: dict[str, Any] | None
) -> None:
    lane = LaneSpec("mine", "dflash", "Qwen/Qwen3-8B", "d", 5)
    if option is not None:
        lane = msgspec.structs.replace(lane, engine={"default-chat-template-kwargs": option})
    preset = tmp_path / "mine.yaml"
    preset.write_bytes(msgspec.yaml.encode({"title": "Mine", "lanes": [lane]}))
    asks = row(thinking=False, target="Qwen/Qwen3-8B")
    check = plan_check("embedded", [asks], Choice(preset=str(preset)))
    engines = [spec.engine["default-chat-template-kwargs"] for spec in check.replaced.values()]
    assert [json.loads(engine) for engine in engines] == ([] if told is None else [told])
    open_row = plan_check("embedded", [row()], Choice(preset=str(preset)))
    assert open_row.replaced == {}, "any will do"
    # An option that cannot be read is the engine's to refuse; what it leads to is said.
    (unread,) = check.obstacles() or [(asks, [])]
    assert ("not known" in " ".join(unread[1])) == (option in ("no JSON", "[1]"))


@pytest.mark.parametrize(
    ("target", "known", "reasons"),
    [
        ("Qwen/Qwen3-4B", None, ["the target is Qwen/Qwen3-4B, not Qwen/Qwen3-8B"]),
        ("Qwen/Qwen3-8B", None, []),
        ("/models/Qwen3-8B", None, []),
        ("./Qwen3-8B", None, []),
        ("other/Qwen3-8B", None, ["the target is other/Qwen3-8B, not Qwen/Qwen3-8B"]),
        ("embedded", None, ["the target is HuggingFaceTB/SmolLM2-135M-Instruct, not Qwen/Qwen3-8B"]),
        ("mine/renamed", "its-hash", []),
    ],
)
def test_another_target_is_known_before_anything_starts(
    tmp_path: Path, target: str, known: str | None, reasons: list[str]
) -> None:
    preset = tmp_path / "mine.yaml"
    lane = LaneSpec("mine", "dflash", target, "d", 5)
    preset.write_bytes(msgspec.yaml.encode({"title": "Mine", "lanes": [lane]}))
    asks = row(target="Qwen/Qwen3-8B", target_hash=known)
    check = plan_check("embedded", [asks], Choice(preset=str(preset)))
    assert check.obstacles() == ([(asks, reasons)] if reasons else [])


def test_lanes_are_chosen_and_the_rows_with_them() -> None:
    known = [row(), row(method="eagle3"), row(method="ngram")]
    check = plan_check("embedded", known, Choice(lanes=("eagle3",)))
    assert check.order.lanes == ("eagle3",)
    assert check.rows == (known[1],)


def test_what_is_asked_is_what_the_first_row_of_the_chosen_lanes_says() -> None:
    # "concurrency" and the like are the same in all rows that go together; K is taken of the chosen alone.
    known = [row(num_speculative_tokens=3), row(method="eagle3", num_speculative_tokens=4)]
    assert plan_check("embedded", known, Choice(lanes=("eagle3",))).order.ks == (4,)


@pytest.mark.parametrize("lane", ["none", "unknown"])
def test_a_lane_of_which_nothing_is_expected_is_refused(lane: str) -> None:
    known = [row(), row(method="eagle3")]
    told = f"The preset 'embedded-cpu' has no lane of {lane} with a method in dflash, eagle3."
    assert refusal("embedded", Choice(lanes=(lane,)), known) == told


def test_a_preset_without_a_fitting_lane_is_refused(tmp_path: Path) -> None:
    preset = tmp_path / "mine.yaml"
    preset.write_text("title: Mine\nlanes:\n  - {name: alone, method: none}\n")
    told = f"The preset '{preset}' has no lane with a method in dflash."
    assert refusal("embedded", Choice(preset=str(preset)), [row()]) == told


def test_a_pair_without_a_preset_says_how_to_give_one() -> None:
    told = "No preset ships for the pair 'mine': write one, and name it with --preset."
    assert refusal("mine", Choice(), [row(pair="mine")]) == told


def test_published_rows_are_checked_with_a_preset_of_ones_own(tmp_path: Path) -> None:
    preset = tmp_path / "qwen3-8b.yaml"
    preset.write_text(PAIR)
    check = plan_check("qwen3-8b", KNOWN, Choice(dataset="math500", preset=str(preset)))
    assert check.order == Order(
        preset=str(preset),
        dataset="math500",
        limit=128,
        lanes=("wide",),
        ks=(15,),
        concurrencies=(1,),
        max_tokens=2048,
    )
    assert [(one.pair, one.dataset, one.al) for one in check.rows] == [("qwen3-8b", "math500", 7.87)]
    # K is the published one, not the preset's.
    assert [one.num_speculative_tokens for one in check.order.settings()] == [15]


def test_another_drafter_takes_the_place_of_the_one_lanes() -> None:
    known = [row(), row(method="ngram")]
    check = plan_check("embedded", known, Choice(drafter="mine"))
    spec = load_preset("embedded-cpu").lanes[0]
    assert check.replaced == {"dflash": msgspec.structs.replace(spec, drafter="mine")}
    assert check.order.lanes == ("dflash", "ngram")


def test_one_drafter_for_two_lanes_is_refused() -> None:
    told = "--drafter replaces the drafter of one lane: choose it with --lanes (here: {})."
    known = [row(), row(method="eagle3"), row(method="ngram")]
    assert refusal("embedded", Choice(drafter="mine"), known) == told.format("dflash, eagle3")
    assert refusal("embedded", Choice(drafter="mine", lanes=("ngram",)), known) == told.format("none")
    chosen = plan_check("embedded", known, Choice(drafter="mine", lanes=("eagle3",)))
    assert list(chosen.replaced) == ["eagle3"]


@pytest.fixture
def result() -> Result:
    return made_result(made_settings(("dflash", "eagle3", "none")))


def check_of(*rows: Expectation, drafter: str = "") -> Check:
    """A check of the embedded pair's lanes, with another drafter in the lane ``dflash``."""
    spec = load_preset("embedded-cpu").lanes[0]
    replaced: dict[str, LaneSpec] = {}
    if drafter:
        replaced = {"dflash": msgspec.structs.replace(spec, drafter=drafter)}
    return Check(Order(), replaced, rows)


def expecting(result: Result, factor: float) -> list[Expectation]:
    """What the result shows, times ``factor``."""
    rows = recorded_expectations(result, "embedded", 0.9, "")
    return [msgspec.structs.replace(one, al=one.al * factor) for one in rows]


def test_what_reaches_its_expectations_passes(result: Result) -> None:
    validation = conclude(result, check_of(*expecting(result, 1.0)))
    assert [one.outcome for one in validation.verdicts] == ["pass", "pass"]
    assert validation.passed
    assert validation.findings == {}


def test_one_row_that_fails_is_enough(result: Result) -> None:
    good, bad = expecting(result, 1.0)[1], expecting(result, 2.0)[0]
    validation = conclude(result, check_of(good, bad))
    assert [one.outcome for one in validation.verdicts] == ["pass", "fail"]
    assert not validation.passed
    assert list(validation.findings) == [0], "of what passed nothing is looked for"


def test_what_cannot_be_compared_never_passes(result: Result) -> None:
    good, other = expecting(result, 0.5)
    unlike = msgspec.structs.replace(other, max_tokens=2048)
    validation = conclude(result, check_of(good, unlike))
    assert [one.outcome for one in validation.verdicts] == ["pass", "not comparable"]
    assert not validation.passed
    assert validation.findings == {}


def test_a_check_that_judged_nothing_did_not_pass(result: Result) -> None:
    assert not conclude(result, check_of()).passed


def test_every_row_of_a_check_gets_a_verdict_whatever_was_measured(result: Result) -> None:
    foreign = row(pair="another", target="another", dataset="gsm8k", method="medusa")
    validation = conclude(result, check_of(foreign))
    (verdict,) = validation.verdicts
    assert verdict.outcome == "not comparable"
    assert verdict.reasons == (
        "the target is target, not another",
        "the method is dflash, not medusa",
        "the questions are builtin, not gsm8k",
    )
    assert not validation.passed


def test_an_engine_that_did_not_start_did_not_pass(result: Result) -> None:
    rows = expecting(result, 1.0)
    del result.engines[0]
    result.answers = [one for one in result.answers if one.setting != 0]
    result.stretches = [one for one in result.stretches if one.setting != 0]
    result.failures = [Failure(0, "It has no room."), Failure(1, "lost", "q1")]
    validation = conclude(result, check_of(*rows))
    assert [one.outcome for one in validation.verdicts] == ["not comparable", "pass"]
    assert validation.verdicts[0].reasons == ("the engine did not start: It has no room",)
    assert not validation.passed


def with_traces(result: Result, folder: Path, runs: dict[int, tuple[str, list[str]]]) -> Result:
    """Give settings' answers the gallery's traces: by setting the file, and the runs to take."""
    result.folder = str(folder)
    for setting, (file, names) in runs.items():
        left = iter(names)
        for number, one in enumerate(result.answers):
            if one.setting == setting and (name := next(left, None)) is not None:
                place = f"traces/{name}/{setting}.jsonl.gz"
                (folder / place).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(GALLERY / name / file, folder / place)
                result.answers[number] = msgspec.structs.replace(one, trace=place)
    return result


def test_what_failed_is_explained_by_its_own_traces(result: Result, tmp_path: Path) -> None:
    poor, fine = ["bad", "chinese", "korean"], ["chat", "code", "maths"]
    runs = {0: ("1-dflash.jsonl.gz", poor), 1: ("2-eagle3.jsonl.gz", fine)}
    validation = conclude(with_traces(result, tmp_path, runs), check_of(*expecting(result, 2.0)))
    assert list(validation.findings) == [0, 1]
    for setting, (file, names) in runs.items():
        traces = [read_trace(GALLERY / name / file) for name in names]
        assert validation.findings[setting] == diagnose(traces)
    assert [one.rule for one in validation.findings[0]] == ["uniformly_low"]
    assert "uniformly_low" not in [one.rule for one in validation.findings[1]]


def test_the_verdict_stands_without_traces(result: Result, tmp_path: Path) -> None:
    rows = expecting(result, 2.0)
    assert conclude(result, check_of(*rows)).findings == {0: [], 1: []}
    with_traces(result, tmp_path, {0: ("1-dflash.jsonl.gz", ["bad", "chinese", "korean"])})
    (tmp_path / "traces" / "chinese" / "0.jsonl.gz").write_bytes(b"no trace")
    (tmp_path / "traces" / "korean" / "0.jsonl.gz").unlink()
    found = conclude(result, check_of(*rows)).findings
    assert found[0] == diagnose([read_trace(GALLERY / "bad" / "1-dflash.jsonl.gz")]) != []


def shuffled(out: Path, layer: int) -> Path:
    """A copy of the shipped drafter with the rows of one layer's matrices in another order."""
    shutil.copytree(DRAFTER, out, ignore=shutil.ignore_patterns("SHA256SUMS"))
    for file in out.glob("*.safetensors"):
        tensors = load_file(file)
        for name, tensor in tensors.items():
            if name.startswith(f"layers.{layer}.") and tensor.dim() == 2:
                tensors[name] = tensor.roll(1, 0).contiguous()
        save_file(tensors, file, metadata={"format": "pt"})
    return out


def test_shuffled_rows_are_found_and_their_layer_named(result: Result, tmp_path: Path) -> None:
    check = check_of(*expecting(result, 2.0), drafter=str(shuffled(tmp_path / "drafter", 2)))
    findings = conclude(result, check).findings
    (found,) = findings[0]
    assert found.rule == "weights"
    assert found.title == "The drafter's weights differ from the expected ones: layer 2"
    matrices = [
        "mlp.down_proj", "mlp.gate_proj", "mlp.up_proj",
        "self_attn.k_proj", "self_attn.o_proj", "self_attn.q_proj", "self_attn.v_proj",
    ]  # fmt: skip
    names = ", ".join(f"layers.2.{one}.weight" for one in matrices)
    assert found.evidence == (f"layer 2: the same numbers in another order in {names}.",)
    assert "assets/drafters/smollm2-135m-instruct-dflash-b8" in found.action
    assert findings[1] == [], "the other lane has its own drafter"


def damaged(out: Path) -> Path:
    """A copy of the shipped drafter with other numbers, another shape, and a tensor under another name."""
    shutil.copytree(DRAFTER, out, ignore=shutil.ignore_patterns("SHA256SUMS"))
    first = out / "model-00001-of-00006.safetensors"
    tensors = load_file(first)
    tensors["norm.weight"] = tensors["norm.weight"] + 1
    tensors["fc.weight"] = tensors["fc.weight"].T.contiguous()
    tensors["hidden_norm.scale"] = tensors.pop("hidden_norm.weight")
    save_file(tensors, first, metadata={"format": "pt"})
    return out


def test_every_kind_of_difference_is_told_in_words(result: Result, tmp_path: Path) -> None:
    check = check_of(*expecting(result, 2.0), drafter=str(damaged(tmp_path / "drafter")))
    (found,) = conclude(result, check).findings[0]
    assert found.evidence == (
        "fc.weight: another shape or number format in fc.weight.",
        "hidden_norm.scale: something that the expected drafter does not have in hidden_norm.scale.",
        "hidden_norm.weight: nothing, where the expected drafter has something, in hidden_norm.weight.",
        "norm.weight: other numbers in norm.weight.",
    )


def test_the_same_weights_elsewhere_are_no_finding(result: Result, tmp_path: Path) -> None:
    copy = tmp_path / "drafter"
    shutil.copytree(DRAFTER, copy)
    assert conclude(result, check_of(*expecting(result, 2.0), drafter=str(copy))).findings[0] == []


def test_weights_that_cannot_be_read_do_not_change_the_verdict(result: Result, tmp_path: Path) -> None:
    rows = expecting(result, 2.0)
    copy = tmp_path / "drafter"
    shutil.copytree(DRAFTER, copy, ignore=shutil.ignore_patterns("SHA256SUMS"))
    (copy / "model-00001-of-00006.safetensors").write_bytes(b"cut")
    for drafter in (copy, tmp_path / "gone"):
        validation = conclude(result, check_of(*rows, drafter=str(drafter)))
        assert validation.findings[0] == []
        assert [one.outcome for one in validation.verdicts] == ["fail", "fail"]


def test_weights_are_looked_at_before_traces(result: Result, tmp_path: Path) -> None:
    with_traces(result, tmp_path / "result", {0: ("1-dflash.jsonl.gz", ["bad", "chinese", "korean"])})
    check = check_of(*expecting(result, 2.0), drafter=str(shuffled(tmp_path / "drafter", 0)))
    assert [one.rule for one in conclude(result, check).findings[0]] == ["weights", "uniformly_low"]


def test_rolled_rows_are_another_matrix() -> None:
    """What the damaged copies rely on."""
    rows = load_file(DRAFTER / "model-00003-of-00006.safetensors")["layers.2.mlp.up_proj.weight"]
    assert not torch.equal(rows.roll(1, 0), rows)


def test_a_damaged_drafter_of_ones_own_preset_is_compared_too(result: Result, tmp_path: Path) -> None:
    lane = msgspec.structs.replace(
        load_preset("embedded-cpu").lanes[0], drafter=str(shuffled(tmp_path / "drafter", 3))
    )
    preset = tmp_path / "mine.yaml"
    preset.write_bytes(msgspec.yaml.encode({"title": "Mine", "lanes": [lane]}))
    rows = expecting(result, 2.0)
    (found,) = conclude(result, Check(Order(preset=str(preset)), {}, tuple(rows))).findings[0]
    assert found.title == "The drafter's weights differ from the expected ones: layer 3"
    nobodys = [msgspec.structs.replace(one, pair="nobody") for one in rows]
    assert conclude(result, Check(Order(preset=str(preset)), {}, tuple(nobodys))).findings[0] == []


def begun(check: Check, folder: Path, **plan: Any) -> Path:
    """A result with a check's plan, changed in these fields, and nothing answered."""
    folder.mkdir()
    made = empty_result(check.order.settings(), check.order.limit or 12)
    dataset = msgspec.structs.replace(made.plan.dataset, num_available=12, name=check.order.dataset)
    told = {"pair": check.order.preset, "dataset": dataset, "max_tokens": check.order.max_tokens, **plan}
    made.head = msgspec.structs.replace(made.head, plan=msgspec.structs.replace(made.plan, **told))
    write_result(made, folder / "result.jsonl")
    return folder


def test_results_find_the_checks_that_they_are_of(tmp_path: Path) -> None:
    known = [row(), row(temperature=1.0), row(num_questions=5)]
    checks = plan_checks("embedded", known, Choice())
    assert len(checks) == 3
    folders = [begun(check, tmp_path / str(number)) for number, check in enumerate(checks)]
    assert begun_checks(checks, []) == {}
    assert begun_checks(checks, [folders[2], folders[0]]) == {2: folders[2], 0: folders[0]}
    again = begun(checks[0], tmp_path / "again")
    with pytest.raises(LaneError, match="again holds no result of this check"):
        begun_checks(checks, [folders[0], again])


@pytest.mark.parametrize(
    "plan", [{"pair": "other"}, {"max_tokens": 65}, {"settings": made_settings(("ngram",))}]
)
def test_a_result_of_another_check_is_refused(tmp_path: Path, plan: dict[str, Any]) -> None:
    check = plan_check("embedded", [row()], Choice())
    with pytest.raises(LaneError, match="holds no result of this check: give the pair"):
        begun_checks([check], [begun(check, tmp_path / "other", **plan)])


async def test_a_check_goes_on_with_its_own_lanes(tmp_path: Path) -> None:
    check = plan_check("embedded", [row()], Choice(drafter="mine"))
    asked: list[LaneSpec] = []

    class Refusing:
        """Lends nothing, and keeps what it was asked for."""

        @contextlib.asynccontextmanager
        async def ready(self, spec: LaneSpec, concurrency: int, tell: object) -> AsyncIterator[LaneClient]:
            asked.append(spec)
            raise LaneError("no engine here")
            yield

    job = resume_job(begun(check, tmp_path / "begun"), Refusing(), check.specs())
    async for _ in job.run():
        pass
    assert [spec.drafter for spec in asked] == ["mine"]
    assert not being_written(tmp_path / "begun")
    reasons = [one.reasons for one in conclude(job.result, check).verdicts]
    assert reasons[0][0] == "the engine did not start: no engine here"
