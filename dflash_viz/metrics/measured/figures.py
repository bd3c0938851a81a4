"""The figures of a benchmark: of one setting, by kind of prompt, by prompt, by position of the block.

A figure that cannot be had is None. Intervals are over prompts (``bootstrap``); the sums behind each
figure are in ``sums``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dflash_viz.metrics.figures import Figure
from dflash_viz.metrics.measured.bootstrap import Estimate
from dflash_viz.metrics.measured.sums import (
    LATENCY,
    LENGTH,
    OWN_LENGTH,
    SPEED,
    Cells,
    added,
    cells,
    indexed,
    plain_cells,
    pooled,
    quotient,
    same_machine,
)
from dflash_viz.results import Answer, Result

MEASURED = (
    Figure(
        "al", "AL", "tokens",
        "Acceptance length, pooled: 1 + accepted tokens / steps that drafted, over all answers. The 1 is the "
        "target's own token. Steps without a draft are left out, so n-gram's AL looks high.",
    ),
    Figure(
        "al_mean", "AL, mean of requests", "tokens",
        "Mean over the requests of each request's own AL (every turn is a request): short answers weigh as "
        "much as long ones. The DFlash paper's figure.",
    ),
    Figure(
        "rate", "acceptance rate", "%",
        "Accepted tokens / drafted tokens, over all answers. A low rate with a large K can still mean a good "
        "AL.",
    ),
    Figure(
        "per_step", "tokens per engine step", "tokens",
        "Emitted tokens / engine steps after the prompt's own, steps without a draft included: the one "
        "figure comparable between all methods.",
    ),
    Figure(
        "speed", "decode speed", "tokens/s",
        "Tokens emitted after the prompt's own step / seconds from its end to the end of the last step, on "
        "the engine's clock, all answers added up. With several requests at once: what each gets.",
    ),
    Figure(
        "speedup", "speedup", "×",
        "Decode speed / decode speed without speculation, on the same questions and turns, same target, "
        "temperature, device and number of requests at once. With several at once it compares what a single "
        "request gets.",
    ),
    Figure(
        "throughput", "throughput", "tokens/s",
        "Tokens of all finished answers / seconds in which the setting was measured, reading the prompts "
        "included: what the engine as a whole delivers. Measured once, so without an interval.",
    ),
    Figure(
        "throughput_gain", "throughput gain", "×",
        "Throughput / throughput without speculation at the same temperature and number of requests at once. "
        "Without an interval.",
    ),
    Figure(
        "latency", "latency", "s",
        "Mean seconds from sending a request to its last token, on the client's clock.",
    ),
    Figure(
        "latency_p95", "latency, 95th percentile", "s",
        "19 of 20 requests took no longer than this. Without an interval.",
    ),
    Figure(
        "first_token", "first token", "s",
        "Mean seconds from sending a request to its first token, on the client's clock, waiting for other "
        "requests included.",
    ),
    Figure(
        "draft_ms", "draft", "ms",
        "Drafting time / engine steps after the prompt's own, steps without a draft included.",
    ),
    Figure(
        "verify_ms", "verify", "ms",
        "Time of the target's pass and of deciding what to accept / engine steps after the prompt's own.",
    ),
    Figure(
        "answers", "answers", "",
        "Requests that were answered; one that was asked again counts once.",
    ),
    Figure(
        "failures", "failures", "",
        "Requests that got no answer, and engines that did not start.",
    ),
)  # fmt: skip
"""Every figure of a setting, in the order of the tables."""

KIND_KEYS = ("al", "al_mean", "speed", "speedup")
"""The figures that are told for every kind of prompt."""


@dataclass(frozen=True)
class PromptFigure:
    """One answer: its AL, its decode speed in tokens/s and its speedup over no speculation.

    ``trace`` is the file of its trace, relative to the result's folder (empty without one); ``text``
    what was asked in this turn.
    """

    question: str
    turn: int
    kind: str
    al: float | None
    speed: float | None
    speedup: float | None
    trace: str
    text: str


def setting_values(result: Result, setting: int) -> dict[str, Estimate | None]:
    """The figures of a setting, by the keys of ``MEASURED``."""
    result = indexed(result)
    return {figure.key: setting_value(result, setting, figure.key) for figure in MEASURED}


def setting_value(result: Result, setting: int, key: str) -> Estimate | None:
    """One figure of a setting. Raises ``KeyError`` for a key that is not in ``MEASURED``."""
    if key in _WHOLE:
        return _WHOLE[key](result, setting)
    plain = plain_cells(result, setting) if key == "speedup" else {}
    return _value(cells(result, setting), plain, key)


def by_kind(result: Result, setting: int) -> dict[str, dict[str, Estimate | None]]:
    """AL, mean of requests' ALs, speed and speedup of each kind of prompt, in the data set's order."""
    answers: dict[str, dict[tuple[str, int], Answer]] = {one.kind: {} for one in result.questions.values()}
    for key, answer in cells(result, setting).items():
        answers.setdefault(answer.kind, {})[key] = answer
    plain = plain_cells(result, setting)
    return {
        kind: {key: _value(chosen, plain, key) for key in KIND_KEYS}
        for kind, chosen in answers.items()
        if chosen
    }


def by_prompt(result: Result, setting: int) -> list[PromptFigure]:
    """Every answer of a setting, the best AL first; the fastest first where nothing was drafted."""
    plain = plain_cells(result, setting)
    found = [
        PromptFigure(
            question, turn, answer.kind, answer.acceptance_length, _speed(answer),
            _quotient(_speed(answer), _speed(plain.get((question, turn)))), answer.trace,
            _asked(result, question, turn),
        )
        for (question, turn), answer in cells(result, setting).items()
    ]  # fmt: skip
    by_speed = all(one.al is None for one in found)
    return sorted(found, key=lambda one: -((one.speed if by_speed else one.al) or 0.0))


def per_position(result: Result, setting: int) -> list[tuple[float, int]]:
    """Per drafted position: accepted there / drafts that drafted it (unconditional), and those drafts."""
    answers = cells(result, setting).values()
    accepted = added(answer.accepted_per_position for answer in answers)
    drafted = added(answer.drafted_per_position for answer in answers)
    pairs = zip(accepted, drafted, strict=False)
    return [(kept / drafts, drafts) for kept, drafts in pairs if drafts]


def _value(of: Cells, plain: Cells, key: str) -> Estimate | None:
    """A figure that is computed from answers alone; ``plain`` are those without speculation."""
    return quotient(of, plain, SPEED) if key == "speedup" else _OF_ANSWERS[key](of)


def _draft_ms(of: Cells) -> Estimate | None:
    if not any(answer.num_drafts for answer in of.values()):
        return None
    return pooled(of, (lambda answer: 1000 * answer.draft_s, _steps))


def _first_token(of: Cells) -> Estimate | None:
    return pooled(
        of,
        (lambda answer: answer.first_token_s or 0.0, lambda answer: float(answer.first_token_s is not None)),
    )


def _latency_p95(of: Cells) -> Estimate | None:
    if not of:
        return None
    value = np.percentile([answer.latency_s for answer in of.values()], 95, method="inverted_cdf")
    return Estimate(float(value), None, None, len({question for question, _ in of}))


def _steps(answer: Answer) -> float:
    return answer.num_steps


_OF_ANSWERS: dict[str, Callable[[Cells], Estimate | None]] = {
    "al": lambda of: pooled(of, LENGTH, offset=1.0),
    "al_mean": lambda of: pooled(of, OWN_LENGTH),
    "rate": lambda of: pooled(of, (lambda one: 100 * one.num_accepted, lambda one: one.num_draft_tokens)),
    "per_step": lambda of: pooled(of, (lambda one: one.num_decode_tokens if one.num_steps else 0, _steps)),
    "speed": lambda of: pooled(of, SPEED),
    "latency": lambda of: pooled(of, LATENCY),
    "latency_p95": _latency_p95,
    "first_token": _first_token,
    "draft_ms": _draft_ms,
    "verify_ms": lambda of: pooled(of, (lambda one: 1000 * one.verify_s, _steps)),
    "answers": lambda of: _number(len(of)),
}


def _throughput(result: Result, setting: int) -> Estimate | None:
    stretches = [one for one in result.stretches if one.setting == setting]
    seconds = math.fsum(one.seconds for one in stretches)
    if seconds <= 0:
        return None
    tokens, answers = sum(s.answer_tokens for s in stretches), sum(s.num_answers for s in stretches)
    return Estimate(tokens / seconds, None, None, answers)


def _throughput_gain(result: Result, setting: int) -> Estimate | None:
    plain = result.plain_of(setting)
    if plain is None or plain == setting or not same_machine(result, (setting, plain)):
        return None
    ours, theirs = _throughput(result, setting), _throughput(result, plain)
    if ours is None or theirs is None or not theirs.value:
        return None
    return Estimate(ours.value / theirs.value, None, None, ours.num_prompts)


def _failures(result: Result, setting: int) -> Estimate:
    return _number(sum(failure.setting == setting for failure in result.open_failures()))


_WHOLE: dict[str, Callable[[Result, int], Estimate | None]] = {
    "throughput": _throughput,
    "throughput_gain": _throughput_gain,
    "failures": _failures,
}
"""Figures of more than a setting's answers."""


def _number(count: int) -> Estimate:
    return Estimate(float(count), None, None, count)


def _speed(answer: Answer | None) -> float | None:
    return answer.num_decode_tokens / answer.decode_s if answer is not None and answer.decode_s > 0 else None


def _quotient(value: float | None, by: float | None) -> float | None:
    return value / by if value is not None and by else None


def _asked(result: Result, question: str, turn: int) -> str:
    turns = result.questions[question].turns if question in result.questions else []
    return turns[turn] if 0 <= turn < len(turns) else ""
