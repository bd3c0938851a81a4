"""What the charts draw as a course: points in the order of the steps, each computed from those before.

In long runs a point stands for several steps: more points than a chart has pixels show nothing more.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dflash_viz.metrics.counters import count
from dflash_viz.trace import Step
from dflash_viz.trace.counters import Counters

MAX_POINTS = 600
"""A chart is hardly wider in pixels; drawing each point costs time while somebody drags the scrubber."""


def bin_size(num_steps: int) -> int:
    """How many steps a point of a run of this length stands for."""
    return max(1, -(-num_steps // MAX_POINTS))


def length_course(
    steps: Sequence[Step], before: Counters | None = None, size: int = 1
) -> list[tuple[int, float, float]]:
    """A point every ``size`` steps: index of the last of them, their AL, and the pooled AL so far.

    ``before`` holds the counters of the steps before these. Steps without a draft make no point.
    """
    so_far, course = before or Counters(), []
    for part in _parts(steps, size):
        gained = count(part)
        so_far += gained
        length, pooled = gained.acceptance_length, so_far.acceptance_length
        if length is not None and pooled is not None:
            course.append((part[-1].index, length, pooled))
    return course


def token_course(steps: Sequence[Step], size: int = 1) -> list[tuple[float, int]]:
    """A point every ``size`` steps: seconds on the lane's clock and answer tokens so far.

    The clock starts with the engine step that read the prompt.
    """
    return [(part[-1].end, part[-1].offset + len(part[-1].emitted)) for part in _parts(steps, size)]


def _parts(steps: Sequence[Step], size: int) -> Iterator[Sequence[Step]]:
    return (steps[at : at + size] for at in range(0, len(steps), size))
