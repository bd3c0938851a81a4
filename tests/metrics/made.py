"""Traces made by hand for the rules and the estimates: consistent, and odd only in what was asked for."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count, cycle, groupby, islice
from pathlib import Path
from typing import Any

import msgspec

from dflash_viz.trace import Check, End, Fingerprint, ModelPrint, Position, Step, TokenProb, Trace, read_trace
from tests.conftest import make_header

RECORDED = Path(__file__).resolve().parents[2] / "assets" / "recorded"
DRAFTER = ModelPrint("drafter", layer_ids=[1, 8], causal=False)
PROMPT_S, STEP_S, DRAFT_S, VERIFY_S = 0.2, 0.05, 0.01, 0.03


def recorded_runs() -> list[list[Trace]]:
    """The shipped runs, each as the traces of its lanes."""
    runs = groupby(sorted(RECORDED.rglob("*.jsonl.gz")), key=lambda path: path.parent)
    return [[read_trace(path) for path in paths] for _, paths in runs]


def engine(method: str = "dflash", k: int = 5, **changes: Any) -> Fingerprint:
    """A fingerprint whose drafter was trained for this K."""
    fields: dict[str, Any] = {"drafter": DRAFTER, "num_speculative_tokens": k, "trained_block_size": k + 1}
    fields |= {"target": ModelPrint("target", vocab_size=9), "device": "CPU", "versions": {"vllm": "0.32.0"}}
    return Fingerprint(method, **{**fields, **changes})


def made(
    accepted: Sequence[int],
    *,
    tokens: Sequence[int] | None = None,
    fingerprint: Fingerprint | None = None,
    text: str = "The answer is printable text.",
    cached: int = 0,
    step_s: float = STEP_S,
    verify_s: float = VERIFY_S,
    p: Sequence[float] | None = None,
    **header: Any,
) -> Trace:
    """A trace whose blocks accepted these numbers of tokens.

    The answer runs through ``tokens`` again and again (default: no token twice); ``p`` are the
    drafter's probabilities, the same in every block.
    """
    fingerprint = fingerprint or engine()
    k, answer = fingerprint.num_speculative_tokens, cycle(tokens) if tokens else count(100)
    steps = [Step(0, 0.0, PROMPT_S, PROMPT_S, [next(answer)], last="plain", prefill=True)]
    offset, clock = 1, PROMPT_S
    for index, kept in enumerate(accepted, start=1):
        emitted = list(islice(answer, kept + 1))
        drafted = emitted[:kept] + [-index - 1] * (k - kept)
        positions = [Position(drafter=[TokenProb(token, one)]) for token, one in zip(drafted, p or ())]  # noqa: B905
        last = "bonus" if kept == k else "recovered"
        steps.append(
            Step(
                index, clock, clock + step_s, verify_s, emitted, DRAFT_S, drafted, kept, last,  # type: ignore[arg-type]
                offset=offset, positions=positions,
            )
        )  # fmt: skip
        offset, clock = offset + kept + 1, clock + step_s
    end = End("stop", text, offset, Check(True, ""), num_cached_prompt_tokens=cached)
    return Trace(make_header(fingerprint=fingerprint, **header), steps, end)


def made_plain(tokens: Sequence[int] | int, step_s: float = 0.03, **header: Any) -> Trace:
    """A trace without speculation of this answer, or of so many tokens that never repeat."""
    answer = range(100, 100 + tokens) if isinstance(tokens, int) else tokens
    steps = [Step(0, 0.0, PROMPT_S, PROMPT_S, [answer[0]], last="plain", prefill=True)]
    for index, token in enumerate(answer[1:], start=1):
        start = PROMPT_S + (index - 1) * step_s
        steps.append(Step(index, start, start + step_s, step_s * 0.8, [token], last="plain", offset=index))
    fingerprint = engine("none", 0, drafter=None, trained_block_size=None)
    end = End("stop", "Text.", len(answer), Check(None, ""))
    return Trace(make_header(lane="none", fingerprint=fingerprint, **header), steps, end)


def contended(trace: Trace) -> Trace:
    """The same trace, as if another lane had run at the same time."""
    return Trace(msgspec.structs.replace(trace.header, contended_with=["eagle3"]), trace.steps, trace.end)
