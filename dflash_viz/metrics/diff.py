"""Two traces of one prompt, aligned by the tokens of the answer.

The answer is cut where both traces end a step: between two such places lies a span, in which both
wrote the same tokens, each with its own steps. A span can be long (two block methods seldom break at
the same token) or a single step (against a lane without speculation every break is common).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

import msgspec

from dflash_viz.metrics.lossless import Difference, first_difference
from dflash_viz.metrics.pool import alone
from dflash_viz.trace import Step, Trace
from dflash_viz.trace.counters import Counters

ABSENT = "–"
"""The value of a field that a run did not record or does not have."""


class DiffError(ValueError):
    """Two traces cannot be compared token by token; the message says why."""


@dataclass(frozen=True)
class Side:
    """What one trace needed for a span: its steps from index ``first`` on, their pooled AL (None where
    nothing was drafted), and the seconds from the end of the step before them to the end of the last."""

    first: int
    steps: int
    al: float | None
    seconds: float


@dataclass(frozen=True)
class Span:
    """Answer tokens ``start`` to ``end`` (exclusive), between two places where both traces end a step.

    ``same_steps``: both drafted and accepted exactly the same there.
    """

    start: int
    end: int
    a: Side
    b: Side
    same_steps: bool

    @property
    def tokens(self) -> int:
        """Answer tokens in the span."""
        return self.end - self.start

    @property
    def won(self) -> float:
        """Seconds that B won against A; negative: lost."""
        return self.a.seconds - self.b.seconds


@dataclass(frozen=True)
class FieldDifference:
    """One thing that was not the same in both runs: where it stands in the header, and both values."""

    path: str
    a: str
    b: str


@dataclass(frozen=True)
class TraceDiff:
    """What two traces of one prompt have in common, and what not.

    ``total`` is all spans as one; None when there is no span. ``parting`` is where the texts part.
    ``rest_a`` and ``rest_b`` count the answer tokens after the last span, which nothing compares;
    ``prompt_a`` and ``prompt_b`` are the seconds before the first. ``incomparable_times`` says why
    the seconds mean nothing, if they do not.
    """

    spans: tuple[Span, ...]
    total: Span | None
    parting: Difference | None
    rest_a: int
    rest_b: int
    prompt_a: float
    prompt_b: float
    incomparable_times: tuple[str, ...]
    fields: tuple[FieldDifference, ...]


def diff(a: Trace, b: Trace) -> TraceDiff:
    """Compare two traces of one prompt, as far as their texts agree.

    Raises ``DiffError`` when the prompts' tokens differ, or one was recorded without steps.
    """
    if a.header.counts_only or b.header.counts_only:
        raise DiffError("A trace with counts only has no steps to compare.")
    _require_one_prompt(a, b)
    parting = first_difference(a, b)
    ends_a, ends_b = _ends(a.steps), _ends(b.steps)
    agreed = parting.at if parting else min(ends_a[-1:] + ends_b[-1:], default=0)
    # The first is the end of the step that read the prompt, whose time is another matter than decoding's.
    cuts = sorted(cut for cut in set(ends_a) & set(ends_b) if cut <= agreed)

    def span(start: int, end: int) -> Span:
        ours, theirs = _between(ends_a, start, end), _between(ends_b, start, end)
        same = _blocks(a.steps[ours]) == _blocks(b.steps[theirs])
        return Span(start, end, _side(a.steps, ours), _side(b.steps, theirs), same)

    last, first = (cuts[-1], cuts[0]) if cuts else (0, 0)
    return TraceDiff(
        spans=tuple(span(start, end) for start, end in pairwise(cuts)),
        total=span(first, last) if len(cuts) > 1 else None,
        parting=parting,
        rest_a=(ends_a[-1] if ends_a else 0) - last,
        rest_b=(ends_b[-1] if ends_b else 0) - last,
        prompt_a=_seconds_before(a.steps, bisect_right(ends_a, first)),
        prompt_b=_seconds_before(b.steps, bisect_right(ends_b, first)),
        incomparable_times=tuple(_incomparable(a, b)),
        fields=tuple(field_differences(a, b)),
    )


def field_differences(a: Trace, b: Trace) -> Iterator[FieldDifference]:
    """Every field of fingerprint, sampling and circumstances whose values differ, by path."""
    ours, theirs = dict(_fields(a)), dict(_fields(b))
    for path in dict.fromkeys([*ours, *theirs]):
        left, right = ours.get(path, ABSENT), theirs.get(path, ABSENT)
        if left != right:
            yield FieldDifference(path, left, right)


def _require_one_prompt(a: Trace, b: Trace) -> None:
    ours, theirs = a.header.prompt_token_ids, b.header.prompt_token_ids
    if ours == theirs:
        return
    at = next((i for i, (x, y) in enumerate(zip(ours, theirs, strict=False)) if x != y), None)
    where = f"they part at prompt token {at}" if at is not None else "one goes on where the other ends"
    raise DiffError(
        f"These traces answer different prompts ({len(ours)} and {len(theirs)} tokens; {where}): only "
        "answers to one and the same prompt align. The chat before a question, the system prompt and the "
        "chat template are part of it."
    )


def _ends(steps: Sequence[Step]) -> list[int]:
    """How many answer tokens there are after each step."""
    return list(accumulate(len(step.emitted) for step in steps))


def _between(ends: Sequence[int], start: int, end: int) -> slice:
    """The steps that wrote the answer tokens from ``start`` to ``end``."""
    return slice(bisect_right(ends, start), bisect_right(ends, end))


def _side(steps: Sequence[Step], part: slice) -> Side:
    inside = steps[part]
    seconds = _seconds_before(steps, part.stop) - _seconds_before(steps, part.start)
    accepted = [step.num_accepted for step in inside if step.drafted]
    counters = Counters(num_drafts=len(accepted), num_accepted_tokens=sum(accepted))
    return Side(part.start, len(inside), counters.acceptance_length, seconds)


def _seconds_before(steps: Sequence[Step], index: int) -> float:
    """Seconds from the trace's beginning to the end of the step before ``index``: whatever lies between
    two steps belongs to the later one, so that the spans' seconds add up to the total's."""
    return steps[index - 1].end if index else 0.0


def _blocks(steps: Sequence[Step]) -> list[tuple[list[int], int]]:
    return [(step.drafted, step.num_accepted) for step in steps if step.emitted]


def _incomparable(a: Trace, b: Trace) -> Iterator[str]:
    for name, trace in (("A", a), ("B", b)):
        if trace.header.contended_with:
            others = ", ".join(trace.header.contended_with)
            yield f"{name} ran at the same time as {others} on one machine."
        elif not alone(trace):
            yield f"{name} shared engine steps with other requests."
    devices = a.header.fingerprint.device, b.header.fingerprint.device
    if devices[0] != devices[1]:
        yield f"A ran on {devices[0] or 'an unknown device'}, B on {devices[1] or 'an unknown device'}."


def _fields(trace: Trace) -> Iterator[tuple[str, str]]:
    header = trace.header
    yield from leaves("", header.fingerprint)
    yield from leaves("sampling", header.sampling)
    yield "contended_with", _text(header.contended_with)
    cached = trace.end.num_cached_prompt_tokens if trace.end else None
    yield "num_cached_prompt_tokens", _text(cached)


def leaves(path: str, value: object) -> Iterator[tuple[str, str]]:
    """The values inside of structures and mappings, as text, each with its dotted path."""
    if isinstance(value, msgspec.Struct):
        value = {name: getattr(value, name) for name in value.__struct_fields__}
    if isinstance(value, Mapping):
        for name, inner in value.items():
            yield from leaves(f"{path}.{name}".lstrip("."), inner)
    else:
        yield path, _text(value)


def _text(value: object) -> str:
    if value is None:
        return ABSENT
    if isinstance(value, list | tuple):
        return ", ".join(map(_text, value)) or "none"
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)
