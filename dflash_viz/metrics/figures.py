"""The figures of one request. Steps are a trace's steps in order, prefill included.

A figure that cannot be computed yet is None. Definitions follow vLLM's
(``v1/spec_decode/metrics.py``) where vLLM has the same figure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dflash_viz.trace import Step


@dataclass(frozen=True)
class Figure:
    """One figure as it is shown: its value, its unit, and in one sentence what it means."""

    key: str
    label: str
    value: float | None
    unit: str
    definition: str


def _drafting(steps: Sequence[Step]) -> list[Step]:
    return [step for step in steps if step.drafted]


def _decoding(steps: Sequence[Step]) -> list[Step]:
    return [step for step in steps if not step.prefill]


def acceptance_length(steps: Sequence[Step]) -> float | None:
    """AL, pooled: 1 + accepted tokens / drafting steps; counts the target's own token."""
    drafting = _drafting(steps)
    if not drafting:
        return None
    return 1 + sum(s.num_accepted for s in drafting) / len(drafting)


def acceptance_rate(steps: Sequence[Step]) -> float | None:
    """Accepted tokens / drafted tokens, from 0 to 1."""
    drafted = sum(s.num_drafted for s in steps)
    return sum(s.num_accepted for s in steps) / drafted if drafted else None


def tokens_per_engine_step(steps: Sequence[Step]) -> float | None:
    """Emitted tokens / engine steps after prefill, steps without a draft included."""
    decoding = _decoding(steps)
    return sum(len(s.emitted) for s in decoding) / len(decoding) if decoding else None


def decode_tokens_per_second(steps: Sequence[Step]) -> float | None:
    """Tokens emitted after the first engine step / seconds from its end to the last step's end."""
    decoding = _decoding(steps)
    if not decoding:
        return None
    seconds = decoding[-1].end - decoding[0].start
    return sum(len(s.emitted) for s in decoding) / seconds if seconds > 0 else None


def mean_draft_s(steps: Sequence[Step]) -> float | None:
    """Mean seconds that drafting took, over the steps whose block a drafter made."""
    drafting = [step for step in _drafting(steps) if not step.padded]
    return sum(s.draft_s for s in drafting) / len(drafting) if drafting else None


def mean_verify_s(steps: Sequence[Step]) -> float | None:
    """Mean seconds of the target's pass and the acceptance decision, over the steps after prefill."""
    decoding = _decoding(steps)
    return sum(s.verify_s for s in decoding) / len(decoding) if decoding else None


def draft_share(steps: Sequence[Step]) -> float | None:
    """Drafting time / whole time of the steps after prefill, from 0 to 1."""
    decoding = _decoding(steps)
    seconds = sum(s.end - s.start for s in decoding)
    return sum(s.draft_s for s in decoding) / seconds if seconds > 0 else None


def running_figures(steps: Sequence[Step]) -> list[Figure]:
    """The figures that are shown beside a running lane, in the order of the page."""
    values = {
        "al": acceptance_length(steps),
        "rate": _scaled(acceptance_rate(steps), 100.0),
        "speed": decode_tokens_per_second(steps),
        "per_step": tokens_per_engine_step(steps),
        "draft_ms": _scaled(mean_draft_s(steps), 1000.0),
        "verify_ms": _scaled(mean_verify_s(steps), 1000.0),
        "draft_share": _scaled(draft_share(steps), 100.0),
        "steps": float(len(_decoding(steps))),
    }
    return [Figure(key, label, values[key], unit, words) for key, label, unit, words in _SHOWN]


# Key, label, unit and definition of every figure that the page shows.
_SHOWN = (
    (
        "al", "AL", "tokens",
        "Acceptance length, pooled: 1 + accepted tokens / steps that drafted. "
        "The 1 is the target's own token. A block that the answer's end cuts still counts what was accepted.",
    ),
    (
        "rate", "acceptance rate", "%",
        "Accepted tokens / drafted tokens. A low rate with a large K can still mean a good AL.",
    ),
    (
        "speed", "decode speed", "tokens/s",
        "Tokens emitted after the prompt's own step / seconds from its end to the end of the last "
        "step, on the engine's clock.",
    ),
    (
        "per_step", "tokens per engine step", "tokens",
        "Emitted tokens / engine steps after the prompt's own, steps without a draft included.",
    ),
    (
        "draft_ms", "draft", "ms",
        "Mean time of the drafter's pass per step: DFlash drafts the whole block in one pass.",
    ),
    (
        "verify_ms", "verify", "ms",
        "Mean time per step of the target's pass over the block and of deciding what to accept.",
    ),
    (
        "draft_share", "draft share", "%",
        "Drafting time / whole time of the steps. The rest is verifying and the engine's own work.",
    ),
    ("steps", "steps", "", "Engine steps of this request after the prompt's own step."),
)  # fmt: skip


def _scaled(value: float | None, factor: float) -> float | None:
    return None if value is None else value * factor
