"""What the form of the tab "Measure" asks for, and what it comes to, in words."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

import msgspec

from dflash_viz.bench.datasets import load_dataset
from dflash_viz.bench.engines import roomy
from dflash_viz.bench.order import Order
from dflash_viz.lanes import LaneError, LaneSpec
from dflash_viz.metrics.measured import few_questions
from dflash_viz.results import Turns

OWN_FILE = "file"
DATASETS: dict[str, str] = {
    "builtin": "Built-in, 60 prompts",
    "gsm8k": "GSM8K",
    "humaneval": "HumanEval",
    "mt-bench": "MT-Bench",
    "math500": "MATH500",
    "mbpp": "MBPP",
    "spec-bench": "Spec-Bench",
    OWN_FILE: "A file of your own (JSONL)",
}
"""The data sets in the order of the page, by the names that the benchmark knows."""
WITH_TURNS = ("mt-bench", "spec-bench", OWN_FILE)
CONCURRENCIES = (1, 2, 4, 8, 16, 32, 64, 128)
MAX_K = 64
MAX_NAMED = 4

Number = TypeVar("Number", int, float)


class FormError(ValueError):
    """A field holds what cannot be; the message says which and what to do."""


@dataclass(frozen=True)
class Form:
    """The fields as the page holds them; an empty ``limit`` is every question."""

    dataset: str
    path: str
    limit: float | None
    turns: Turns
    lanes: list[str]
    ks: str
    temperatures: str
    concurrencies: list[int]
    max_tokens: float | None
    seed: float | None
    top_k: float
    bad_lines: Literal["stop", "skip"]

    def order(self, preset: str) -> Order:
        """The order that they make. Raises ``FormError``."""
        name, path = self._data()
        if not self.lanes:
            raise FormError("Choose at least one lane.")
        if not self.concurrencies:
            raise FormError("Choose how many are answered at once: 1 is the plain case.")
        temperatures = numbers("Temperatures", self.temperatures, float)
        order = Order(
            preset=preset,
            dataset=name,
            path=path,
            limit=None if self.limit is None else whole("Questions", self.limit),
            turns=self.turns if self.dataset in WITH_TURNS else "first",
            lanes=tuple(self.lanes),
            ks=numbers("K", self.ks, int),
            temperatures=temperatures or (0.0,),
            concurrencies=tuple(sorted(self.concurrencies)),
            max_tokens=whole("Max tokens", self.max_tokens),
            seed=whole("Seed", self.seed, 0),
            top_k=int(self.top_k),
            on_bad_line=self.bad_lines,
        )
        if (largest := max(order.ks, default=0)) > MAX_K:
            raise FormError(f"K: {largest} is too large; {MAX_K} is the largest.")
        return order

    def _data(self) -> tuple[str, Path | None]:
        if self.dataset not in DATASETS:
            raise FormError("Choose a data set.")
        path = Path(os.path.expanduser(self.path.strip())) if self.path.strip() else None
        if self.dataset == OWN_FILE:
            if path is None:
                raise FormError("Type the path of your JSON Lines file.")
            return str(path), None
        return self.dataset, None if self.dataset == "builtin" else path


def whole(label: str, value: float | None, least: int = 1) -> int:
    """A whole number from a field. Raises ``FormError``."""
    if value is None or not float(value).is_integer() or value < least:
        raise FormError(f"{label}: a whole number from {least} on is needed here.")
    return int(value)


def numbers(label: str, text: str, kind: Callable[[str], Number]) -> tuple[Number, ...]:
    """The numbers of a list such as "3, 4, 5", each once. Raises ``FormError``."""
    found: dict[Number, None] = {}
    for part in text.replace(";", ",").replace(",", " ").split():
        number: Number | None
        try:
            number = kind(part)
        except ValueError:
            number = None
        if number is None or not math.isfinite(number):
            wanted = "whole numbers, such as 3, 4, 5" if kind is int else "numbers, such as 0, 0.7, 1"
            raise FormError(f"{label}: “{part[:20]}” cannot be used. Type {wanted}.")
        found[number] = None
    return tuple(found)


def outlook(form: Form, preset: str, specs: Mapping[str, LaneSpec]) -> str:
    """What a benchmark comes to: answers and engine starts, and whether the questions are few for what
    runs at once, in a sentence or two.

    ``specs`` are the lanes whose engines run already. Raises ``FormError`` and ``LaneError``.
    """
    order = form.order(preset)
    settings = order.settings()
    starts = _starts(order, specs)
    each = f"{len(settings)} setting{_s(len(settings))}"
    if order.turns == "both":
        each += " × up to 2 turns"
    if order.limit is None:
        answers = f"Every question of the data set on {each}"
    else:
        most = order.limit * len(settings) * (2 if order.turns == "both" else 1)
        answers = f"{most:,} answer{_s(most)} at most: {order.limit} question{_s(order.limit)} × {each}"
    named = ", ".join(starts[:MAX_NAMED]) + ("" if len(starts) <= MAX_NAMED else ", …")
    engines = f"{len(starts)} engine start{_s(len(starts))} ({named})" if starts else "No engine starts"
    few = few_questions(_num_questions(order), order.concurrencies)
    return f"{answers}. {engines}; what runs already is used as it is. {few}".rstrip()


def _num_questions(order: Order) -> float:
    """How many questions there will be, as far as it is known before a data set is fetched."""
    known = len(load_dataset(order.dataset).questions) if order.dataset == "builtin" else math.inf
    return min(known, math.inf if order.limit is None else order.limit)


def _starts(order: Order, specs: Mapping[str, LaneSpec]) -> list[str]:
    """The engines that do not run yet: another K, or more requests at once than the preset has room for."""
    found: dict[str, Any] = {}
    most = max(order.concurrencies)
    for setting in order.settings():
        k = setting.num_speculative_tokens
        if (spec := specs.get(setting.lane)) is None:
            raise LaneError(f"The lane {setting.lane!r} is not one of this app's.")
        wanted = roomy(msgspec.structs.replace(spec, num_speculative_tokens=k), most)
        if wanted != spec:
            found[setting.lane if setting.plain else f"{setting.lane} at K = {k}"] = wanted
    return list(found)


def _s(count: int) -> str:
    return "" if count == 1 else "s"
