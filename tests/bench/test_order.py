"""What a benchmark is asked to do: every combination once, in an order that spares engines."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import dflash_viz
from dflash_viz.bench.datasets import DatasetError
from dflash_viz.bench.order import MAX_CONCURRENCY, Order, content_hash
from dflash_viz.lanes import LaneError
from dflash_viz.results import SCHEMA_VERSION, Question, Setting
from dflash_viz.results.files import MAX_SETTINGS
from tests.bench.made import written


def test_the_presets_lanes_once_each() -> None:
    assert Order().settings() == [
        Setting("dflash", "dflash", 5, 0.0, 1),
        Setting("eagle3", "eagle3", 5, 0.0, 1),
        Setting("ngram", "ngram", 5, 0.0, 1),
        Setting("none", "none", 0, 0.0, 1),
    ]


def test_every_combination_with_an_engines_settings_together() -> None:
    order = Order(lanes=("none", "dflash"), ks=(3, 7), temperatures=(0.0, 1.0), concurrencies=(1, 8))
    found = [
        (one.lane, one.num_speculative_tokens, one.temperature, one.concurrency) for one in order.settings()
    ]
    assert found == [
        ("dflash", 3, 0.0, 1), ("dflash", 3, 0.0, 8), ("dflash", 3, 1.0, 1), ("dflash", 3, 1.0, 8),
        ("dflash", 7, 0.0, 1), ("dflash", 7, 0.0, 8), ("dflash", 7, 1.0, 1), ("dflash", 7, 1.0, 8),
        # Without speculation there is no K: once a temperature and concurrency.
        ("none", 0, 0.0, 1), ("none", 0, 0.0, 8), ("none", 0, 1.0, 1), ("none", 0, 1.0, 8),
    ]  # fmt: skip


def test_values_are_taken_in_the_order_given() -> None:
    order = Order(lanes=("ngram",), ks=(7, 3), concurrencies=(16, 1))
    assert [(s.num_speculative_tokens, s.concurrency) for s in order.settings()] == [
        (7, 16), (7, 1), (3, 16), (3, 1),
    ]  # fmt: skip


def test_a_preset_of_ones_own(tmp_path: Path) -> None:
    preset = tmp_path / "mine.yaml"
    preset.write_text(
        "title: Mine\nlanes:\n"
        "  - {name: wide, method: dflash, drafter: somewhere, num_speculative_tokens: 15}\n"
        "  - {name: quick, method: suffix, num_speculative_tokens: 2}\n"
        "  - {name: alone, method: none}\n"
    )
    assert Order(str(preset)).settings() == [
        Setting("wide", "dflash", 15, 0.0, 1),
        Setting("quick", "suffix", 2, 0.0, 1),
        Setting("alone", "none", 0, 0.0, 1),
    ]


def refusal(**wrong: Any) -> str:
    """What is said of an order that cannot be."""
    with pytest.raises(LaneError) as caught:
        Order(**wrong).settings()
    return str(caught.value)


def test_an_unknown_lane_is_named_with_those_there_are() -> None:
    told = "There is no lane 'dflsh'. Lanes: dflash, eagle3, ngram, none."
    assert refusal(lanes=("dflash", "dflsh")) == told


def test_an_unknown_preset_is_named_with_those_there_are() -> None:
    told = refusal(preset="embeded")
    assert told.startswith("There is no preset 'embeded'. Known presets: embedded-cpu")


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"ks": (5, 0)}, "K must be at least 1, not 0."),
        ({"ks": (-3,)}, "K must be at least 1, not -3."),
        ({"temperatures": (0.0, -0.1)}, "The temperature must be from 0 to 2."),
        ({"temperatures": (2.1,)}, "The temperature must be from 0 to 2."),
        ({"temperatures": (float("nan"),)}, "The temperature must be from 0 to 2."),
        ({"concurrencies": (0,)}, "The concurrency must be from 1 to 128."),
        ({"concurrencies": (1, 129)}, "The concurrency must be from 1 to 128."),
        ({"max_tokens": 0}, "An answer must have at least 1 token."),
        ({"limit": 0}, "Ask at least 1 question."),
        ({"temperatures": ()}, "Choose at least one temperature and one concurrency."),
        ({"concurrencies": ()}, "Choose at least one temperature and one concurrency."),
    ],
)
def test_values_that_cannot_be_are_refused(wrong: dict[str, Any], told: str) -> None:
    assert refusal(**wrong) == told


def test_the_ends_of_the_ranges_are_allowed() -> None:
    order = Order(
        lanes=("ngram",), ks=(1,), temperatures=(0.0, 2.0), concurrencies=(1, MAX_CONCURRENCY),
        max_tokens=1, limit=1,
    )  # fmt: skip
    assert len(order.settings()) == 4


def test_no_more_settings_than_a_result_may_hold() -> None:
    order = Order(lanes=("dflash",), ks=tuple(range(1, MAX_SETTINGS + 1)))
    assert len(order.settings()) == MAX_SETTINGS
    with pytest.raises(LaneError, match="These are 301 settings; one benchmark measures 300 at most"):
        replace(order, ks=(*order.ks, MAX_SETTINGS + 1)).settings()


def test_the_hash_is_of_the_prompts_and_their_order() -> None:
    one, two = Question("a", "maths", ["One?", "More?"]), Question("b", "chat", ["Two?"])
    whole = content_hash([one, two])
    assert len(whole) == 64
    assert int(whole, 16)
    assert content_hash([Question("x", "code", ["One?", "More?"], "number", "1"), two]) == whole
    assert content_hash([two, one]) != whole
    assert content_hash([one]) != whole
    assert content_hash([Question("a", "maths", ["One?"]), two]) != whole
    # Where a turn ends is part of what is asked.
    assert content_hash([Question("a", "", ["One?"]), Question("b", "", ["More?", "Two?"])]) != whole


def test_the_built_in_questions_are_loaded_with_their_plan() -> None:
    order = Order(limit=7, lanes=("ngram", "none"), max_tokens=32, seed=3, top_k=2)
    head, questions = order.load()
    plan, dataset = head.plan, head.plan.dataset
    assert [one.id for one in questions[:3]] == ["maths-1", "code-1", "chat-1"]
    assert len(questions) == 7
    assert (dataset.name, dataset.num_questions, dataset.num_available) == ("builtin", 7, 60)
    assert dataset.content_hash == content_hash(questions)
    assert (dataset.turns, dataset.skipped) == ("first", [])
    assert plan.settings == order.settings()
    assert (plan.pair, plan.max_tokens, plan.seed, plan.top_k) == ("embedded-cpu", 32, 3, 2)
    assert plan.top_p == 1
    assert head.schema == SCHEMA_VERSION
    assert head.program == f"dflash_viz {dflash_viz.__version__}"
    assert head.result_id.endswith("-builtin")
    assert head.created_at.endswith("+00:00")


def test_the_same_questions_have_the_same_hash() -> None:
    hashes = [Order(limit=limit).load()[0].plan.dataset.content_hash for limit in (5, 5, 6)]
    assert hashes[0] == hashes[1] != hashes[2]


def test_a_files_lines_that_are_left_out_are_in_the_plan(tmp_path: Path) -> None:
    file = written(tmp_path / "mine.jsonl", {"turns": ["One?", "More?"]}, "no JSON", {"turns": ["Two?"]})
    order = Order(dataset=str(file), turns="both", on_bad_line="skip")
    head, questions = order.load()
    assert [one.turns for one in questions] == [["One?", "More?"], ["Two?"]]
    assert (head.plan.dataset.name, head.plan.dataset.turns) == ("mine", "both")
    (skipped,) = head.plan.dataset.skipped
    assert skipped.startswith("mine.jsonl, line 2: ")
    with pytest.raises(DatasetError, match=r"mine\.jsonl, line 2: "):
        replace(order, on_bad_line="stop").load()


def test_a_data_set_by_name_is_read_from_ones_own_file(tmp_path: Path) -> None:
    rows = [{"question": f"What is {n} + 1?", "answer": f"#### {n + 1}"} for n in range(4)]
    written(tmp_path / "gsm8k_test.jsonl", *rows)
    head, questions = Order(dataset="gsm8k", path=tmp_path, limit=2).load()
    assert (head.plan.dataset.name, head.plan.dataset.num_available) == ("gsm8k", 4)
    assert len(questions) == head.plan.dataset.num_questions == 2


def test_what_cannot_be_is_said_before_questions_are_loaded() -> None:
    with pytest.raises(LaneError, match="K must be at least 1"):
        Order(dataset="nothing", ks=(0,)).load()
