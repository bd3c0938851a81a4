"""The figures of one lane, from its steps or from their tally.

A figure that cannot be computed yet is None. Definitions follow vLLM's
(``v1/spec_decode/metrics.py``) where vLLM has the same figure; the counts behind them are in
``dflash_viz.metrics.counters`` and ``dflash_viz.metrics.tally``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dflash_viz.metrics.counters import count
from dflash_viz.metrics.tally import WINDOW, Steps, Tally, tally
from dflash_viz.trace import Trace
from dflash_viz.trace.counters import Counters


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


def windowed(steps: Steps) -> Counters:
    """The counters of the last ``WINDOW`` steps alone."""
    return count(tally(steps).recent)


def mean_of_requests(requests: Sequence[Steps]) -> float | None:
    """AL as the mean over requests of each request's own AL (the DFlash benchmark's figure)."""
    lengths = [tally(steps).counters.acceptance_length for steps in requests]
    known = [length for length in lengths if length is not None]
    return sum(known) / len(known) if known else None


def tokens_per_engine_step(steps: Steps) -> float | None:
    """Emitted tokens / engine steps after prefill, steps without a draft included.

    The mean of this over requests is what SGLang calls acceptance length, but for the prompt's
    own token, which SGLang counts and we do not.
    """
    sums = tally(steps)
    return sums.num_tokens / sums.num_steps if sums.num_steps else None


def decode_tokens_per_second(steps: Steps) -> float | None:
    """Tokens emitted after the first engine step / seconds from its end to the last step's end."""
    sums = tally(steps)
    if sums.begin is None or sums.end is None or sums.end <= sums.begin:
        return None
    return sums.num_tokens / (sums.end - sums.begin)


def mean_draft_s(steps: Steps) -> float | None:
    """Mean seconds that drafting took, over the steps whose block a drafter made."""
    sums = tally(steps)
    return sums.made_draft_s / sums.num_made if sums.num_made else None


def mean_verify_s(steps: Steps) -> float | None:
    """Mean seconds of the target's pass and the acceptance decision, over the steps after prefill."""
    sums = tally(steps)
    return sums.verify_s / sums.num_steps if sums.num_steps else None


def time_split(steps: Steps) -> Split:
    """Where the time of the steps after prefill went; the rest is the engine's own work."""
    sums = tally(steps)
    return Split(sums.draft_s, sums.verify_s, max(0.0, sums.whole_s - sums.draft_s - sums.verify_s))


def draft_share(steps: Steps) -> float | None:
    """Drafting time / whole time of the steps after prefill, from 0 to 1."""
    split = time_split(steps)
    total = split.draft + split.verify + split.rest
    return split.draft / total if total > 0 else None


def conditional_acceptance(steps: Steps) -> list[float | None]:
    """Per drafted position: how often it was accepted when the one before it was, from 0 to 1.

    None where the position before was never accepted. Position 0 has the anchor before it.
    """
    sums = tally(steps)
    pairs = zip(sums.counters.accepted_per_position, sums.reached_per_position, strict=True)
    return [kept / reached if reached else None for kept, reached in pairs]


def unconditional_acceptance(steps: Steps) -> list[float]:
    """Per drafted position: accepted at it / steps that drafted it, from 0 to 1."""
    sums = tally(steps)
    pairs = zip(sums.counters.accepted_per_position, sums.drafted_per_position, strict=True)
    return [kept / drafted for kept, drafted in pairs]


def length_histogram(steps: Steps) -> list[int]:
    """How many drafting steps had acceptance length 1, 2, ... K + 1."""
    return list(tally(steps).lengths)


def speedup(steps: Steps, plain: Steps) -> float | None:
    """Decode speed / that of the lane without speculation."""
    ours, theirs = decode_tokens_per_second(steps), decode_tokens_per_second(plain)
    return ours / theirs if ours is not None and theirs else None


def break_even_length(steps: Steps, plain: Steps) -> float | None:
    """Tokens a step must emit to be worth its time: (draft + verify) / a plain step's verify time.

    The engine's own work is left out on both sides; it makes drafting look a little worse than it is.
    """
    sums, one = tally(steps), mean_verify_s(plain)
    if not sums.counters.num_drafts or not sums.num_steps or not one:
        return None
    return (sums.draft_s + sums.verify_s) / sums.num_steps / one


def predicted_speedup(steps: Steps, plain: Steps) -> float | None:
    """Tokens per engine step / break-even AL: the speedup if the engine's own work cost nothing."""
    needed, emitted = break_even_length(steps, plain), tokens_per_engine_step(steps)
    return emitted / needed if needed and emitted is not None else None


def lane_values(steps: Steps) -> dict[str, float | None]:
    """The figures of one running answer, by key (see ``FIGURES``)."""
    sums = tally(steps)
    return {
        "al": sums.counters.acceptance_length,
        "al_window": windowed(sums).acceptance_length,
        "rate": _scaled(sums.counters.acceptance_rate, 100.0),
        "per_step": tokens_per_engine_step(sums),
        "speed": decode_tokens_per_second(sums),
        "draft_ms": _scaled(mean_draft_s(sums), 1000.0),
        "verify_ms": _scaled(mean_verify_s(sums), 1000.0),
        "draft_share": _scaled(draft_share(sums), 100.0),
        "steps": float(sums.num_steps),
    }


def race_values(steps: Steps, plain: Steps) -> dict[str, float | None]:
    """The figures that compare an answer with the one of the lane without speculation, by key."""
    return {
        "speedup": speedup(steps, plain),
        "break_even": break_even_length(steps, plain),
        "predicted": predicted_speedup(steps, plain),
    }


def chat_values(traces: Sequence[Trace]) -> dict[str, float | None]:
    """The figures over all answers of a lane in one chat, by key."""
    tallies = [Tally.of(trace.steps) for trace in traces]
    pooled = sum((one.counters for one in tallies), Counters())
    return {"al_chat": pooled.acceptance_length, "al_mean": mean_of_requests(tallies)}


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
        "machine, each alone on it. Servers that run elsewhere: the same kind of device, if they tell.",
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
        f"AL of the last {WINDOW} engine steps alone.",
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
