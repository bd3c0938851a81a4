"""Results made by hand for tests: several lanes, K values and concurrencies, the same at every run.

Everything in a made result agrees with itself: counts per position with their sums, samples and
stretches with the answers.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from itertools import product
from typing import Any

import msgspec

from dflash_viz.results import (
    SCHEMA_VERSION,
    Answer,
    DatasetPrint,
    Engine,
    Head,
    Plan,
    Question,
    Result,
    Sample,
    Setting,
    Stretch,
    Turns,
)
from dflash_viz.trace import PLAIN, Check, Fingerprint, ModelPrint

LANES = ("dflash", "eagle3", "ngram", "none")
SKILL = {"dflash": 0.7, "eagle3": 0.72, "ngram": 0.5}
"""How often the next drafted token is accepted; chat lies 0.2 below it."""
DRAFT_S = {"dflash": 0.004, "eagle3": 0.010, "ngram": 0.0005, "none": 0.0}
VERIFY_S, PLAIN_S, OVERHEAD_S = 0.030, 0.022, 0.002
KINDS = ("maths", "code", "chat")
NUM_SAMPLES = 4


def made_question(number: int, num_turns: int = 1) -> Question:
    """The questions take their kinds in turn: maths (a number is right), code (Python), chat."""
    kind = KINDS[number % len(KINDS)]
    grader, reference = {"maths": ("number", str(number + 7)), "code": ("python", ""), "chat": ("", "")}[kind]
    turns = [f"Question {number} about {kind}, turn {turn}?" for turn in range(num_turns)]
    return Question(f"q{number}", kind, turns, grader, reference)  # type: ignore[arg-type]


def made_engine(setting: int, asked: Setting, **changes: Any) -> Engine:
    """The engine of a setting: float32 on a CPU; ``changes`` are of its fingerprint."""
    drafts = asked.method not in (PLAIN, "ngram")
    fields: dict[str, Any] = {
        "target": ModelPrint("target", content_hash="target-hash", dtype="float32"),
        "drafter": ModelPrint(f"{asked.method}-drafter", content_hash=f"{asked.method}-hash")
        if drafts
        else None,
        "num_speculative_tokens": asked.num_speculative_tokens,
        "device": "CPU",
        "versions": {"vllm": "0.32.0"},
    }
    options = {"max-num-seqs": 128}
    return Engine(setting, Fingerprint(asked.method, **{**fields, **changes}), {}, options)


def good_text(question: Question) -> str:
    """An answer that its grader accepts."""
    if question.grader == "number":
        return f"Adding up gives \\boxed{{{question.reference}}}."
    if question.grader == "python":
        return "Here it is:\n```python\ndef f(x):\n    return x + 1\n```"
    return f"An answer to {question.id}."


def made_answer(setting: int, asked: Setting, question: Question, turn: int = 0, **changes: Any) -> Answer:
    """A consistent answer, drawn from what its setting, question and turn are called."""
    draw = random.Random(f"{asked.lane}-{asked.num_speculative_tokens}-{question.id}-{turn}")
    num_tokens = 24 + random.Random(f"{question.id}-{turn}").randrange(40)
    accepted = _blocks(draw, asked, question.kind, num_tokens - 1)
    k, steps = asked.num_speculative_tokens, len(accepted)
    drafted = [kept for kept in accepted if kept is not None]
    busy = 1 + 0.12 * (asked.concurrency - 1) * (1 if asked.plain else 2.2)
    draft_s = DRAFT_S.get(asked.method, 0.004) * steps * busy
    verify_s = (PLAIN_S if asked.plain else VERIFY_S) * steps * busy
    decode_s = (draft_s + verify_s + OVERHEAD_S * steps) * draw.uniform(0.97, 1.03)
    first = 0.08 * busy
    fields: dict[str, Any] = {
        "setting": setting, "question": question.id, "kind": question.kind, "turn": turn,
        "latency_s": first + decode_s, "first_token_s": first, "decode_s": decode_s,
        "num_prompt_tokens": 20 + 30 * turn, "num_output_tokens": num_tokens,
        "num_decode_tokens": num_tokens - 1, "num_steps": steps,
        "finish_reason": "stop", "text": good_text(question), "check": Check(True, "The counts agree."),
        "num_drafts": len(drafted), "num_draft_tokens": k * len(drafted), "num_accepted": sum(drafted),
        "accepted_per_position": [sum(kept > i for kept in drafted) for i in range(k)],
        "drafted_per_position": [len(drafted)] * k,
        "draft_s": draft_s, "verify_s": verify_s, "batch_size": float(asked.concurrency),
        "trace": f"traces/{setting}-{question.id}-{turn}.jsonl.gz",
    }  # fmt: skip
    return Answer(**{**fields, **changes})


def _blocks(draw: random.Random, asked: Setting, kind: str, num_tokens: int) -> list[int | None]:
    """What each step accepted, None where it drafted nothing, until that many tokens are emitted."""
    skill = SKILL.get(asked.method, 0.6) - (0.2 if kind == "chat" else 0.0) + draw.uniform(-0.08, 0.08)
    accepted: list[int | None] = []
    while num_tokens > 0:
        if asked.plain or (asked.method == "ngram" and draw.random() < 0.6):
            accepted.append(None)
            num_tokens -= 1
            continue
        kept = 0
        while kept < asked.num_speculative_tokens and draw.random() < skill:
            kept += 1
        accepted.append(kept)
        num_tokens -= kept + 1
    return accepted


def made_settings(
    lanes: Iterable[str] = LANES,
    ks: Sequence[int] = (5,),
    temperatures: Sequence[float] = (0.0,),
    concurrencies: Sequence[int] = (1,),
) -> list[Setting]:
    """Every combination; the lane ``none`` drafts nothing and comes once for all K."""
    settings = []
    for lane, t, c in product(lanes, temperatures, concurrencies):
        settings += [Setting(lane, lane, k, t, c) for k in ((0,) if lane == PLAIN else ks)]
    return settings


def made_head(settings: Sequence[Setting], num_questions: int, num_turns: int = 1, **plan: Any) -> Head:
    """The head of a result; ``plan`` changes fields of its plan."""
    turns: Turns = "first" if num_turns == 1 else "both"
    dataset = DatasetPrint("builtin", "the product's own prompts", num_questions, 60, turns, "content")
    fields: dict[str, Any] = {"pair": "embedded-cpu", "dataset": dataset, "settings": list(settings)}
    made = Plan(**{**fields, "max_tokens": 64, **plan})
    return Head(SCHEMA_VERSION, "made", "2026-01-01T00:00:00+00:00", "0.5.0", made)


def empty_result(
    settings: Sequence[Setting], num_questions: int = 0, num_turns: int = 1, **plan: Any
) -> Result:
    """A result of these settings with its questions and nothing measured."""
    questions = [made_question(i, num_turns) for i in range(num_questions)]
    return Result(made_head(settings, num_questions, num_turns, **plan), {one.id: one for one in questions})


def made_result(
    settings: Sequence[Setting] | None = None, num_questions: int = 12, num_turns: int = 1, **plan: Any
) -> Result:
    """A complete result: by default four lanes, one at a time, 12 questions of three kinds."""
    result = empty_result(made_settings() if settings is None else settings, num_questions, num_turns, **plan)
    for number, asked in enumerate(result.plan.settings):
        result.engines[number] = made_engine(number, asked)
        for question in result.questions.values():
            for turn in range(num_turns):
                result.answers.append(made_answer(number, asked, question, turn))
        measure(result, number)
    return result


def measure(result: Result, setting: int) -> None:
    """Add the samples and the stretch that a setting's answers amount to."""
    answers, asked = result.answers_of(setting), result.plan.settings[setting]
    seconds = sum(answer.latency_s for answer in answers) / asked.concurrency
    for i in range(NUM_SAMPLES):
        share = answers[i::NUM_SAMPLES]
        result.samples.append(
            Sample(
                setting, seconds * (i + 1) / NUM_SAMPLES, seconds / NUM_SAMPLES,
                sum(a.num_output_tokens for a in share), sum(a.num_drafts for a in share),
                sum(a.num_draft_tokens for a in share), sum(a.num_accepted for a in share),
                asked.concurrency, 0,
            )
        )  # fmt: skip
    tokens = sum(a.num_output_tokens for a in answers)
    positions = [
        sum(a.accepted_per_position[i] for a in answers) for i in range(asked.num_speculative_tokens)
    ]
    result.stretches.append(
        Stretch(
            setting, seconds, len(answers), tokens, tokens, sum(a.num_drafts for a in answers),
            sum(a.num_draft_tokens for a in answers), sum(a.num_accepted for a in answers), positions,
        )
    )  # fmt: skip


def change_answers(result: Result, setting: int, **changes: Any) -> None:
    """Change fields of every answer of a setting."""
    result.answers = [
        msgspec.structs.replace(a, **changes) if a.setting == setting else a for a in result.answers
    ]
