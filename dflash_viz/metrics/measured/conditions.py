"""Under which conditions an expectation holds, and what keeps a measured setting from meeting them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from dflash_viz.metrics.measured.sums import cells
from dflash_viz.results import Engine, Result, Setting, Turns

NO_THINKING = re.compile(r"<think>\s*</think>")
"""A block that holds no thought: what some models write when they are told not to think."""
THOUGHT = re.compile(r"<think>\s*\S|</think>")


class Expectation(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """An acceptance length that a pair should reach, and the conditions under which it was measured.

    ``pair`` is the rows' own name for target and drafters. ``target`` and ``drafter`` are names as in a
    fingerprint, ``target_hash`` and ``drafter_hash`` the content hashes where known: a target of this hash
    is the row's whatever its name. ``dataset`` is a data set's name, ``dataset_hash`` its content hash.
    ``al`` is pooled or the mean of requests (``definition``); a measured value passes from ``tolerance`` ×
    ``al`` on. ``speedup`` over no speculation is shown, never judged. ``None`` in ``thinking``,
    ``concurrency`` and ``num_questions`` (the least that must be answered) means any. ``top_p`` is 1.
    """

    pair: str
    target: str
    drafter: str
    method: str
    dataset: str
    num_speculative_tokens: Annotated[int, Meta(ge=1)]
    temperature: Annotated[float, Meta(ge=0)]
    max_tokens: Annotated[int, Meta(ge=1)]
    turns: Turns
    definition: Literal["al", "al_mean"]
    al: Annotated[float, Meta(ge=1)]
    tolerance: Annotated[float, Meta(gt=0, le=1)]
    source: Annotated[str, Meta(min_length=1)]
    thinking: bool | None = None
    concurrency: Annotated[int, Meta(ge=1)] | None = None
    num_questions: Annotated[int, Meta(ge=1)] | None = None
    speedup: Annotated[float, Meta(gt=0)] | None = None
    note: str = ""
    drafter_hash: str | None = None
    target_hash: str | None = None
    dataset_hash: str | None = None

    @property
    def needed(self) -> float:
        """The least AL that passes."""
        return self.tolerance * self.al


def same_target(row: Expectation, engine: Engine) -> bool:
    """Whether an engine runs the row's target: by content where both are known, else by name."""
    target = engine.fingerprint.target
    if row.target_hash and target.content_hash:
        return row.target_hash == target.content_hash
    return same_name(row.target, target.name)


def same_name(known: str, name: str) -> bool:
    """Whether a model's name is the known one; a folder's has no owner: ``Qwen3-8B`` is ``Qwen/Qwen3-8B``."""
    return name in (known, known.rpartition("/")[2])


def obstacles(row: Expectation, result: Result, setting: int) -> list[str]:
    """Why a setting cannot be compared with a row, in plain words; empty when it can."""
    asked, engine = result.plan.settings[setting], result.engines.get(setting)
    began = [*_of_engine(row, engine)] if engine else [*_of_start(result, setting)]
    found = [*began, *_of_setting(row, asked), *question_obstacles(row, result)]
    if engine is None:  # what it would have answered, and how far it came, goes without saying
        return found
    return [*found, *_of_thinking(row, thinking(result, setting)), *_of_course(result, setting)]


def foreseen(row: Expectation, target: str, thinks: bool | None) -> list[str]:
    """The obstacles that are known of a lane before its engine starts: ``target`` is the target's name,
    ``thinks`` what the chat template is told."""
    # A target of another name may have the content that is known of the row's.
    other = row.target_hash is None and not same_name(row.target, target)
    return [*([_other_target(row, target)] if other else []), *_of_thinking(row, thinks)]


def question_obstacles(row: Expectation, result: Result) -> list[str]:
    """Why a row's questions are not the result's, or were asked otherwise; known before it is measured."""
    return list(_of_questions(row, result))


def remarks(row: Expectation, result: Result, setting: int) -> list[str]:
    """What should be known beside a verdict: another drafter (which is what a check is to find), and how
    few questions were asked."""
    said = []
    drafter = engine.fingerprint.drafter if (engine := result.engines.get(setting)) else None
    if drafter is not None and row.drafter_hash and drafter.content_hash not in (None, row.drafter_hash):
        said.append(
            f"the drafter is not the one of the expectation: its content is {drafter.content_hash[:12]}, "
            f"expected was {row.drafter_hash[:12]}"
        )
    elif drafter is not None and not row.drafter_hash and not same_name(row.drafter, drafter.name):
        said.append(f"the drafter is {drafter.name}, the expectation's is {row.drafter}")
    dataset = result.plan.dataset
    if row.num_questions is None and dataset.num_questions < dataset.num_available:
        said.append(
            f"{dataset.num_questions} of {dataset.num_available} questions were asked; the interval says how "
            "much that leaves open"
        )
    return said


def turns_asked(result: Result) -> Turns:
    """Which turns were asked; of questions that have but one, the first, whatever the plan says."""
    several = any(len(question.turns) > 1 for question in result.questions.values())
    return result.plan.dataset.turns if several else "first"


def thinking(result: Result, setting: int) -> bool | None:
    """Whether a setting's model thought before it answered; None when that is not known.

    An answer that holds thoughts says so whatever its chat template was told: a template that does not
    know ``enable_thinking`` ignores it.
    """
    if any(THOUGHT.search(NO_THINKING.sub("", one.text)) for one in cells(result, setting).values()):
        return True
    engine = result.engines.get(setting)
    told = engine.template_options.get("enable_thinking") if engine else None
    return told if isinstance(told, bool) else None


def _of_engine(row: Expectation, engine: Engine) -> Iterator[str]:
    if same_target(row, engine):
        return
    name = engine.fingerprint.target.name
    if same_name(row.target, name):
        yield f"the target {row.target} has other weights or settings than the expectation's"
    else:
        yield _other_target(row, name)


def _other_target(row: Expectation, name: str) -> str:
    return f"the target is {name}, not {row.target}"


def _of_start(result: Result, setting: int) -> Iterator[str]:
    """Why a setting has no engine."""
    told = [one.message for one in result.open_failures() if one.setting == setting and not one.question]
    if told:
        yield f"the engine did not start: {told[-1].rstrip('.')}"
    else:
        yield "the engine did not start, or is not recorded"


def _of_setting(row: Expectation, asked: Setting) -> Iterator[str]:
    if asked.method != row.method:
        yield f"the method is {asked.method}, not {row.method}"
    if asked.num_speculative_tokens != row.num_speculative_tokens:
        yield f"K is {asked.num_speculative_tokens}, not {row.num_speculative_tokens}"
    if asked.temperature != row.temperature:
        yield f"the temperature is {asked.temperature:g}, not {row.temperature:g}"
    if row.concurrency not in (None, asked.concurrency):
        yield f"requests at once: {asked.concurrency}, not {row.concurrency}"


def _of_questions(row: Expectation, result: Result) -> Iterator[str]:
    plan, dataset = result.plan, result.plan.dataset
    if dataset.name != row.dataset:
        yield f"the questions are {dataset.name}, not {row.dataset}"
    if plan.max_tokens != row.max_tokens:
        yield f"answers end after {plan.max_tokens} tokens, not {row.max_tokens}"
    if plan.top_p != 1 and row.temperature > 0:
        yield f"top-p is {plan.top_p:g}, not 1"
    if (turns := turns_asked(result)) != row.turns:
        yield f"turns asked: {turns}, not {row.turns}"
    if row.num_questions is not None and dataset.num_questions < row.num_questions:
        yield f"{dataset.num_questions} questions, not {row.num_questions}"
    elif row.dataset_hash is not None and dataset.content_hash != row.dataset_hash:
        yield f"the questions are not the ones of the expectation, though both are called {row.dataset}"


def _of_thinking(row: Expectation, known: bool | None) -> Iterator[str]:
    if row.thinking is None or known is row.thinking:
        return
    if known is None:
        yield (
            "whether the model was thinking is not known: set enable_thinking in the preset's options for "
            "the chat template"
        )
    else:
        yield "the model was thinking" if known else "the model was not thinking"


def _of_course(result: Result, setting: int) -> Iterator[str]:
    failures = [one for one in result.open_failures() if one.setting == setting]
    yield from (f"the engine ended: {one.message.rstrip('.')}" for one in failures if not one.question)
    failed = sum(bool(one.question) for one in failures)
    if failed:
        yield f"{failed} questions got no answer" if failed > 1 else "a question got no answer"
    if not result.finished(setting):
        yield "the measurement is not finished"
