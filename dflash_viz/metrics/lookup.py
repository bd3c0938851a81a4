"""Where n-gram found the tokens it drafted."""

from __future__ import annotations

from collections.abc import Sequence

from dflash_viz.trace import Header, Step

# A trace of schema 1.1 does not say how many tokens were looked up; vLLM's limits lie within these.
DEFAULT_WINDOW = (1, 10)
MAX_CONTEXT = 100_000
"""Tokens of prompt and answer up to which the earlier text is searched."""


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
        # n-gram -> index of the token after its first occurrence.
        self._first: dict[tuple[int, ...], int] = {}
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
        for n in range(min(self._longest, end), self._shortest - 1, -1):
            at = self._first.get(tuple(self._context[end - n :]), end)
            if at < end and self._context[at : at + len(drafted)] == list(drafted):
                return at, n
        return None

    def _read(self, tokens: Sequence[int]) -> None:
        for token in tokens:
            if len(self._context) >= MAX_CONTEXT:
                return
            self._context.append(token)
            end = len(self._context)
            for n in range(self._shortest, min(self._longest, end) + 1):
                self._first.setdefault(tuple(self._context[end - n :]), end)
