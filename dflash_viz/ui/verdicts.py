"""Whether the lanes of a run wrote the same text, asking the target where they part."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass

from dflash_viz.lanes import Fleet, LaneError
from dflash_viz.metrics import Difference, first_difference, plain_trace, recorded_best
from dflash_viz.trace import TokenProb, Trace
from dflash_viz.views.text_verdict import TextVerdict, judge, no_comparison

Best = dict[str, list[TokenProb]]
"""By lane: the target's two most probable tokens where its text first differs."""


@dataclass(frozen=True)
class Parting:
    """Where a lane's text leaves the reference, and what the recording says of the target there."""

    reference: Trace
    difference: Difference
    recorded: list[TokenProb] | None


def judge_texts(traces: Sequence[Trace], asked: Best | None = None) -> dict[str, TextVerdict]:
    """A verdict for each trace, by its lane; ``asked`` is what the engines said (``ask_target``)."""
    best = {lane: parting.recorded for lane, parting in _partings(traces).items()} | (asked or {})
    verdicts = {}
    for trace in traces:
        lane, reference = trace.header.lane, plain_trace(trace, traces)
        verdicts[lane] = judge(trace, reference, best.get(lane))
    return verdicts


async def ask_target(fleet: Fleet, traces: Sequence[Trace]) -> Best:
    """Ask the lane without speculation for its probabilities where texts part, once a race is over.

    Its prompt is the text up to there. Lanes are left out where the recording knows or nobody can say.
    """
    unknown = {lane: parting for lane, parting in _partings(traces).items() if parting.recorded is None}
    if not unknown:
        return {}
    best: Best = {}
    async with fleet.device():
        for lane, parting in unknown.items():
            reference = parting.reference
            before = reference.header.prompt_token_ids + reference.output_token_ids[: parting.difference.at]
            with contextlib.suppress(LaneError):
                client = await fleet.awake(reference.header.lane)
                best[lane] = await client.next_token_probabilities(before)
    return best


def _partings(traces: Sequence[Trace]) -> dict[str, Parting]:
    """By lane, for the texts that can be compared and are not the same."""
    found = {}
    for trace in traces:
        reference = plain_trace(trace, traces)
        if reference is None or no_comparison(trace, reference) is not None:
            continue
        if (difference := first_difference(reference, trace)) is not None:
            known = recorded_best(reference, difference.at)
            found[trace.header.lane] = Parting(reference, difference, known)
    return found
