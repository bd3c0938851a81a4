"""The form of a benchmark: what is typed becomes an order, or a message that says what to do."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dflash_viz.bench.datasets import NAMES
from dflash_viz.bench.order import Order
from dflash_viz.lanes import LaneError, load_preset
from dflash_viz.ui.measure_form import DATASETS, OWN_FILE, Form, FormError, numbers, outlook

PRESET = "embedded-cpu"
SPECS = {lane.name: lane for lane in load_preset(PRESET).lanes}
FORM = Form("builtin", "", 20, "first", list(SPECS), "", "0", [1], 256, 0, 0, "stop")


def test_the_page_offers_every_data_set_of_the_benchmark() -> None:
    assert [name for name in DATASETS if name != OWN_FILE] == list(NAMES)


def test_the_form_as_it_stands_is_the_plain_order() -> None:
    assert FORM.order(PRESET) == Order(PRESET, limit=20, lanes=tuple(SPECS))


def test_every_field_reaches_the_order() -> None:
    form = Form("mt-bench", " /a ", None, "both", ["none"], "5; 3,4 5", "0.7 1", [8, 1], 64, 7, 5, "skip")
    order = Order(
        preset="p", dataset="mt-bench", path=Path("/a"), limit=None, turns="both", lanes=("none",),
        ks=(5, 3, 4), temperatures=(0.7, 1.0), concurrencies=(1, 8), max_tokens=64, seed=7,
        top_k=5, on_bad_line="skip",
    )  # fmt: skip
    assert form.order("p") == order


def test_turns_and_paths_belong_to_the_data_sets_that_have_them() -> None:
    assert replace(FORM, turns="both", path="/left/over").order(PRESET) == FORM.order(PRESET)
    own = replace(FORM, dataset=OWN_FILE, path="~/mine.jsonl").order(PRESET)
    assert (own.dataset, own.path) == (str(Path.home() / "mine.jsonl"), None)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"lanes": []}, "Choose at least one lane"),
        ({"concurrencies": []}, "at once"),
        ({"ks": "3, x"}, "K: “x”"),
        ({"ks": "3.5"}, "whole numbers"),
        ({"ks": "65"}, "64 is the largest"),
        ({"ks": "0"}, "K must be at least 1"),
        ({"temperatures": "warm"}, "Temperatures: “warm”"),
        ({"temperatures": "nan"}, "Temperatures"),
        ({"temperatures": "3"}, "from 0 to 2"),
        ({"limit": 0}, "Questions: a whole number from 1"),
        ({"limit": 2.5}, "Questions"),
        ({"max_tokens": None}, "Max tokens"),
        ({"seed": -1}, "Seed: a whole number from 0"),
        ({"dataset": OWN_FILE}, "Type the path"),
        ({"dataset": "unknown"}, "Choose a data set"),
    ],
)
def test_what_cannot_be_is_explained(changes: dict[str, object], words: str) -> None:
    with pytest.raises((FormError, LaneError), match=words):
        outlook(replace(FORM, **changes), PRESET, SPECS)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"concurrencies": [1, 8]}, " Few questions (20) for 8 at once: the beginning and the end, "),
        ({"concurrencies": [1, 128], "limit": None}, " Few questions (60) for 128 at once: no more than 60 "),
        ({"concurrencies": [1, 128], "limit": 900}, " Few questions (60) for 128 at once: no more than 60 "),
        ({"concurrencies": [16], "limit": 63, "dataset": "gsm8k"}, " Few questions (63) for 16 at once: "),
        ({"concurrencies": [128], "limit": None, "dataset": "gsm8k"}, ""),
        ({"concurrencies": [1, 4]}, ""),
    ],
)
def test_few_questions_are_told_before(changes: dict[str, object], words: str) -> None:
    said = outlook(replace(FORM, **changes), PRESET, SPECS)  # type: ignore[arg-type]
    assert words in said
    assert ("Few" in said) == bool(words)


@given(st.text())
def test_any_text_is_numbers_or_a_message(text: str) -> None:
    with contextlib.suppress(FormError):
        found = numbers("K", text, int)
        assert len(set(found)) == len(found)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, "80 answers at most: 20 questions × 4 settings. No engine starts"),
        ({"limit": 1, "lanes": ["none"]}, "1 answer at most: 1 question × 1 setting."),
        ({"limit": None}, "Every question of the data set on 4 settings."),
        ({"ks": "3,5"}, "140 answers at most: 20 questions × 7 settings. 3 engine starts (dflash at K = 3, "),
        ({"temperatures": "0 1", "concurrencies": [1, 16]}, "20 questions × 16 settings. No engine starts"),
        ({"concurrencies": [1, 32]}, "4 engine starts (dflash at K = 5, eagle3 at K = 5, "),
        ({"dataset": "mt-bench", "turns": "both"}, "160 answers at most: 20 questions × 4 settings × up"),
        ({"ks": "1 2 3"}, "9 engine starts (dflash at K = 1, dflash at K = 2, dflash at K = 3, eagle3 at"),
    ],
)  # fmt: skip
def test_what_it_comes_to_is_said_before(changes: dict[str, object], words: str) -> None:
    assert words in outlook(replace(FORM, **changes), PRESET, SPECS)  # type: ignore[arg-type]
