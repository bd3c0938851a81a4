"""Whether the answers are still right where drafting made them fast.

A guard, not a score: what can be checked of an answer (its final number, or that its code parses) is
compared between a setting and no speculation on the same questions.
"""

from __future__ import annotations

from dataclasses import dataclass

from dflash_viz.metrics.measured.answers import final_number, parses_as_python
from dflash_viz.metrics.measured.sums import cells, same_text
from dflash_viz.results import Answer, Question, Result, labels

__all__ = ["Quality", "final_number", "parses_as_python", "quality", "quality_warnings"]

SIGNIFICANT = 0.05
"""A setting is called worse when chance alone would bring so large a difference less often than this."""
CUT = "length"
"""The finish reason of an answer that reached its largest number of tokens."""
EXACT = "float32"
"""The number format in which drafting leaves greedy text as it is."""


@dataclass(frozen=True)
class Quality:
    """What was checked of a setting's answers: ``good`` of ``judged``; ``cut`` ended at the largest number
    of tokens and is not judged: it was not finished.

    On the questions that were judged here and without speculation: ``both_good``, good in ``only_this``,
    good in ``only_plain``, and the two-sided sign test's p value of the last two. None where there is
    nothing to compare with.
    """

    setting: int
    judged: int
    good: int
    cut: int
    both_good: int = 0
    only_this: int = 0
    only_plain: int = 0
    p_value: float | None = None


def quality(result: Result) -> list[Quality]:
    """The check of every setting that answered a question with a grader."""
    checked = [_checked(result, number) for number in range(len(result.plan.settings))]
    found = []
    for number, answers in enumerate(checked):
        if not answers:
            continue
        plain = result.plain_of(number)
        others = checked[plain] if plain is not None and plain != number else {}
        found.append(_compared(number, answers, others))
    return found


def quality_warnings(result: Result) -> list[str]:
    """A sentence for every setting whose answers are worse than without speculation, or whose text differs
    where it must not: at temperature 0 in float32."""
    names = labels(result.plan.settings)
    worse = (_worse(one, names[one.setting]) for one in quality(result))
    differs = (_differs(result, number, name) for number, name in enumerate(names))
    return [said for said in (*worse, *differs) if said]


@dataclass(frozen=True)
class _Checked:
    """One answer: whether it was cut, and whether it is good (None: not judged)."""

    cut: bool
    good: bool | None


def _checked(result: Result, setting: int) -> dict[str, _Checked]:
    """The answers to last turns that have a grader, by question."""
    found = {}
    for (name, turn), answer in cells(result, setting).items():
        question = result.questions.get(name)
        if question is not None and question.grader and turn == len(question.turns) - 1:
            found[name] = _Checked(answer.finish_reason == CUT, _good(question, answer))
    return found


def _good(question: Question, answer: Answer) -> bool | None:
    if answer.finish_reason == CUT:
        return None
    if question.grader == "python":
        return parses_as_python(answer.text)
    expected = final_number(question.reference)
    return None if expected is None else final_number(answer.text) == expected


def _compared(setting: int, answers: dict[str, _Checked], plain: dict[str, _Checked]) -> Quality:
    judged = {name: one.good for name, one in answers.items() if one.good is not None}
    cut = sum(one.cut for one in answers.values())
    both = [
        (good, other.good)
        for name, good in judged.items()
        if (other := plain.get(name)) is not None and other.good is not None
    ]
    only_this, only_plain = both.count((True, False)), both.count((False, True))
    return Quality(
        setting,
        len(judged),
        sum(judged.values()),
        cut,
        both.count((True, True)),
        only_this,
        only_plain,
        sign_test(only_this, only_plain) if both else None,
    )


def sign_test(more: int, less: int) -> float:
    """The two-sided p value of ``more`` against ``less`` when either is as likely; 1 without any."""
    n, smaller = more + less, min(more, less)
    ways, tail = 1, 0
    for i in range(smaller + 1):
        tail += ways
        ways = ways * (n - i) // (i + 1)
    return min(1.0, 2 * tail / (1 << n))


def _worse(one: Quality, name: str) -> str:
    if one.p_value is None or one.p_value >= SIGNIFICANT or one.only_plain <= one.only_this:
        return ""
    return (
        f"{name}: answers are worse than without speculation: {one.only_plain} are good only there, "
        f"{one.only_this} only here (sign test, p = {one.p_value:.2g})."
    )


def _differs(result: Result, setting: int, name: str) -> str:
    plain = result.plain_of(setting)
    if plain is None or plain == setting or result.plan.settings[setting].temperature != 0:
        return ""
    engines = [result.engines.get(number) for number in (setting, plain)]
    if any(engine is None or engine.fingerprint.target.dtype != EXACT for engine in engines):
        return ""
    same, compared = same_text(cells(result, setting), cells(result, plain))
    if same == compared:
        return ""
    return (
        f"{name}: {compared - same} of {compared} texts differ from those without speculation, at "
        f"temperature 0 in {EXACT}, where they should be the same."
    )
