"""Several traces of one lane taken together, and the plain traces that they may be timed against."""

from __future__ import annotations

from collections.abc import Sequence

from dflash_viz.metrics.lossless import plain_trace
from dflash_viz.trace import Step, Trace


class MixedTracesError(ValueError):
    """Traces were to be taken together that say nothing as one; the message names what differs."""


def require_one_lane(traces: Sequence[Trace]) -> None:
    """Raise ``MixedTracesError`` unless all traces have one method, K, target and drafter."""
    kinds = [_kind(trace) for trace in traces]
    for kind in kinds:
        for name, value in kind.items():
            if value != kinds[0][name]:
                raise MixedTracesError(
                    f"These traces are not of one lane: the {name} is {kinds[0][name]} in one and {value} in "
                    "another. Choose traces that have it in common."
                )


def drafters_blocks(traces: Sequence[Trace]) -> list[Step]:
    """The steps whose block a drafter made: a padded block holds what nobody said."""
    return [step for trace in traces for step in trace.steps if step.drafted and not step.padded]


def alone(trace: Trace) -> bool:
    """Whether the request had the machine to itself, as far as the trace tells: its times are its own."""
    return not trace.header.contended_with and all(step.batch_size == 1 for step in trace.steps)


def plain_partners(trace: Trace, plain: Sequence[Trace]) -> list[Trace]:
    """Those of ``plain`` whose times show what the target of ``trace`` costs without a draft.

    The same target without speculation on the same device, alone there.
    """
    device = trace.header.fingerprint.device
    return [
        one
        for one in plain
        if plain_trace(trace, [one]) is one and one.header.fingerprint.device == device and alone(one)
    ]


def pooled_speed(traces: Sequence[Trace]) -> float | None:
    """Decode speed over several answers, in tokens/s: all their tokens / all their seconds."""
    tokens, seconds = 0, 0.0
    for trace in traces:
        if after := trace.decode_steps:
            tokens += sum(len(step.emitted) for step in after)
            seconds += after[-1].end - after[0].start
    return tokens / seconds if seconds > 0 else None


def _kind(trace: Trace) -> dict[str, object]:
    engine = trace.header.fingerprint
    drafter = engine.drafter
    return {
        "method": engine.method,
        "K": engine.num_speculative_tokens,
        "target": engine.target.content_hash or engine.target.name,
        "drafter": (drafter.content_hash or drafter.name) if drafter else None,
    }
