"""A benchmark's result as tables for pandas; numbers are numbers, and what cannot be had is missing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pandas as pd

from dflash_viz.metrics.measured import (
    KIND_KEYS,
    MEASURED,
    Estimate,
    Verdict,
    by_kind,
    indexed,
    pairs,
    sample_length,
    setting_values,
)
from dflash_viz.metrics.measured.sums import LENGTH, SPEED, cells, common, difference, quotient
from dflash_viz.results import Answer, Result, Setting, labels
from dflash_viz.views.measured_text import counted, num_prompts

_ENDS = ("", "_low", "_high")
_SETTING = {
    "setting": "int64", "label": "str", "lane": "str", "method": "str", "K": "int64",
    "temperature": "float64", "concurrency": "int64",
}  # fmt: skip
_ENGINE = dict.fromkeys(("target", "target_hash", "drafter", "drafter_hash", "dtype", "device"), "str")
_SETTINGS = {
    **_SETTING, "finished": "bool", "prompts": "int64",
    **{f"{one.key}{end}": "float64" for one in MEASURED for end in _ENDS}, **_ENGINE,
}  # fmt: skip
_ANSWERS = {
    **_SETTING, "question": "str", "turn": "int64", "kind": "str", "latency_s": "float64",
    "first_token_s": "float64", "decode_s": "float64", "num_prompt_tokens": "int64",
    "num_output_tokens": "int64", "num_decode_tokens": "int64", "num_steps": "int64", "num_drafts": "int64",
    "num_draft_tokens": "int64", "num_accepted": "int64", "acceptance_length": "float64",
    "draft_s": "float64", "verify_s": "float64", "batch_size": "float64", "finish_reason": "str",
    "agrees": "boolean", "check": "str", "trace": "str", "text": "str",
}  # fmt: skip
_KINDS = {
    **_SETTING, "kind": "str", "prompts": "int64",
    **{f"{key}{end}": "float64" for key in KIND_KEYS for end in _ENDS},
}  # fmt: skip
_PAIRED = {f"{key}{end}": "float64" for key in ("al_difference", "speed_ratio") for end in _ENDS}
_PAIRS = {
    "first": "int64", "first_label": "str", "second": "int64", "second_label": "str", "prompts": "int64",
    **_PAIRED, **{f"latency_ratio{end}": "float64" for end in _ENDS},
    "same_text": "int64", "compared_texts": "int64",
}  # fmt: skip
_VERDICTS = {
    "outcome": "str", "setting": "Int64", "pair": "str", "dataset": "str", "method": "str", "K": "int64",
    "temperature": "float64", "max_tokens": "int64", "turns": "str",
    "definition": "str", "expected": "float64", "expected_speedup": "float64", "tolerance": "float64",
    "needed": "float64", "measured": "float64", "measured_low": "float64", "measured_high": "float64",
    "prompts": "Int64", "reasons": "str", "source": "str", "note": "str",
}  # fmt: skip
_SAMPLES = {
    **_SETTING, "at": "float64", "seconds": "float64", "output_tokens": "int64", "num_drafts": "int64",
    "num_draft_tokens": "int64", "num_accepted": "int64", "running": "int64", "waiting": "int64",
    "throughput": "float64", "acceptance_length": "float64",
}  # fmt: skip
COMPARED = ("al", "speed", "throughput")
"""The figures that two results are compared by."""
_COMPARED = {
    "lane": "str", "method": "str", "K": "int64", "temperature": "float64", "concurrency": "int64",
    "setting_a": "int64", "setting_b": "int64",
    **{f"{key}_{side}{end}": "float64" for key in COMPARED for side in "ab" for end in _ENDS},
    "common_prompts": "int64", **_PAIRED,
}  # fmt: skip


def settings_frame(result: Result) -> pd.DataFrame:
    """One row per setting: every figure of ``MEASURED`` with the ends of its interval, and the engine."""
    rows, result = [], indexed(result)
    for number, start in enumerate(_setting_cells(result.plan.settings)):
        values = setting_values(result, number)
        rows.append(
            {
                **start,
                "finished": result.finished(number),
                "prompts": num_prompts(result, number),
                **_estimates({figure.key: values[figure.key] for figure in MEASURED}),
                **_engine_cells(result, number),
            }
        )
    return _frame(rows, _SETTINGS)


def answers_frame(result: Result) -> pd.DataFrame:
    """One row per answer, of several to one turn the last; durations in seconds.

    ``acceptance_length`` is the answer's own AL; ``agrees`` is missing where vLLM gave nothing to
    compare with.
    """
    starts = _setting_cells(result.plan.settings)
    return _frame([_answer_cells(starts[one.setting], one) for one in counted(indexed(result))], _ANSWERS)


def kinds_frame(result: Result) -> pd.DataFrame:
    """One row per setting and kind of prompt; ``prompts`` are those that the AL, or the speed, is over."""
    rows, result = [], indexed(result)
    for number, start in enumerate(_setting_cells(result.plan.settings)):
        for kind, values in by_kind(result, number).items():
            told = {key: values.get(key) for key in KIND_KEYS}
            prompts = max((one.num_prompts for one in told.values() if one is not None), default=0)
            rows.append({**start, "kind": kind, "prompts": prompts, **_estimates(told)})
    return _frame(rows, _KINDS)


def pairs_frame(result: Result) -> pd.DataFrame:
    """One row per two settings of one temperature and concurrency, on the prompts that both answered; the
    first ``MAX_PAIRS`` of them.

    ``al_difference`` is the first's AL less the second's, the ratios are first / second; same texts are
    counted at temperature 0 alone.
    """
    names = labels(result.plan.settings)
    rows = []
    for pair in pairs(result):
        told = {"al_difference": pair.al, "speed_ratio": pair.speed, "latency_ratio": pair.latency}
        rows.append(
            {
                "first": pair.first, "first_label": names[pair.first],
                "second": pair.second, "second_label": names[pair.second],
                "prompts": pair.num_prompts, **_estimates(told),
                "same_text": pair.same_text[0], "compared_texts": pair.same_text[1],
            }
        )  # fmt: skip
    return _frame(rows, _PAIRS)


def verdicts_frame(verdicts: Sequence[Verdict]) -> pd.DataFrame:
    """One row per expectation: what was expected and needed, what was measured, and the outcome."""
    return _frame(list(map(_verdict_cells, verdicts)), _VERDICTS)


def samples_frame(result: Result) -> pd.DataFrame:
    """One row per interval of the course: differences of vLLM's own counters (see ``Sample``).

    ``throughput`` is in tokens/s; ``acceptance_length`` is missing where nothing was drafted.
    """
    starts = _setting_cells(result.plan.settings)
    rows = [
        {
            **starts[one.setting],
            **{name: getattr(one, name) for name in one.__struct_fields__ if name != "setting"},
            "throughput": one.output_tokens / one.seconds if one.seconds else None,
            "acceptance_length": sample_length(one),
        }
        for one in result.samples
    ]
    return _frame(rows, _SAMPLES)


def compare_frame(a: Result, b: Result) -> pd.DataFrame:
    """One row per setting that both results have (same lane, method, K, temperature and concurrency).

    ``al_difference`` is B's AL less A's and ``speed_ratio`` B's decode speed / A's, each over the prompts
    that both answered; missing, with ``common_prompts`` 0, where the results asked different questions.
    """
    a, b = indexed(a), indexed(b)
    others = {setting: number for number, setting in enumerate(b.plan.settings)}
    matches = [(number, others[one], one) for number, one in enumerate(a.plan.settings) if one in others]
    return _frame([_compared_cells(a, b, *match) for match in matches], _COMPARED)


def same_questions(a: Result, b: Result) -> bool:
    """Whether both results asked the same questions, so that prompts can be paired."""
    ours, theirs = a.plan.dataset, b.plan.dataset
    return bool(ours.content_hash) and ours.content_hash == theirs.content_hash


def _compared_cells(a: Result, b: Result, first: int, second: int, setting: Setting) -> dict[str, Any]:
    ours, theirs = setting_values(a, first), setting_values(b, second)
    told = {f"{key}_a": ours[key] for key in COMPARED} | {f"{key}_b": theirs[key] for key in COMPARED}
    paired = (cells(a, first), cells(b, second)) if same_questions(a, b) else ({}, {})
    before, after = common(*paired)
    changes = {
        "al_difference": difference(after, before, LENGTH),
        "speed_ratio": quotient(after, before, SPEED),
    }
    return {
        "lane": setting.lane, "method": setting.method, "K": setting.num_speculative_tokens,
        "temperature": setting.temperature, "concurrency": setting.concurrency,
        "setting_a": first, "setting_b": second, **_estimates({**told, **changes}),
        "common_prompts": len({question for question, _ in before}),
    }  # fmt: skip


def _frame(rows: list[dict[str, Any]], types: Mapping[str, str]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=list(types)).astype(dict(types))


def _estimates(values: Mapping[str, Estimate | None]) -> dict[str, float | None]:
    return dict(cell for key, value in values.items() for cell in _three(key, value))


def _three(key: str, estimate: Estimate | None) -> Iterator[tuple[str, float | None]]:
    """A value and the ends of its interval, named after it."""
    for end, field in zip(_ENDS, ("value", "low", "high"), strict=True):
        yield key + end, None if estimate is None else getattr(estimate, field)


def _setting_cells(settings: Sequence[Setting]) -> list[dict[str, Any]]:
    return [
        {
            "setting": number, "label": label, "lane": one.lane, "method": one.method,
            "K": one.num_speculative_tokens, "temperature": one.temperature, "concurrency": one.concurrency,
        }
        for number, (label, one) in enumerate(zip(labels(settings), settings, strict=True))
    ]  # fmt: skip


def _engine_cells(result: Result, setting: int) -> dict[str, str]:
    """What ran: names are empty where the engine did not start or has no drafter."""
    if (engine := result.engines.get(setting)) is None:
        return dict.fromkeys(_ENGINE, "")
    target, drafter = engine.fingerprint.target, engine.fingerprint.drafter
    return {
        "target": target.name,
        "target_hash": target.content_hash or "",
        "drafter": drafter.name if drafter else "",
        "drafter_hash": (drafter.content_hash or "") if drafter else "",
        "dtype": target.dtype or "",
        "device": engine.fingerprint.device or "",
    }


def _answer_cells(start: dict[str, Any], answer: Answer) -> dict[str, Any]:
    told = {name: getattr(answer, name) for name in _ANSWERS if name in answer.__struct_fields__}
    check = {"agrees": answer.check.agrees, "check": answer.check.message}
    return {**told, **start, **check, "acceptance_length": answer.acceptance_length}


def _verdict_cells(verdict: Verdict) -> dict[str, Any]:
    row = verdict.expectation
    return {
        "outcome": verdict.outcome, "setting": verdict.setting, "pair": row.pair, "dataset": row.dataset,
        "method": row.method, "K": row.num_speculative_tokens, "temperature": row.temperature,
        "max_tokens": row.max_tokens, "turns": row.turns,
        "definition": row.definition, "expected": row.al, "expected_speedup": row.speedup,
        "tolerance": row.tolerance, "needed": verdict.needed, **_estimates({"measured": verdict.measured}),
        "prompts": verdict.measured and verdict.measured.num_prompts,
        "reasons": "; ".join(verdict.reasons), "source": row.source, "note": row.note,
    }  # fmt: skip
