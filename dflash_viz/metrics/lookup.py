"""Where n-gram found the tokens it drafted."""

from __future__ import annotations

from collections.abc import Sequence

from dflash_viz.trace import Header, Step

# A trace of schema 1.1 does not say how many tokens were looked up; vLLM's limits lie within these.
DEFAULT_WINDOW = (1, 10)
MAX_CONTEXT = 100_000
"""Tokens of prompt and answer up to which the earlier text is searched."""
MAX_PLACES = 1_000
"""Places that are looked at for one block, the earliest first: text that repeats itself has thousands."""


class CopyFinder:
    """Finds the earlier text that each block of one n-gram lane was copied from.

    As vLLM does (``v1/spec_decode/ngram_proposer.py``): the longest n-gram that ends the context and
    occurs before, at its earliest place. ``feed`` takes the steps in order.
    """

    def __init__(self, header: Header) -> None:
        told = header.fingerprint
        self._shortest = told.prompt_lookup_min or DEFAULT_WINDOW[0]
        self._longest = told.prompt_lookup_max or DEFAULT_WINDOW[1]
        self._context: list[int] = []
        # The shortest n-gram that may match -> the indices behind its occurrences, the earliest first.
        self._places: dict[tuple[int, ...], list[int]] = {}
        self._read(header.prompt_token_ids)

    def feed(self, step: Step) -> tuple[int, int] | None:
        """Where the step's drafted tokens were copied from, then read what it emitted.

        Returns the index of the first copied token in prompt + answer, and how many tokens before
        it equal those before the block. None when there was no draft or no such place.
        """
        found = self._find(step.drafted) if step.drafted and not step.padded else None
        self._read(step.emitted)
        return found

    def _find(self, drafted: Sequence[int]) -> tuple[int, int] | None:
        end = len(self._context)
        best, n = end, 0
        for at in self._places.get(tuple(self._context[-self._shortest :]), ())[:MAX_PLACES]:
            if at < end and (matched := self._matched(at)) > n:
                best, n = at, matched
        return (best, n) if n and self._context[best : best + len(drafted)] == list(drafted) else None

    def _matched(self, at: int) -> int:
        """How many tokens before ``at`` equal those at the end, as far as vLLM looks."""
        end, n = len(self._context), self._shortest
        while n < min(self._longest, at) and self._context[at - n - 1] == self._context[end - n - 1]:
            n += 1
        return n

    def _read(self, tokens: Sequence[int]) -> None:
        for token in tokens:
            if len(self._context) >= MAX_CONTEXT:
                return
            self._context.append(token)
            if len(self._context) >= self._shortest:
                last = tuple(self._context[-self._shortest :])
                self._places.setdefault(last, []).append(len(self._context))
