"""vLLM's counters, computed from a trace's steps.

The same four counts come from a server's ``/metrics`` (``dflash_viz.trace.counters``). Definitions follow
vLLM's ``v1/spec_decode/metrics.py``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from dflash_viz.trace import Step
from dflash_viz.trace.counters import Counters


def drafting(steps: Sequence[Step]) -> list[Step]:
    """The steps that verified a draft."""
    return [step for step in steps if step.drafted]


def decoding(steps: Sequence[Step]) -> list[Step]:
    """The steps after prefill."""
    return [step for step in steps if not step.prefill]


def count(steps: Sequence[Step]) -> Counters:
    """The counters after these steps, as vLLM counts: steps without a draft are not drafts."""
    drafts = drafting(steps)
    return count_blocks([len(step.drafted) for step in drafts], [step.num_accepted for step in drafts])


def count_blocks(drafted: Sequence[int], accepted: Sequence[int]) -> Counters:
    """The counters of blocks with these numbers of drafted and accepted tokens."""
    longest = max(drafted, default=0)
    return Counters(len(drafted), sum(drafted), sum(accepted), exceeding(accepted, longest))


def exceeding(values: Sequence[int], below: int) -> tuple[int, ...]:
    """For each i from 0 to ``below`` - 1: how many of the values are larger."""
    of_each, left, found = Counter(values), len(values), []
    for i in range(below):
        left -= of_each[i]
        found.append(left)
    return tuple(found)
