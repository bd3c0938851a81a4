"""Traces for other tools: tables (pandas, CSV, Parquet) and the Chrome trace-event format (Perfetto)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pandas as pd

from dflash_viz.trace import Header, Position, Step, Trace

_UNKNOWN = "\ufffd".encode()
# A spreadsheet runs a cell that begins like this as a formula; the wide forms are those of CJK keyboards.
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")
_LISTS = {
    "emitted": "int64",
    "drafted": "int64",
    "p_target_drafted": "float64",
    "p_drafter_drafted": "float64",
}
_TYPES = {
    "trace_id": "str", "lane": "str", "method": "str", "K": "int64", "index": "int64", "start": "float64",
    "end": "float64", "draft_s": "float64", "verify_s": "float64", "num_drafted": "int64",
    "num_accepted": "int64", "acceptance_length": "Int64", "last": "str", "prefill": "bool",
    "padded": "bool", "batch_size": "int64", "offset": "int64", "text": "str",
    **dict.fromkeys(_LISTS, "object"),
}  # fmt: skip
_POSITION_TYPES = {
    "trace_id": "str", "lane": "str", "index": "int64", "position": "int64", "drafted": "int64",
    "text": "str", "accepted": "bool", "reached": "bool", "p_target_drafted": "float64",
    "p_drafter_drafted": "float64", "target_best": "Int64", "p_target_best": "float64",
    "draw_p": "float64", "draw_q": "float64", "draw_u": "float64",
}  # fmt: skip


def to_frame(traces: Sequence[Trace]) -> pd.DataFrame:
    """One row per step, prefill included; times in seconds on the lane's own clock.

    ``acceptance_length`` is missing where nothing was drafted. ``emitted`` and ``drafted`` are lists of
    token ids, ``text`` is what was emitted (bytes that are no UTF-8 on their own become U+FFFD), the
    ``p_`` columns are lists with an entry per drafted token, empty where none were recorded.
    """
    rows = [row for trace in traces for row in _step_rows(trace)]
    return pd.DataFrame(rows, columns=list(_TYPES)).astype(_TYPES)


def to_positions_frame(traces: Sequence[Trace]) -> pd.DataFrame:
    """One row per drafted token, ``position`` counted from 0 in its block.

    ``reached``: every token before it was accepted, so that verification decided about it. ``p_``
    columns are at temperature 1, the ``draw_`` columns after temperature and top-p; all are missing
    where they were not recorded.
    """
    rows = [row for trace in traces for row in _position_rows(trace)]
    return pd.DataFrame(rows, columns=list(_POSITION_TYPES)).astype(_POSITION_TYPES)


def write_csv(traces: Sequence[Trace], path: Path) -> None:
    """Write ``to_frame`` as CSV: lists as JSON. Text that a spreadsheet would run as a formula gets an
    apostrophe in front. Raises ``OSError``."""
    frame = to_frame(traces)
    for column in _LISTS:
        frame[column] = frame[column].map(json.dumps)
    for column in ("trace_id", "lane", "method", "text"):
        frame[column] = frame[column].map(inert)
    frame.to_csv(path, index=False)


def write_parquet(traces: Sequence[Trace], path: Path) -> None:
    """Write ``to_frame`` as Parquet. Raises ``OSError``."""
    import pyarrow as pa

    frame = to_frame(traces)
    schema = pa.Schema.from_pandas(frame, preserve_index=False)
    for column, kind in _LISTS.items():  # whether or not any list holds something
        field = pa.field(column, pa.list_(pa.type_for_alias(kind)))
        schema = schema.set(schema.get_field_index(column), field)
    frame.to_parquet(path, index=False, engine="pyarrow", schema=schema)


def write_chrome(traces: Sequence[Trace], path: Path) -> None:
    """Write one run in the Chrome trace-event format: a thread a lane, each on its own clock.

    A step holds its drafting and its verifying; the AL of each step that drafted is a counter. Raises
    ``OSError``.
    """
    events = [_name("process_name", 0, "DFlash Viz: every lane on its own clock")]
    for thread, trace in enumerate(traces, start=1):
        events += _lane_events(trace, thread)
    made = {"traceEvents": events, "displayTimeUnit": "ms", "otherData": _about(traces)}
    path.write_bytes(msgspec.json.encode(made))


def _step_rows(trace: Trace) -> Iterator[list[Any]]:
    header, texts = trace.header, trace.token_bytes
    method, k = header.fingerprint.method, header.fingerprint.num_speculative_tokens
    for step in trace.steps:
        made_by = step.positions[: step.num_drafted]
        yield [
            header.trace_id, header.lane, method, k, step.index, step.start, step.end, step.draft_s,
            step.verify_s, step.num_drafted, step.num_accepted, _length(step), step.last, step.prefill,
            step.padded, step.batch_size, step.offset, _text(step.emitted, texts), step.emitted,
            step.drafted, _known([p.p_target_drafted for p in made_by]),
            _known([p.p_drafter_drafted for p in made_by]),
        ]  # fmt: skip


def _position_rows(trace: Trace) -> Iterator[list[Any]]:
    header, texts = trace.header, trace.token_bytes
    for step in trace.steps:
        for i, token in enumerate(step.drafted):
            said = step.positions[i] if i < len(step.positions) else Position()
            best = said.target[0] if said.target else None
            draw = (said.draw.p, said.draw.q, said.draw.u) if said.draw is not None else (None,) * 3
            yield [
                header.trace_id, header.lane, step.index, i, token, _text([token], texts),
                i < step.num_accepted, i <= step.num_accepted, said.p_target_drafted,
                said.p_drafter_drafted, best and best.id, best and best.p, *draw,
            ]  # fmt: skip


def _known(values: list[float | None]) -> list[float | None]:
    return [] if all(value is None for value in values) else values


def _length(step: Step) -> int | None:
    return step.num_accepted + 1 if step.drafted else None


def _text(tokens: Sequence[int], texts: Mapping[int, bytes]) -> str:
    return b"".join(texts.get(token, _UNKNOWN) for token in tokens).decode("utf-8", "replace")


def inert(text: str) -> str:
    """The text as a spreadsheet's cell that runs nothing: with an apostrophe in front where it might."""
    return f"'{text}" if text.startswith(_FORMULA) else text


def _name(what: str, thread: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "name": what, "pid": 1, "tid": thread, "args": {"name": name}}


def _lane_events(trace: Trace, thread: int) -> Iterator[dict[str, Any]]:
    texts, lane = trace.token_bytes, trace.header.lane
    yield _name("thread_name", thread, lane)
    yield {**_name("thread_sort_index", thread, ""), "args": {"sort_index": thread}}
    for step in trace.steps:
        start, end = _ns(step.start), _ns(step.end)
        # Slices of a thread must lie within each other: what a file claims is cut to its step.
        drafted = min(start + _ns(step.draft_s), end)
        verify = max(end - _ns(step.verify_s), drafted)
        yield _slice(_title(step), thread, start, end, _arguments(step, texts))
        if drafted > start:
            yield _slice("draft", thread, start, drafted, {"drafted": step.num_drafted})
        yield _slice("verify", thread, verify, end, {"accepted": step.num_accepted})
        if step.drafted:
            counted = {"name": f"AL {lane}", "pid": 1, "tid": thread, "args": {"AL": step.num_accepted + 1}}
            yield {"ph": "C", "ts": end / 1000, **counted}


def _slice(name: str, thread: int, start: int, end: int, args: dict[str, Any]) -> dict[str, Any]:
    times = {"ts": start / 1000, "dur": (end - start) / 1000}
    return {"ph": "X", "name": name, "cat": "step", "pid": 1, "tid": thread, **times, "args": args}


def _title(step: Step) -> str:
    return "prompt" if step.prefill else f"step {step.index}"


def _arguments(step: Step, texts: Mapping[int, bytes]) -> dict[str, Any]:
    return {
        "emitted": _text(step.emitted, texts),
        "drafted": _text(step.drafted, texts),
        "accepted": step.num_accepted,
        "last": step.last or "cut",
        "offset": step.offset,
    }


def _ns(seconds: float) -> int:
    return round(seconds * 1e9)


def _about(traces: Sequence[Trace]) -> dict[str, Any]:
    return {str(thread): _identity(trace.header) for thread, trace in enumerate(traces, start=1)}


def _identity(header: Header) -> dict[str, Any]:
    what = {"trace_id": header.trace_id, "lane": header.lane, "recorded_at": header.recorded_at}
    return {**what, "fingerprint": header.fingerprint}


FILES: dict[str, tuple[str, Callable[[Sequence[Trace], Path], None]]] = {
    "csv": ("steps.csv", write_csv),
    "parquet": ("steps.parquet", write_parquet),
    "chrome": ("run.trace.json", write_chrome),
}
"""By format: the file's name, and what writes it."""
