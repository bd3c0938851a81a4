"""What a benchmark is asked to do, and the plan that follows from it."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

import msgspec

import dflash_viz
from dflash_viz.bench.datasets import Loaded, load_dataset
from dflash_viz.lanes import LaneError, LaneSpec, load_preset
from dflash_viz.results import SCHEMA_VERSION, DatasetPrint, Head, Plan, Question, Setting, Turns
from dflash_viz.results.files import MAX_SETTINGS
from dflash_viz.trace import PLAIN

MAX_CONCURRENCY = 128
MAX_TOP_K = 20
"""More the hooks do not record."""


@dataclass(frozen=True)
class Order:
    """What is asked for: which questions, which lanes, and every value of what is varied.

    No lanes: all of the preset; no ``ks``: the preset's own. Every combination of lane, K, temperature
    and concurrency is measured; lanes without speculation, and lookups too, take part in each.
    """

    preset: str = "embedded-cpu"
    dataset: str = "builtin"
    path: Path | None = None
    limit: int | None = None
    turns: Turns = "first"
    lanes: tuple[str, ...] = ()
    ks: tuple[int, ...] = ()
    temperatures: tuple[float, ...] = (0.0,)
    concurrencies: tuple[int, ...] = (1,)
    max_tokens: int = 256
    seed: int = 0
    top_k: int = 0
    on_bad_line: Literal["stop", "skip"] = "stop"

    def settings(self) -> list[Setting]:
        """What is measured, in order: an engine's settings stand together.

        Raises ``LaneError`` for a preset or lane that does not exist and for values that cannot be.
        """
        self._check()
        asked = [
            Setting(spec.name, spec.method, k, temperature, concurrency)
            for spec in self._chosen()
            for k in (self.ks if self.ks and spec.method != PLAIN else (spec.num_speculative_tokens,))
            for temperature in self.temperatures
            for concurrency in self.concurrencies
        ]
        settings = list(dict.fromkeys(asked))  # a value may have been given twice
        if len(settings) > MAX_SETTINGS:
            raise LaneError(
                f"These are {len(settings)} settings; one benchmark measures {MAX_SETTINGS} at most."
            )
        return settings

    def _chosen(self) -> list[LaneSpec]:
        lanes = load_preset(self.preset).lanes
        names = [lane.name for lane in lanes]
        if unknown := [name for name in self.lanes if name not in names]:
            raise LaneError(f"There is no lane {unknown[0]!r}. Lanes: {', '.join(names)}.")
        return [lane for lane in lanes if not self.lanes or lane.name in self.lanes]

    def _check(self) -> None:
        wrong = {
            f"K must be at least 1, not {min(self.ks, default=1)}.": min(self.ks, default=1) < 1,
            "The temperature must be from 0 to 2.": any(not 0 <= t <= 2 for t in self.temperatures),
            f"The concurrency must be from 1 to {MAX_CONCURRENCY}.": any(
                not 1 <= c <= MAX_CONCURRENCY for c in self.concurrencies
            ),
            f"The recorded probabilities must be from 0 to {MAX_TOP_K}.": not 0 <= self.top_k <= MAX_TOP_K,
            "An answer must have at least 1 token.": self.max_tokens < 1,
            "Ask at least 1 question.": self.limit is not None and self.limit < 1,
            "Choose at least one temperature and one concurrency.": not (
                self.temperatures and self.concurrencies
            ),
        }
        for message, is_wrong in wrong.items():
            if is_wrong:
                raise LaneError(message)

    def load(self) -> tuple[Head, list[Question]]:
        """The plan with its questions. Raises ``DatasetError`` and ``LaneError``."""
        settings = self.settings()
        loaded = load_dataset(self.dataset, self.path, self.limit, self.turns, self.on_bad_line)
        created = datetime.now(UTC)
        plan = Plan(
            pair=self.preset,
            dataset=_print_of(loaded, self.turns),
            settings=settings,
            max_tokens=self.max_tokens,
            seed=self.seed,
            top_k=self.top_k,
        )
        head = Head(
            SCHEMA_VERSION,
            f"{created:%Y%m%d-%H%M%S}-{loaded.name}",
            created.isoformat(timespec="seconds"),
            f"dflash_viz {dflash_viz.__version__}",
            plan,
        )
        return head, loaded.questions


def _print_of(loaded: Loaded, turns: Turns) -> DatasetPrint:
    return DatasetPrint(
        loaded.name,
        loaded.source,
        len(loaded.questions),
        loaded.num_available,
        turns,
        content_hash(loaded.questions),
        loaded.skipped,
    )


def content_hash(questions: Sequence[Question]) -> str:
    """SHA-256 over the prompts in their order."""
    return hashlib.sha256(msgspec.json.encode([question.turns for question in questions])).hexdigest()
