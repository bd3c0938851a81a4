"""What a rule looks at, what it finds, and the measures that rules share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from dflash_viz.metrics.pool import drafters_blocks
from dflash_viz.metrics.stats import wilson
from dflash_viz.metrics.tally import Tally
from dflash_viz.trace import Fingerprint, Step, Trace
from dflash_viz.trace.counters import Counters

MIN_BLOCKS = 20
"""Blocks before acceptance is judged. With fewer a share says too little: at 20 it is known to ± 0.2."""
LOOKUP_METHODS = ("ngram", "ngram_gpu", "suffix")
"""Methods that copy earlier text: a low acceptance is the text's, nothing is wired wrongly."""
MIN_WORDS = 16
"""Answer tokens before a text is called good: fewer have had no chance to repeat."""
GOOD_DISTINCT = 0.5
"""Ordinary text seldom repeats three tokens (share of distinct ones over 0.9), a loop nearly always."""
MAX_UNPRINTABLE = 0.05
"""Share of characters that are no text: control characters and bytes that form none."""


@dataclass(frozen=True)
class Finding:
    """What a rule found: in plain words, with the numbers that show it and what to do about it."""

    rule: str
    title: str
    meaning: str
    evidence: tuple[str, ...]
    action: str


@dataclass(frozen=True)
class Share:
    """``hits`` of ``n``, with Wilson's 95 % interval."""

    hits: int
    n: int

    @property
    def value(self) -> float:
        """The share itself; 0 while nothing was counted."""
        return self.hits / self.n if self.n else 0.0

    @property
    def low(self) -> float:
        """The lower end of the interval."""
        return wilson(self.hits, self.n)[0]

    @property
    def high(self) -> float:
        """The upper end of the interval."""
        return wilson(self.hits, self.n)[1]

    def __str__(self) -> str:
        return f"{self.hits} of {self.n} ({self.value:.0%}, 95 % interval {self.low:.0%} to {self.high:.0%})"


@dataclass(frozen=True)
class Case:
    """The traces of one lane, and traces without speculation to compare them with."""

    traces: tuple[Trace, ...]
    plain: tuple[Trace, ...] = ()

    @cached_property
    def blocks(self) -> list[Step]:
        """The steps whose block the drafter made."""
        return drafters_blocks(self.traces)

    @cached_property
    def tally(self) -> Tally:
        """What the blocks add up to."""
        return Tally.of(self.blocks)

    @property
    def counters(self) -> Counters:
        """What the blocks count up to."""
        return self.tally.counters

    @property
    def engine(self) -> Fingerprint:
        """What the traces ran on."""
        return self.traces[0].header.fingerprint

    @property
    def looks_up(self) -> bool:
        """Whether the lane drafts by copying earlier text."""
        return self.engine.method in LOOKUP_METHODS

    @cached_property
    def positions(self) -> list[Share]:
        """Per drafted position: accepted of those that verification reached."""
        pairs = zip(self.counters.accepted_per_position, self.tally.reached_per_position, strict=True)
        return [Share(hits, n) for hits, n in pairs]

    @property
    def after_first(self) -> Share:
        """All positions after the first taken together: accepted of those reached."""
        rest = self.positions[1:]
        return Share(sum(one.hits for one in rest), sum(one.n for one in rest))

    @property
    def al_sentence(self) -> str:
        """The AL with its K and rate, which mean little without each other."""
        rate = self.counters.acceptance_rate or 0.0
        return (
            f"AL {self.counters.acceptance_length or 1:.2f} (pooled) over {len(self.blocks)} blocks, K = "
            f"{self.engine.num_speculative_tokens}, acceptance rate {rate:.0%}."
        )


def distinct_share(tokens: Sequence[int], size: int) -> float:
    """Distinct runs of ``size`` tokens / all of them: 1 when nothing repeats, near 0 in a loop."""
    runs = [tuple(tokens[i : i + size]) for i in range(len(tokens) - size + 1)]
    return len(set(runs)) / len(runs) if runs else 1.0


def good_text(trace: Trace) -> bool:
    """Whether the answer looks like text, as far as counting tells: it ended by itself or at its limit,
    hardly repeats itself, and is printable. What it says is not judged."""
    tokens, text = trace.output_token_ids, trace.end.text if trace.end else ""
    if trace.end is None or trace.end.finish_reason not in ("stop", "length") or len(tokens) < MIN_WORDS:
        return False
    return distinct_share(tokens, 3) >= GOOD_DISTINCT and unprintable_share(text) <= MAX_UNPRINTABLE


def unprintable_share(text: str) -> float:
    """Characters that are neither printable nor white space, replacement characters among them / all."""
    odd = sum(not (c.isprintable() or c.isspace()) or c == "\N{REPLACEMENT CHARACTER}" for c in text)
    return odd / len(text) if text else 1.0
