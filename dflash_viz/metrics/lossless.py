"""Whether two answers to one prompt are the same text, and if not, how close a call it was.

Speculative decoding keeps the target's greedy text exactly in exact arithmetic. In bf16 the kernels
for one token and for a block round differently, so that two tokens which are almost equally
probable can change places.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from dflash_viz.trace import PLAIN, TokenProb, Trace

Verdict = Literal["reference", "same", "near-tie", "differs", "sampled", "unknown"]

# The largest log ratio of the two tokens' probabilities that rounding explains, by the target's dtype.
# bfloat16 has 8 bits: logits between 16 and 32 are 0.125 apart, and each of the two can be off by one.
NEAR_TIE = {"float32": 1e-3, "bfloat16": 0.25, "float16": 0.05}


@dataclass(frozen=True)
class Difference:
    """The first answer token at which two texts differ: its place, and the two tokens there."""

    at: int
    reference: int
    other: int


def plain_trace(trace: Trace, traces: Sequence[Trace]) -> Trace | None:
    """The one of ``traces`` that shows what the target of ``trace`` does without speculation.

    None unless it is the same model in the same number format: anything else is no comparison.
    """

    def target(one: Trace) -> tuple[str | None, ...]:
        model = one.header.fingerprint.target
        return model.name, model.content_hash, model.dtype, model.quantization

    plain = (one for one in traces if one.header.fingerprint.method == PLAIN)
    return next((one for one in plain if target(one) == target(trace)), None)


def first_difference(reference: Trace, other: Trace) -> Difference | None:
    """Where ``other`` leaves ``reference``, as far as both go; None if it does not."""
    pairs = zip(reference.output_token_ids, other.output_token_ids, strict=False)
    return next((Difference(i, a, b) for i, (a, b) in enumerate(pairs) if a != b), None)


def recorded_best(trace: Trace, at: int) -> list[TokenProb] | None:
    """The target's most probable tokens for answer token ``at``, if the trace holds two or more."""
    for step in trace.steps:
        if step.offset <= at < step.offset + len(step.emitted) and step.positions:
            best = step.positions[at - step.offset].target
            return best if len(best) >= 2 else None
    return None


def log_ratio(difference: Difference, best: Sequence[TokenProb]) -> float | None:
    """|log(p / q)| of the two tokens in the target's own distribution there; None unless both are
    its two most probable ones."""
    p = {token.id: token.p for token in best[:2]}
    if {difference.reference, difference.other} != set(p):
        return None
    less, more = sorted((p[difference.reference], p[difference.other]))
    return math.log(more / less) if less > 0 else math.inf  # in float32 a probability can be 0


def is_near_tie(ratio: float | None, dtype: str | None) -> bool:
    """Whether rounding in ``dtype`` explains a difference with this log ratio."""
    return ratio is not None and ratio <= NEAR_TIE.get(dtype or "", 0.0)
