"""Whether the lanes of a run wrote the same text, asking the target where they part."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from dflash_viz.lanes import Fleet, LaneError
from dflash_viz.metrics import Difference, first_difference, plain_trace, recorded_best
from dflash_viz.trace import TokenProb, Trace
from dflash_viz.views.text_verdict import TextVerdict, comparable, judge

Best = dict[str, list[TokenProb]]
"""By lane: the target's two most probable tokens where its text first differs."""


def judge_texts(traces: Sequence[Trace], asked: Best | None = None) -> dict[str, TextVerdict]:
    """A verdict for each trace, by its lane; ``asked`` is what the engines said (``ask_target``)."""
    verdicts = {}
    for trace in traces:
        lane, reference = trace.header.lane, plain_trace(trace, traces)
        verdict = comparable(trace, reference)
        if verdict is None:
            assert reference is not None
            difference = first_difference(reference, trace)
            known = recorded_best(reference, difference.at) if difference is not None else None
            verdict = judge(trace, reference, known or (asked or {}).get(lane))
        verdicts[lane] = verdict
    return verdicts


async def ask_target(fleet: Fleet, traces: Sequence[Trace]) -> Best:
    """Ask the lane without speculation for its probabilities where texts part, once a race is over.

    Its prompt is the text up to there. Lanes are left out where nobody can say.
    """
    parted = list(_parted(traces))
    if not parted:
        return {}
    best: Best = {}
    async with fleet.device():
        for lane, reference, difference in parted:
            client = fleet.lanes[reference.header.lane].client
            before = reference.header.prompt_token_ids + reference.output_token_ids[: difference.at]
            with contextlib.suppress(LaneError):
                if client is not None:
                    best[lane] = await client.next_token_probabilities(before)
    return best


def _parted(traces: Sequence[Trace]) -> list[tuple[str, Trace, Difference]]:
    """Lanes whose text leaves the reference where the recording holds no probabilities."""
    parted = []
    for trace in traces:
        reference = plain_trace(trace, traces)
        if comparable(trace, reference) is not None or reference is None:
            continue
        difference = first_difference(reference, trace)
        if difference is not None and recorded_best(reference, difference.at) is None:
            parted.append((trace.header.lane, reference, difference))
    return parted
