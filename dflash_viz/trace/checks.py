"""What a trace may say: everything behind the reader relies on it and checks nothing again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from dflash_viz.trace.model import End, Header, Position, Step, TokenProb, Window

MAX_DRAFTED = 1024
_MAX_ID = 2**31
_MAX_SECONDS = 1e9  # sums and powers of such times stay finite
_MAX_P = 1.001  # a softmax in float32 may add up to a little more than 1
_MAX_INT = 2**63


class StepChecks:
    """Checks the steps of one trace in their order."""

    def __init__(self, header: Header) -> None:
        self._counts_only = bool(header.counts_only)
        self._clock = 0.0
        self._offset = 0
        self._texts = dict(header.tokens)

    def fault(self, step: Step) -> str:
        """What is wrong with the next step, in a few words; nothing when it can be relied on."""
        if self._counts_only:
            return "its header says that no steps were recorded"
        clock, self._clock = self._clock, step.end
        offset, self._offset = self._offset, self._offset + len(step.emitted)
        if not clock <= step.start <= step.end <= _MAX_SECONDS:
            return "its times go backwards, or on for decades"
        if not (0 <= step.draft_s <= _MAX_SECONDS and 0 <= step.verify_s <= _MAX_SECONDS):
            return "a time is negative, or decades long"
        if step.offset != offset:
            return f"{offset} tokens came before it"
        return (
            _tokens(step)
            or (self._new_texts(step.tokens) if step.tokens else "")
            or (_probabilities(step) if step.positions else "")
        )

    def _new_texts(self, tokens: Mapping[int, str]) -> str:
        for token, text in tokens.items():
            if self._texts.setdefault(token, text) != text:
                return f"token {token} has two texts"
        return _texts_fault(tokens)


def header_fault(header: Header) -> str:
    """What is wrong with a header, in a few words."""
    if not 0 <= header.fingerprint.num_speculative_tokens <= MAX_DRAFTED:
        return f"K is not between 0 and {MAX_DRAFTED}"
    looked_up = [header.fingerprint.prompt_lookup_min or 0, header.fingerprint.prompt_lookup_max or 0]
    if not 0 <= min(looked_up) <= max(looked_up) <= MAX_DRAFTED:
        return f"n-gram's window is not between 0 and {MAX_DRAFTED}"
    if header.prompt_token_ids and _out_of_range(header.prompt_token_ids):
        return "a token id of the prompt is out of range"
    return _texts_fault(header.tokens) or _numbers_fault(header)


def end_fault(end: End) -> str:
    """What is wrong with an end, in a few words."""
    counts = (end.num_output_tokens, *end.engine_accepted, *end.engine_drafted)
    if min(counts) < 0:
        return "a count is negative"
    return (_window_fault(end.window) if end.window is not None else "") or _numbers_fault(end)


def _window_fault(window: Window) -> str:
    counts = [
        window.decode_tokens,
        window.num_others,
        *window.accepted_per_position,
        window.output_tokens or 0,
        *(window.num_drafts or 0, window.num_draft_tokens or 0, window.num_accepted or 0),
    ]
    if min(counts) < 0:
        return "a count is negative"
    if len(window.accepted_per_position) > MAX_DRAFTED:
        return f"it counts more than {MAX_DRAFTED} positions"
    known = 0 <= window.first_token_s <= _MAX_SECONDS and 0 <= window.decode_s <= _MAX_SECONDS
    return "" if known else "a time is negative, or decades long"


def _tokens(step: Step) -> str:
    drafted, emitted, accepted = step.drafted, step.emitted, step.num_accepted
    k, n = len(drafted), len(emitted)
    if not 0 <= accepted <= k <= MAX_DRAFTED:
        return f"{accepted} of {k} drafted tokens accepted, of at most {MAX_DRAFTED}"
    if not 1 <= n <= accepted + 1:
        return f"{accepted} tokens accepted, {n} emitted"
    if accepted and emitted[:accepted] != drafted[: accepted if accepted < n else n]:
        return "the emitted tokens do not begin with the accepted ones"
    own = "plain" if not k else "bonus" if accepted == k else "recovered"
    if step.last != (own if n > accepted else None):
        return f"its last token cannot be {step.last or 'cut off'}"
    if (step.prefill and (k or step.index)) or (step.padded and not k) or not 1 <= step.batch_size < _MAX_ID:
        return "its marks or its batch size cannot be"
    # What comes before the last emitted token has been drafted.
    strange = not 0 <= emitted[-1] < _MAX_ID or (k and _out_of_range(drafted))
    return "a token id is out of range" if strange else ""


def _out_of_range(ids: list[int]) -> bool:
    return min(ids) < 0 or max(ids) >= _MAX_ID


def _texts_fault(tokens: Mapping[int, str]) -> str:
    for token, text in tokens.items():
        if not 0 <= token < _MAX_ID:
            return "a token id is out of range"
        if not text.isascii() and max(text) > "\xff":
            return f"the text of token {token} is not bytes written as latin-1"
    return ""


def _probabilities(step: Step) -> str:
    # Readers look positions up by the place of an emitted token.
    if not len(step.emitted) <= len(step.positions) <= len(step.drafted) + 1:
        return f"{len(step.positions)} positions hold probabilities, of {len(step.drafted)} + 1"
    return "" if all(map(_possible, step.positions)) else "a probability is impossible"


def _possible(position: Position) -> bool:
    draw = position.draw
    said = (
        position.p_target_drafted,
        position.p_drafter_drafted,
        *((draw.p, draw.q, draw.u) if draw else ()),
    )
    return (
        _are_possible(position.target)
        and _are_possible(position.drafter)
        and all(p is None or 0 <= p <= _MAX_P for p in said)
    )


def _are_possible(tokens: Iterable[TokenProb]) -> bool:
    return all(0 <= token.id < _MAX_ID and 0 <= token.p <= _MAX_P for token in tokens)


def _numbers_fault(line: Header | End) -> str:
    """JSON writes whole numbers of any length; nothing else can hold more than 64 bits."""
    return "a number is out of range" if _holds_huge(msgspec.to_builtins(line, str_keys=True)) else ""


def _holds_huge(value: Any) -> bool:
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        return any(map(_holds_huge, value))
    return isinstance(value, int) and not -_MAX_INT <= value < _MAX_INT
