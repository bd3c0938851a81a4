"""The data sets' formats: what a line holds, how it is asked, what can be checked of its answer.

The prompts are worded as in the DFlash benchmark, so that acceptance lengths can be compared with its.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from dflash_viz.metrics.measured.answers import one_spelling
from dflash_viz.results import Grader, Question, Turns

MAX_NAME = 100
_IDS = ("task_id", "question_id", "prompt_id")
_STEP_BY_STEP = "Please reason step by step, and put your final answer within \\boxed{}."
_MAKE_IT_PASS = "Write a solution to the following problem and make sure that it passes the tests:"
_NUMBER = re.compile(r"-?([0-9]+|[0-9]{1,3}(,[0-9]{3})+)(\.[0-9]+)?")

Row = Mapping[str, Any]
Asked = tuple[list[str], Grader, str]
"""The turns to ask, what can be checked of the last one's answer, and against which reference."""


class RowError(ValueError):
    """A line is no question; the message, the end of a sentence, says why."""


@dataclass(frozen=True)
class HubPlace:
    """Where a data set lies on the Hugging Face hub."""

    repository: str
    configuration: str | None
    split: str

    def __str__(self) -> str:
        """As a result names its source."""
        parts = [self.repository, self.configuration, self.split]
        return ", ".join(part for part in parts if part)


@dataclass(frozen=True)
class Format:
    """A known data set. ``files`` are the names it is looked for under in a folder; a line that has all
    fields of one of the ``marks`` is of this format; ``read`` says what a line asks, or raises
    ``RowError``."""

    name: str
    files: tuple[str, ...]
    marks: tuple[frozenset[str], ...]
    hub: HubPlace | None
    read: Callable[[Row], Asked]

    def question(self, row: Row, number: int, turns: Turns, name: str) -> Question:
        """The question of line ``number`` (from 1) of the data set ``name``.

        Raises ``RowError``.
        """
        asked, grader, reference = self.read(row)
        named = (_label(row, field) for field in _IDS)
        return Question(
            id=next((one for one in named if one), f"{name}-{number}"),
            kind=_label(row, "category") or name,
            turns=asked[:1] if turns == "first" else asked,
            grader=grader,
            reference=reference,
        )


def plain_number(text: str) -> str:
    """A number without its dollar sign, thousands' commas and trailing zeros; empty for anything else."""
    bare = text.strip().removeprefix("$")
    return (one_spelling(bare) if _NUMBER.fullmatch(bare) else None) or ""


def format_of(row: Row) -> Format | None:
    """The format that a line's fields are those of."""
    return next((one for one in FORMATS for mark in one.marks if mark <= row.keys()), None)


def _gsm8k(row: Row) -> Asked:
    question, (_, mark, number) = _text(row, "question"), _text(row, "answer").rpartition("####")
    reference = plain_number(number)
    if not mark or not reference:
        raise RowError('its field "answer" does not end with "####" and a number')
    return [f"{question}\n{_STEP_BY_STEP}"], "number", reference


def _math500(row: Row) -> Asked:
    problem, reference = _text(row, "problem"), plain_number(_text(row, "answer"))
    grader: Grader = "number" if reference else ""
    return [f"{problem}\n{_STEP_BY_STEP}"], grader, reference


def _humaneval(row: Row) -> Asked:
    prompt = f"{_MAKE_IT_PASS}\n```python\n{_text(row, 'prompt')}\n```"
    return [prompt], "python", ""


def _mbpp(row: Row) -> Asked:
    # The sanitized configuration calls it "prompt", the full one "text".
    field = "text" if "prompt" not in row and "text" in row else "prompt"
    return [_text(row, field)], "python", ""


def _conversation(row: Row) -> Asked:
    field = "prompt" if "turns" not in row and "prompt" in row else "turns"
    turns = _field(row, field)
    if not isinstance(turns, list) or not turns or not all(_is_text(turn) for turn in turns):
        raise RowError(f'its field "{field}" is not a list of texts')
    return list(turns), "", ""


def _field(row: Row, name: str) -> Any:
    if name not in row:
        raise RowError(f'its field "{name}" is missing')
    return row[name]


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _text(row: Row, name: str) -> str:
    value = _field(row, name)
    if not _is_text(value):
        raise RowError(f'its field "{name}" is {"empty" if isinstance(value, str) else "not a text"}')
    return str(value)


def _label(row: Row, name: str) -> str:
    """A short name in a line; empty when the line has none. Raises ``RowError``."""
    value = row.get(name)
    if value is None:
        return ""
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise RowError(f'its field "{name}" is neither a text nor a whole number')
    label = str(value).strip()
    if not 1 <= len(label) <= MAX_NAME:
        raise RowError(f'its field "{name}" does not have 1 to {MAX_NAME} characters')
    return label


_CONVERSATION_MARKS = (frozenset({"turns"}), frozenset({"prompt", "prompt_id", "category"}))

# In the order in which a line's fields are compared with them: what is told apart by more comes first.
FORMATS = (
    Format(
        "humaneval",
        ("humaneval.jsonl", "HumanEval.jsonl", "humaneval_test.jsonl"),
        (frozenset({"task_id", "prompt", "entry_point"}),),
        HubPlace("openai/openai_humaneval", None, "test"),
        _humaneval,
    ),
    Format(
        "mbpp",
        ("mbpp.jsonl", "mbpp_test.jsonl", "sanitized-mbpp.jsonl"),
        (frozenset({"task_id", "test_list"}),),
        HubPlace("google-research-datasets/mbpp", "sanitized", "test"),
        _mbpp,
    ),
    Format(
        "math500",
        ("math500.jsonl", "math500_test.jsonl", "MATH-500.jsonl"),
        (frozenset({"problem", "answer"}),),
        HubPlace("HuggingFaceH4/MATH-500", None, "test"),
        _math500,
    ),
    Format(
        "gsm8k",
        ("gsm8k_test.jsonl", "gsm8k.jsonl"),
        (frozenset({"question", "answer"}),),
        HubPlace("openai/gsm8k", "main", "test"),
        _gsm8k,
    ),
    Format(
        "mt-bench",
        ("mt_bench.jsonl", "mt-bench.jsonl", "mt_bench/question.jsonl"),
        _CONVERSATION_MARKS,
        HubPlace("HuggingFaceH4/mt_bench_prompts", None, "train"),
        _conversation,
    ),
    Format(
        "spec-bench",
        ("spec_bench.jsonl", "spec-bench.jsonl", "spec_bench/question.jsonl"),
        _CONVERSATION_MARKS,
        None,
        _conversation,
    ),
)
