"""Joining what the hooks saw with what the server answered into the steps of one trace.

A step is passed on once the answer has delivered its tokens: until then nobody knows whether a
stop condition cut it. The two streams may arrive in any order.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from itertools import zip_longest

import msgspec

from dflash_viz.hooks.wire import EngineStep, Row, TopK
from dflash_viz.trace import Check, Draw, Last, Position, Step, TokenProb

TokenTexts = Callable[[set[int]], dict[int, str]]


class EngineCounts(msgspec.Struct):
    """vLLM's own per-step counts of a finished request (``--per-request-spec-decode-metrics``)."""

    per_step_accepted: list[int] | None = None
    per_step_drafted: list[int] | None = None


UNCOUNTED = "vLLM reports per-step counts only for answers that ran to their end and drafted"


class Assembler:
    """Collects rows and answer tokens of one request; ``ready`` hands out finished steps."""

    def __init__(self, texts: TokenTexts, known: set[int]) -> None:
        self._texts = texts
        self._known = set(known)
        self._pending: deque[tuple[EngineStep, Row]] = deque()
        self._answer: list[int] = []
        self._finished = False
        self._zero: float | None = None
        self._next_row = 0
        self.steps: list[Step] = []
        self.faults: list[str] = []
        # How many tokens the answer has, as vLLM says at its end; None where it does not.
        self.told: int | None = None

    def add_row(self, record: EngineStep, row: Row) -> None:
        """A row arrived from the hooks."""
        if row.index != self._next_row:
            self.faults.append(f"{row.index - self._next_row} step records of this request were lost")
        self._next_row = row.index + 1
        self._pending.append((record, row))

    def add_tokens(self, tokens: list[int]) -> None:
        """The answer delivered tokens."""
        self._answer.extend(tokens)

    def finish(self) -> None:
        """The answer has ended: what is delivered now is all there will be."""
        self._finished = True

    @property
    def offset(self) -> int:
        """How many answer tokens the steps cover so far."""
        return self.steps[-1].offset + len(self.steps[-1].emitted) if self.steps else 0

    @property
    def complete(self) -> bool:
        """Whether the answer has ended and the steps cover all of it."""
        return self._finished and self.offset >= len(self._answer)

    @property
    def num_output_tokens(self) -> int:
        """How many tokens the answer has delivered."""
        return len(self._answer)

    def ready(self) -> list[Step]:
        """The steps that have become certain since the last call."""
        fresh = []
        while self._pending and self._certain(self._pending[0][1]):
            record, row = self._pending.popleft()
            if (step := self._step(record, row)) is not None:
                self.steps.append(step)
                fresh.append(step)
        return fresh

    def _certain(self, row: Row) -> bool:
        return self._finished or len(self._answer) >= self.offset + len(row.sampled)

    def _step(self, record: EngineStep, row: Row) -> Step | None:
        emitted = row.sampled[: max(0, len(self._answer) - self.offset)]
        if not emitted:  # computed for a request that had already been stopped: never delivered
            return None
        if emitted != self._answer[self.offset : self.offset + len(emitted)]:
            self.faults.append(f"step {len(self.steps)} holds other tokens than the answer")
        if self._zero is None:
            self._zero = record.verify_start
        previous = self.steps[-1].end if self.steps else 0.0
        accepted = len(row.sampled) - 1
        return Step(
            index=len(self.steps),
            start=previous,
            end=record.verify_end - self._zero,
            draft_s=record.draft_end - record.draft_start if row.drafted else 0.0,
            verify_s=record.verify_end - record.verify_start,
            drafted=row.drafted,
            num_accepted=accepted,
            emitted=emitted,
            last=_last(row, emitted),
            prefill=row.prefill,
            offset=self.offset,
            batch_size=record.batch_size,
            padded=bool(row.drafted) and not record.draft_end,
            positions=_positions(row),
            tokens=self._new_texts(row_tokens(row, emitted)),
        )

    def _new_texts(self, tokens: set[int]) -> dict[int, str]:
        fresh = tokens - self._known
        self._known |= fresh
        return self._texts(fresh)

    def check(
        self, counts: EngineCounts | None, expect_counts: bool, why_uncounted: str = UNCOUNTED
    ) -> Check:
        """Compare the steps with the answer and with vLLM's own counts; ``why_uncounted`` is why there may
        be none."""
        if wrong := self._wrong():
            return Check(False, wrong)
        drafting = [s for s in self.steps if s.drafted]
        if counts is None or not counts.per_step_drafted:
            if drafting and expect_counts:
                return Check(False, f"{len(drafting)} steps were recorded, but vLLM reports none")
            told = f"the tokens of the steps are those of the answer ({len(self._answer)})"
            return Check(None, f"{told}; {why_uncounted}")
        ours = [(s.num_accepted, s.num_drafted) for s in drafting]
        theirs = list(zip(counts.per_step_accepted or [], counts.per_step_drafted, strict=True))
        if ours != theirs:
            return Check(False, _difference(ours, theirs))
        return Check(True, f"{len(ours)} of {len(ours)} steps, accepted and drafted tokens alike")

    def _wrong(self) -> str:
        """What is wrong with the steps, or with the answer itself."""
        came = len(self._answer)
        if self.faults:
            return "; ".join(self.faults)
        if self.told is not None and self.told != came:
            return f"the answer's pieces hold {came} tokens, vLLM says {self.told}"
        return "" if self.offset == came else f"the steps hold {self.offset} tokens, the answer {came}"


def _difference(ours: list[tuple[int, int]], theirs: list[tuple[int, int]]) -> str:
    for i, (mine, other) in enumerate(zip(ours, theirs, strict=False)):
        if mine != other:
            return (
                f"step {i}: recorded {mine[0]} of {mine[1]} accepted, vLLM counted {other[0]} of {other[1]}"
            )
    return f"{len(ours)} steps were recorded, vLLM counted {len(theirs)}"


def _last(row: Row, emitted: list[int]) -> Last | None:
    if len(emitted) < len(row.sampled):
        return None
    if not row.drafted:
        return "plain"
    return "bonus" if len(row.sampled) > len(row.drafted) else "recovered"


def _positions(row: Row) -> list[Position]:
    if row.target_top is None:
        return []
    drafter = _pairs(row.drafter_top)
    theirs = row.drafter_top.p_drafted if row.drafter_top is not None else []
    draws = [Draw(draw.p, draw.q, draw.u) for draw in row.draws]
    # The last position was not drafted, and a lookup has no probabilities.
    columns = zip_longest(_pairs(row.target_top), drafter, row.target_top.p_drafted, theirs, draws)
    return [Position(top, top_drafter or [], p, q, draw) for top, top_drafter, p, q, draw in columns]


def _pairs(top: TopK | None) -> list[list[TokenProb]]:
    if top is None:
        return []
    return [
        [TokenProb(i, p) for i, p in zip(ids, ps, strict=True)]
        for ids, ps in zip(top.ids, top.p, strict=True)
    ]


def row_tokens(row: Row, emitted: list[int] | None = None) -> set[int]:
    """The tokens that a row mentions; ``emitted`` are those of ``sampled`` that were delivered."""
    return {*row.drafted, *(row.sampled if emitted is None else emitted), *_top_ids(row)}


def _top_ids(row: Row) -> set[int]:
    tops = (row.target_top, row.drafter_top)
    return {token for top in tops if top is not None for ids in top.ids for token in ids}
