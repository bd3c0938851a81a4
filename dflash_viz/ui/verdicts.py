"""Whether the lanes of a run wrote the same text, asking the target where they part."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from dflash_viz.lanes import Fleet, LaneError
from dflash_viz.metrics import first_difference, recorded_best
from dflash_viz.trace import TokenProb, Trace
from dflash_viz.views.text_verdict import TextVerdict, comparable, judge

PLAIN = "none"


async def judge_texts(fleet: Fleet | None, traces: Sequence[Trace]) -> dict[str, TextVerdict]:
    """A verdict for each trace, by its lane; without a fleet only what the traces hold is used."""
    reference = next((t for t in traces if t.header.fingerprint.method == PLAIN), None)
    verdicts = {}
    for trace in traces:
        verdict = comparable(trace, reference)
        if verdict is None:
            assert reference is not None
            verdict = judge(trace, reference, await _best(fleet, trace, reference))
        verdicts[trace.header.lane] = verdict
    return verdicts


async def _best(fleet: Fleet | None, trace: Trace, reference: Trace) -> list[TokenProb] | None:
    """The target's two most probable tokens where the texts part; None where nobody can say.

    From the recording if it holds them; else the lane without speculation is asked again, with the
    text up to there as its prompt, once the race is over.
    """
    difference = first_difference(reference, trace)
    if difference is None:
        return None
    if (known := recorded_best(reference, difference.at)) is not None:
        return known
    client = fleet.lanes[reference.header.lane].client if fleet is not None else None
    if fleet is None or client is None:
        return None
    before = reference.header.prompt_token_ids + reference.output_token_ids[: difference.at]
    with contextlib.suppress(LaneError):
        async with fleet.device():
            return await client.next_token_probabilities(before)
    return None
