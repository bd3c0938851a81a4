"""What vLLM counts of speculation, and a server's ``/metrics`` that says so.

Definitions follow vLLM's ``v1/spec_decode/metrics.py``.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from itertools import zip_longest

_SAMPLE = re.compile(r"^vllm:spec_decode_num_(\w+?)_total\{([^}]*)\} (\S+)$", re.MULTILINE)
_LOAD = re.compile(
    r"^vllm:(generation_tokens_total|num_requests_running|num_requests_waiting)\{[^}]*\} (\S+)$", re.MULTILINE
)
_POSITION = re.compile(r'position="(\d+)"')


@dataclass(frozen=True)
class Counters:
    """A snapshot of the counters; ``window = later - earlier`` is what happened in between.

    ``accepted_per_position[i]`` counts the drafts whose drafted token i (from 0) was accepted.
    """

    num_drafts: int = 0
    num_draft_tokens: int = 0
    num_accepted_tokens: int = 0
    accepted_per_position: tuple[int, ...] = ()

    def __add__(self, other: Counters) -> Counters:
        return self._combined(other, 1)

    def __sub__(self, earlier: Counters) -> Counters:
        return self._combined(earlier, -1)

    def _combined(self, other: Counters, sign: int) -> Counters:
        per_position = zip_longest(self.accepted_per_position, other.accepted_per_position, fillvalue=0)
        return Counters(
            self.num_drafts + sign * other.num_drafts,
            self.num_draft_tokens + sign * other.num_draft_tokens,
            self.num_accepted_tokens + sign * other.num_accepted_tokens,
            tuple(ours + sign * theirs for ours, theirs in per_position),
        )

    @property
    def acceptance_length(self) -> float | None:
        """AL, pooled: 1 + accepted tokens / drafts; counts the target's own token."""
        return 1 + self.num_accepted_tokens / self.num_drafts if self.num_drafts else None

    @property
    def acceptance_rate(self) -> float | None:
        """Accepted tokens / drafted tokens, from 0 to 1."""
        return self.num_accepted_tokens / self.num_draft_tokens if self.num_draft_tokens else None


@dataclass(frozen=True)
class Load:
    """What a server has written since it began, and how many requests it has at the moment."""

    output_tokens: int = 0
    running: int = 0
    waiting: int = 0


def read_load(text: str) -> Load:
    """The load from a server's ``/metrics``, summed over its engines; zeros where it says nothing."""
    totals: Counter[str] = Counter()
    for name, value in _LOAD.findall(text):
        totals[name] += int(float(value))
    return Load(
        totals["generation_tokens_total"], totals["num_requests_running"], totals["num_requests_waiting"]
    )


def read_prometheus(text: str) -> Counters:
    """The counters from a server's ``/metrics``, summed over its engines; zeros where it has none."""
    totals: dict[str, int] = {}
    positions: dict[int, int] = {}
    for name, labels, value in _SAMPLE.findall(text):
        if (found := _POSITION.search(labels)) is not None:
            positions[int(found[1])] = positions.get(int(found[1]), 0) + int(float(value))
        else:
            totals[name] = totals.get(name, 0) + int(float(value))
    return Counters(
        totals.get("drafts", 0),
        totals.get("draft_tokens", 0),
        totals.get("accepted_tokens", 0),
        tuple(positions.get(i, 0) for i in range(max(positions, default=-1) + 1)),
    )
