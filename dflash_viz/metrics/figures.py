"""The figures of one lane. Steps are a trace's steps in order, prefill included.

A figure that cannot be computed yet is None. Definitions follow vLLM's
(``v1/spec_decode/metrics.py``) where vLLM has the same figure; the counts behind them are in
``dflash_viz.metrics.counters``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dflash_viz.metrics.counters import Counters, count
from dflash_viz.trace import Step, Trace

WINDOW = 16
"""Steps in the window of the windowed AL."""


@dataclass(frozen=True)
class Figure:
    """One figure as it is shown: its unit, and in one sentence what it means."""

    key: str
    label: str
    unit: str
    definition: str


@dataclass(frozen=True)
class Split:
    """Where the time of a lane's steps after prefill went, in seconds."""

    draft: float
    verify: float
    rest: float


def drafting(steps: Sequence[Step]) -> list[Step]:
    """The steps that verified a draft."""
    return [step for step in steps if step.drafted]


def decoding(steps: Sequence[Step]) -> list[Step]:
    """The steps after prefill."""
    return [step for step in steps if not step.prefill]


def windowed(steps: Sequence[Step], size: int = WINDOW) -> Counters:
    """What the counters gained over the last ``size`` steps: the difference of two snapshots."""
    return count(steps) - count(steps[:-size])


def mean_of_requests(requests: Sequence[Sequence[Step]]) -> float | None:
    """AL as the mean over requests of each request's own AL (the DFlash benchmark's figure)."""
    lengths = [count(steps).acceptance_length for steps in requests]
    known = [length for length in lengths if length is not None]
    return sum(known) / len(known) if known else None


def tokens_per_engine_step(steps: Sequence[Step]) -> float | None:
    """Emitted tokens / engine steps after prefill, steps without a draft included.

    The mean of this over requests is what SGLang calls acceptance length, but for the prompt's
    own token, which SGLang counts and we do not.
    """
    after = decoding(steps)
    return sum(len(s.emitted) for s in after) / len(after) if after else None


def decode_tokens_per_second(steps: Sequence[Step]) -> float | None:
    """Tokens emitted after the first engine step / seconds from its end to the last step's end."""
    after = decoding(steps)
    if not after:
        return None
    seconds = after[-1].end - after[0].start
    return sum(len(s.emitted) for s in after) / seconds if seconds > 0 else None


def mean_draft_s(steps: Sequence[Step]) -> float | None:
    """Mean seconds that drafting took, over the steps whose block a drafter made."""
    made = [step for step in drafting(steps) if not step.padded]
    return sum(s.draft_s for s in made) / len(made) if made else None


def mean_verify_s(steps: Sequence[Step]) -> float | None:
    """Mean seconds of the target's pass and the acceptance decision, over the steps after prefill."""
    after = decoding(steps)
    return sum(s.verify_s for s in after) / len(after) if after else None


def time_split(steps: Sequence[Step]) -> Split:
    """Where the time of the steps after prefill went; the rest is the engine's own work."""
    after = decoding(steps)
    draft, verify = sum(s.draft_s for s in after), sum(s.verify_s for s in after)
    return Split(draft, verify, max(0.0, sum(s.end - s.start for s in after) - draft - verify))


def draft_share(steps: Sequence[Step]) -> float | None:
    """Drafting time / whole time of the steps after prefill, from 0 to 1."""
    split = time_split(steps)
    total = split.draft + split.verify + split.rest
    return split.draft / total if total > 0 else None


def conditional_acceptance(steps: Sequence[Step]) -> list[float | None]:
    """Per drafted position: how often it was accepted when the one before it was, from 0 to 1.

    None where the position before was never accepted. Position 0 has the anchor before it.
    """
    reached: list[list[bool]] = []
    for step in drafting(steps):
        for i in range(min(step.num_accepted + 1, step.num_drafted)):
            if len(reached) == i:
                reached.append([])
            reached[i].append(step.num_accepted > i)
    longest = max((s.num_drafted for s in drafting(steps)), default=0)
    shares: list[float | None] = [sum(kept) / len(kept) for kept in reached]
    return shares + [None] * (longest - len(shares))


def unconditional_acceptance(steps: Sequence[Step]) -> list[float]:
    """Per drafted position: accepted at it / steps that drafted it, from 0 to 1."""
    drafts = drafting(steps)
    longest = max((s.num_drafted for s in drafts), default=0)
    return [
        sum(s.num_accepted > i for s in drafts) / sum(s.num_drafted > i for s in drafts)
        for i in range(longest)
    ]


def length_histogram(steps: Sequence[Step]) -> list[int]:
    """How many drafting steps had acceptance length 1, 2, ... K + 1."""
    drafts = drafting(steps)
    longest = max((s.num_drafted for s in drafts), default=-1)
    return [sum(s.num_accepted == i for s in drafts) for i in range(longest + 1)]


def speedup(steps: Sequence[Step], plain: Sequence[Step]) -> float | None:
    """Decode speed / that of the lane without speculation."""
    ours, theirs = decode_tokens_per_second(steps), decode_tokens_per_second(plain)
    return ours / theirs if ours is not None and theirs else None


def break_even_length(steps: Sequence[Step], plain: Sequence[Step]) -> float | None:
    """Tokens a step must emit to be worth its time: (draft + verify) / a plain step's verify time.

    The engine's own work is left out on both sides; it makes drafting look a little worse than it is.
    """
    after, one = decoding(steps), mean_verify_s(plain)
    if not drafting(steps) or not one:
        return None
    return sum(s.draft_s + s.verify_s for s in after) / len(after) / one


def predicted_speedup(steps: Sequence[Step], plain: Sequence[Step]) -> float | None:
    """Tokens per engine step / break-even AL: the speedup if the engine's own work cost nothing."""
    needed, emitted = break_even_length(steps, plain), tokens_per_engine_step(steps)
    return emitted / needed if needed and emitted is not None else None


def lane_values(steps: Sequence[Step]) -> dict[str, float | None]:
    """The figures of one running answer, by key (see ``FIGURES``)."""
    counters = count(steps)
    return {
        "al": counters.acceptance_length,
        "al_window": windowed(steps).acceptance_length,
        "rate": _scaled(counters.acceptance_rate, 100.0),
        "per_step": tokens_per_engine_step(steps),
        "speed": decode_tokens_per_second(steps),
        "draft_ms": _scaled(mean_draft_s(steps), 1000.0),
        "verify_ms": _scaled(mean_verify_s(steps), 1000.0),
        "draft_share": _scaled(draft_share(steps), 100.0),
        "steps": float(len(decoding(steps))),
    }


def race_values(steps: Sequence[Step], plain: Sequence[Step]) -> dict[str, float | None]:
    """The figures that compare an answer with the one of the lane without speculation, by key."""
    return {
        "speedup": speedup(steps, plain),
        "break_even": break_even_length(steps, plain),
        "predicted": predicted_speedup(steps, plain),
    }


def chat_values(traces: Sequence[Trace]) -> dict[str, float | None]:
    """The figures over all answers of a lane in one chat, by key."""
    requests = [trace.steps for trace in traces]
    pooled = count([step for steps in requests for step in steps])
    return {"al_chat": pooled.acceptance_length, "al_mean": mean_of_requests(requests)}


# Every figure that is shown, in the order of the page.
FIGURES = (
    Figure(
        "speed", "decode speed", "tokens/s",
        "Tokens emitted after the prompt's own step / seconds from its end to the end of the last "
        "step, on the engine's clock. Drawing and the network are not in it.",
    ),
    Figure(
        "speedup", "speedup", "×",
        "Decode speed of the lane / decode speed of the lane without speculation, same prompt, same "
        "machine, each alone on it.",
    ),
    Figure(
        "predicted", "predicted speedup", "×",
        "Tokens per engine step × plain step / (draft + verify): the speedup if the engine's own work "
        "cost nothing. A plain step is the mean verify time of the lane without speculation. Where every "
        "step drafts, tokens per engine step is the AL.",
    ),
    Figure(
        "al", "AL", "tokens",
        "Acceptance length, pooled: 1 + accepted tokens / steps that drafted. The 1 is the target's own "
        "token. Steps without a draft are left out, so n-gram's AL looks high. A block that the answer's "
        "end cuts still counts what was accepted.",
    ),
    Figure(
        "break_even", "break-even AL", "tokens",
        "(draft + verify time of a step) / verify time of a plain step: with fewer tokens per engine step "
        "than this a lane is slower than no speculation, as far as drafting and verifying go. The engine's "
        "own work is left out on both sides, so close to this value the speedup decides.",
    ),
    Figure(
        "per_step", "tokens per engine step", "tokens",
        "Emitted tokens / engine steps after the prompt's own, steps without a draft included: the one "
        "figure comparable between all methods.",
    ),
    Figure(
        "rate", "acceptance rate", "%",
        "Accepted tokens / drafted tokens. A low rate with a large K can still mean a good AL.",
    ),
    Figure(
        "al_window", f"AL, last {WINDOW} steps", "tokens",
        f"AL of the last {WINDOW} engine steps alone: the difference of the counters now and {WINDOW} "
        "steps ago.",
    ),
    Figure(
        "al_chat", "AL, whole chat", "tokens",
        "Pooled AL over all answers of this chat: long answers weigh more.",
    ),
    Figure(
        "al_mean", "AL, mean of answers", "tokens",
        "Mean over the answers of this chat of each answer's own AL: every answer weighs the same.",
    ),
    Figure(
        "draft_ms", "draft", "ms",
        "Mean time of drafting per step. DFlash drafts the whole block in one pass, EAGLE-3 one token "
        "after another, n-gram looks up earlier text.",
    ),
    Figure(
        "verify_ms", "verify", "ms",
        "Mean time per step of the target's pass over the block and of deciding what to accept.",
    ),
    Figure(
        "draft_share", "draft share", "%",
        "Drafting time / whole time of the steps. The rest is verifying and the engine's own work.",
    ),
    Figure("steps", "steps", "", "Engine steps of this request after the prompt's own step."),
)  # fmt: skip


def _scaled(value: float | None, factor: float) -> float | None:
    return None if value is None else value * factor
