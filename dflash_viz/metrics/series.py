"""What the charts draw as a course: one point per step, computed from the steps before it."""

from __future__ import annotations

from collections.abc import Sequence

from dflash_viz.metrics.counters import count
from dflash_viz.trace import Step


def length_course(steps: Sequence[Step], begin: int = 0) -> list[tuple[int, int, float]]:
    """Step index, its AL and the pooled AL so far, for the drafting steps from position ``begin`` on."""
    before = count(steps[:begin])
    drafts, accepted = before.num_drafts, before.num_accepted_tokens
    course = []
    for step in steps[begin:]:
        if step.drafted:
            drafts, accepted = drafts + 1, accepted + step.num_accepted
            course.append((step.index, step.num_accepted + 1, 1 + accepted / drafts))
    return course


def token_course(steps: Sequence[Step], begin: int = 0) -> list[tuple[float, int]]:
    """Seconds on the lane's clock and answer tokens so far, for the steps from ``begin`` on.

    The clock starts with the engine step that read the prompt.
    """
    return [(step.end, step.offset + len(step.emitted)) for step in steps[begin:]]
