"""Results and verdicts for the tests of the views about benchmarks."""

from __future__ import annotations

from typing import Any

import msgspec

from dflash_viz.metrics.measured import Expectation, Verdict, setting_value
from dflash_viz.results import DatasetPrint, Failure, Result
from dflash_viz.trace import Check, ModelPrint
from tests.measured import change_answers, made_result, made_settings

HOSTILE = "\"></td><img src=x onerror=alert(1)></script><script>alert(1)</script><!--'|`*_[a](http://x)"
BUILTIN = DatasetPrint("builtin", "the product's own prompts", 12, 60, "first", "content")


def row(**changes: Any) -> Expectation:
    """An expectation, as the paper's are."""
    fields: dict[str, Any] = {
        "pair": "pair", "target": "target", "drafter": "some/drafter", "method": "dflash", "dataset": "gsm8k",
        "num_speculative_tokens": 15, "temperature": 0.0, "max_tokens": 2048, "turns": "first",
        "definition": "al_mean", "al": 6.5, "tolerance": 0.9, "source": "Table 1", "speedup": 5.15,
    }  # fmt: skip
    return Expectation(**{**fields, **changes})


def verdicts(result: Result, **changes: Any) -> list[Verdict]:
    """One verdict of each outcome; ``changes`` are of their expectations."""
    measured = setting_value(result, 0, "al_mean")
    return [
        Verdict(row(al=2.0, **changes), 0, "pass", measured, 1.8, ()),
        Verdict(row(**changes), 0, "fail", measured, 5.85, ("another drafter",)),
        Verdict(row(**changes), 0, "not comparable", None, 5.85, ("K is 5, not 15",)),
    ]


def busy(num_questions: int = 12) -> Result:
    """Three concurrencies of the four lanes."""
    return made_result(made_settings(concurrencies=(1, 4, 16)), num_questions)


def hostile_result(text: str = HOSTILE) -> Result:
    """A result with the text wherever one can stand."""
    dataset = DatasetPrint(text, text, 6, 60, "first", text, [text])
    settings = [
        msgspec.structs.replace(
            one, lane=f"{text}{one.lane}", method=text if one.lane == "dflash" else one.method
        )
        for one in made_settings(concurrencies=(1, 4))
    ]
    result = made_result(settings, 6, pair=text, dataset=dataset)
    result.head = msgspec.structs.replace(result.head, result_id=text, created_at=text, program=text)
    for number in range(len(settings)):
        change_answers(result, number, text=text, kind=text, finish_reason=text, check=Check(False, text))
    _rename_questions(result, text)
    for number, engine in result.engines.items():
        model = ModelPrint(text, text, "float32", text, attention_backend=text)
        fingerprint = msgspec.structs.replace(
            engine.fingerprint, target=model, drafter=model, device=text, versions={text: text}
        )
        result.engines[number] = msgspec.structs.replace(
            engine, fingerprint=fingerprint, template_options={text: [text]}, options={text: {text: number}}
        )
    result.failures = [Failure(0, text, text), Failure(1, text)]
    result.notices = [text]
    return result


def _rename_questions(result: Result, text: str) -> None:
    result.questions = {
        text + key: msgspec.structs.replace(one, id=text + key, kind=text, turns=[text], reference=text)
        for key, one in result.questions.items()
    }
    result.answers = [
        msgspec.structs.replace(one, question=text + one.question, trace=text) for one in result.answers
    ]
