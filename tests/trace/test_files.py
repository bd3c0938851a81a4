"""Trace files: the round trip, and every way a file can be wrong."""

from __future__ import annotations

import contextlib
import gzip
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dflash_viz.trace import (
    Trace,
    TraceError,
    TraceWriter,
    decode_trace,
    encode_line,
    read_trace,
    reader,
    write_trace,
)


@pytest.mark.parametrize("name", ["t.jsonl", "t.jsonl.gz"])
def test_round_trip(trace: Trace, tmp_path: Path, name: str) -> None:
    write_trace(trace, tmp_path / name)
    assert read_trace(tmp_path / name) == trace


def test_steps_are_on_disk_before_the_end(trace: Trace, tmp_path: Path) -> None:
    with TraceWriter(tmp_path / "t.jsonl") as writer:
        for line in trace.lines()[:3]:
            writer.write(line)
        kept = read_trace(tmp_path / "t.jsonl")
    assert kept.steps == trace.steps[:2]
    assert "cut short" in kept.notices[0]


def test_damaged_tail_keeps_the_good_steps(trace: Trace, tmp_path: Path) -> None:
    lines = [encode_line(line) for line in trace.lines()]
    kept = decode_trace(b"".join([*lines[:3], lines[3][:20] + b"\n", lines[4]]))
    assert kept.steps == trace.steps[:2]
    assert (
        kept.notices[0] == "Line 4 is damaged: 2 steps before it were kept, 2 lines from there on left out."
    )


def test_cut_archive_keeps_the_good_steps(trace: Trace, tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl.gz"
    write_trace(trace, path)
    path.write_bytes(path.read_bytes()[:-30])
    kept = read_trace(path)
    assert kept.steps == trace.steps[: len(kept.steps)]
    assert kept.notices


def test_versions(trace: Trace) -> None:
    lines = [encode_line(line) for line in trace.lines()]
    newer = [lines[0].replace(b'"1.3"', b'"1.7","novelty":1'), *lines[1:]]
    assert "1.7" in decode_trace(b"".join(newer)).notices[0]
    older = [lines[0].replace(b'"1.3"', b'"1.0"'), *lines[1:]]
    assert not decode_trace(b"".join(older)).notices
    with pytest.raises(TraceError, match="schema version 2"):
        decode_trace(lines[0].replace(b'"1.3"', b'"2.0"'))


def test_contradictions_are_refused(trace: Trace) -> None:
    lines = [encode_line(line) for line in trace.lines()]
    impossible = lines[2].replace(b'"num_accepted":1', b'"num_accepted":9')
    assert "contradicts itself" in decode_trace(b"".join([*lines[:2], impossible])).notices[0]
    assert "out of order" in decode_trace(lines[0] + lines[2]).notices[0]


def test_limits(trace: Trace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "bomb.jsonl.gz"
    with gzip.open(path, "wb") as file:
        file.write(encode_line(trace.header))
        file.write(b" " * (reader.MAX_BYTES + 10))
    with pytest.raises(TraceError, match="larger than 50 MB"):
        read_trace(path)
    monkeypatch.setattr(reader, "MAX_STEPS", 2)
    with pytest.raises(TraceError, match="more than 2 steps"):
        decode_trace(b"".join(encode_line(line) for line in trace.lines()))


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=400))
def test_any_bytes_are_no_trace(data: bytes) -> None:
    with pytest.raises(TraceError):
        decode_trace(data)


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_any_change_of_a_line_never_crashes(data: st.DataObject) -> None:
    from tests.conftest import make_header

    good = encode_line(make_header())
    at = data.draw(st.integers(0, len(good) - 1))
    bad = good[:at] + data.draw(st.binary(max_size=4)) + good[at + 1 :]
    with contextlib.suppress(TraceError):
        assert decode_trace(bad).steps == []


def test_a_line_of_brackets(trace: Trace) -> None:
    with pytest.raises(TraceError):
        decode_trace(b"[" * 100_000)
    assert decode_trace(encode_line(trace.header) + b'{"type":' + b"[" * 100_000).notices


def test_missing_file_says_so(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=r"nothing\.jsonl cannot be read"):
        read_trace(tmp_path / "nothing.jsonl")
