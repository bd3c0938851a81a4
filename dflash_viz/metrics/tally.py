"""The sums behind the figures of one lane: whatever a figure divides, added up over steps.

Tallies add: ``Tally.of(a) + Tally.of(b) == Tally.of([*a, *b])`` up to rounding, so that running
figures cost no more for the last step than for the first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import zip_longest

from dflash_viz.metrics.counters import count_blocks, decoding, drafting, exceeding
from dflash_viz.trace import Step
from dflash_viz.trace.counters import Counters

WINDOW = 16
"""Steps in the window of the windowed AL."""


@dataclass(frozen=True)
class Tally:
    """Sums over a lane's steps in order; times in seconds, prefill left out but in ``num_all``.

    Per position of the block: how many steps drafted it, and of them how many had everything before
    it accepted. ``lengths[i]`` counts the drafting steps that accepted i tokens; ``num_made`` those
    whose block a drafter made. ``begin`` and ``end`` span the steps after prefill; ``recent`` are
    the last ``WINDOW`` steps.
    """

    counters: Counters = field(default_factory=Counters)
    num_all: int = 0
    num_steps: int = 0
    num_tokens: int = 0
    num_made: int = 0
    made_draft_s: float = 0.0
    draft_s: float = 0.0
    verify_s: float = 0.0
    whole_s: float = 0.0
    begin: float | None = None
    end: float | None = None
    drafted_per_position: tuple[int, ...] = ()
    reached_per_position: tuple[int, ...] = ()
    lengths: tuple[int, ...] = ()
    recent: tuple[Step, ...] = ()

    @staticmethod
    def of(steps: Sequence[Step]) -> Tally:
        """The tally of some steps."""
        after, drafts = decoding(steps), drafting(steps)
        made = [step for step in drafts if not step.padded]
        drafted = [len(step.drafted) for step in drafts]
        accepted = [step.num_accepted for step in drafts]
        lengths, longest = Counter(accepted), max(drafted, default=-1)
        # Accepted up to position i but not drafted beyond it: those blocks ended there, all accepted.
        full = Counter(d for d, a in zip(drafted, accepted, strict=True) if a == d)
        reached = [len(drafts), *exceeding(accepted, longest)]
        return Tally(
            counters=count_blocks(drafted, accepted),
            num_all=len(steps),
            num_steps=len(after),
            num_tokens=sum([len(step.emitted) for step in after]),
            num_made=len(made),
            made_draft_s=sum([step.draft_s for step in made]),
            draft_s=sum([step.draft_s for step in after]),
            verify_s=sum([step.verify_s for step in after]),
            whole_s=sum([step.end - step.start for step in after]),
            begin=after[0].start if after else None,
            end=after[-1].end if after else None,
            drafted_per_position=exceeding(drafted, longest),
            reached_per_position=tuple(reached[i] - full[i] for i in range(longest)),
            lengths=tuple(lengths[i] for i in range(longest + 1)),
            recent=tuple(steps[-WINDOW:]),
        )

    def __add__(self, later: Tally) -> Tally:
        return Tally(
            counters=self.counters + later.counters,
            num_all=self.num_all + later.num_all,
            num_steps=self.num_steps + later.num_steps,
            num_tokens=self.num_tokens + later.num_tokens,
            num_made=self.num_made + later.num_made,
            made_draft_s=self.made_draft_s + later.made_draft_s,
            draft_s=self.draft_s + later.draft_s,
            verify_s=self.verify_s + later.verify_s,
            whole_s=self.whole_s + later.whole_s,
            begin=later.begin if self.begin is None else self.begin,
            end=self.end if later.end is None else later.end,
            drafted_per_position=_sums(self.drafted_per_position, later.drafted_per_position),
            reached_per_position=_sums(self.reached_per_position, later.reached_per_position),
            lengths=_sums(self.lengths, later.lengths),
            recent=(self.recent + later.recent)[-WINDOW:],
        )


Steps = Sequence[Step] | Tally
"""What a figure is computed from: a lane's steps in order, prefill included, or their tally."""


def tally(steps: Steps) -> Tally:
    """The tally of steps, or the one that was given."""
    return steps if isinstance(steps, Tally) else Tally.of(steps)


def _sums(one: tuple[int, ...], other: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(a + b for a, b in zip_longest(one, other, fillvalue=0))
