"""Files that are damaged, absurd or meant to hurt: the reader says so, and what it lets through is safe."""

from __future__ import annotations

import contextlib
import copy
import gzip
import json
import os
import resource
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dflash_viz.metrics import DiffError, MixedTracesError, lane_values, race_values
from dflash_viz.trace import (
    Check,
    Draw,
    End,
    Position,
    Step,
    TokenProb,
    Trace,
    TraceError,
    decode_trace,
    encode_line,
    read_summary,
    read_trace,
    read_traces,
    reader,
    write_trace,
)
from dflash_viz.trace.checks import MAX_DRAFTED
from dflash_viz.ui.verdicts import judge_texts
from dflash_viz.views.calibration_page import calibration_html
from dflash_viz.views.diagnosis_page import diagnosis_html
from dflash_viz.views.diff_page import diff_html
from dflash_viz.views.export import to_positions_frame, write_chrome, write_csv, write_parquet
from dflash_viz.views.page_lines import recorded_document
from tests.conftest import make_header

HOSTILE = "<script>alert(1)</script>"
Edit = Callable[[dict[str, Any]], None]


def whole() -> Trace:
    """A trace with everything in it: a prompt's step, a rejection, a full block, a cut block, draws."""

    def said(*tokens: int) -> list[Position]:
        best = [TokenProb(6, 0.6), TokenProb(7, 0.3)]
        drafted = [Position(best, best, 0.5, 0.75, Draw(0.5, 1.0, 0.25)) for _ in tokens]
        return [*drafted, Position(best)]

    steps = [
        Step(0, 0.0, 0.10, 0.10, [5], last="plain", prefill=True, tokens={5: "x"}, positions=said()),
        Step(1, 0.10, 0.15, 0.03, [6, 7], 0.01, [6, 8, 9], 1, "recovered", offset=1, positions=said(6, 8, 9)),
        Step(2, 0.15, 0.20, 0.03, [6, 7, 8, 9], 0.01, [6, 7, 8], 3, "bonus", offset=3),
        Step(3, 0.20, 0.25, 0.03, [9], last="plain", offset=7, batch_size=2, positions=said()),
        Step(4, 0.25, 0.30, 0.03, [6, 2], 0.0, [6, 2, 8], 2, None, offset=8, padded=True),
    ]
    fingerprint = msgspec.structs.replace(make_header().fingerprint, prompt_lookup_min=2, prompt_lookup_max=4)
    end = End("stop", "text", 10, Check(True, "agrees"))
    return Trace(make_header(fingerprint=fingerprint), steps, end)


def lines_of(trace: Trace) -> list[bytes]:
    return [encode_line(line) for line in trace.lines()]


def edited(number: int, edit: Edit, trace: Trace | None = None) -> bytes:
    """The file with one line changed."""
    lines = lines_of(trace or whole())
    line = json.loads(lines[number])
    edit(line)
    lines[number] = json.dumps(line).encode() + b"\n"
    return b"".join(lines)


def fields(**changes: Any) -> Edit:
    return lambda line: line.update(changes)


WHOLE = b"".join(lines_of(whole()))


def test_the_whole_trace_is_fine() -> None:
    assert decode_trace(WHOLE) == whole()


STEP_LIES = {
    "more accepted than drafted": (2, fields(num_accepted=4)),
    "negative accepted": (2, fields(num_accepted=-1)),
    "other tokens emitted than accepted": (2, fields(emitted=[8, 7])),
    "emitted nothing": (2, fields(emitted=[])),
    "emitted too many": (2, fields(emitted=[6, 7, 7])),
    "offset": (2, fields(offset=2)),
    "negative offset": (2, fields(offset=-1)),
    "starts before the last step ended": (2, fields(start=0.05)),
    "ends before it starts": (2, fields(end=0.05)),
    "negative time": (1, fields(start=-1.0)),
    "negative draft": (2, fields(draft_s=-0.01)),
    "negative verify": (2, fields(verify_s=-0.01)),
    "ages": (2, fields(verify_s=1e300)),
    "for ever": (2, fields(end=1e300)),
    "negative id": (2, fields(emitted=[6, -7])),
    "id beyond int32": (2, fields(emitted=[6, 2**31])),
    "huge id": (2, fields(emitted=[6, 10**30])),
    "huge drafted id": (2, fields(drafted=[6, 8, 2**31])),
    "negative drafted id": (2, fields(drafted=[6, 8, -1])),
    "bonus after a rejection": (2, fields(last="bonus")),
    "recovered after a full block": (3, fields(last="recovered")),
    "plain with a draft": (2, fields(last="plain")),
    "cut without a cut": (3, lambda line: line.pop("last")),
    "prompt's step with a draft": (2, fields(prefill=True)),
    "padded without a draft": (4, fields(padded=True)),
    "nobody in the batch": (4, fields(batch_size=0)),
    "huge batch": (4, fields(batch_size=2**40)),
    "too few positions": (2, lambda line: line.update(positions=line["positions"][:1])),
    "too many positions": (2, lambda line: line["positions"].extend(line["positions"])),
    "probability over 1": (2, lambda line: line["positions"][0]["target"].append([1, 1.5])),
    "negative probability": (2, lambda line: line["positions"][0]["drafter"].append([1, -0.5])),
    "huge id in a list": (2, lambda line: line["positions"][0]["target"].append([2**31, 0.1])),
    "absurd p of the drafted token": (2, lambda line: line["positions"][0].update(p_target_drafted=7)),
    "absurd drafter's p": (2, lambda line: line["positions"][0].update(p_drafter_drafted=-7)),
    "absurd draw": (2, lambda line: line["positions"][0].update(draw=[0.5, 1, -3])),
    "not latin-1": (2, fields(tokens={"8": "한"})),
    "two texts for a token": (2, fields(tokens={"5": "y"})),
    "text of a negative token": (2, fields(tokens={"-5": "y"})),
    "text of a huge token": (2, fields(tokens={str(10**30): "y"})),
    "a block like no other": (2, fields(drafted=[6] * (MAX_DRAFTED + 1), emitted=[6, 6])),
}  # fmt: skip


@pytest.mark.parametrize("lie", STEP_LIES)
def test_steps_that_contradict_themselves_end_the_reading(lie: str) -> None:
    number, edit = STEP_LIES[lie]
    read = decode_trace(edited(number, edit))
    assert read.steps == whole().steps[: number - 1]
    lost = len(lines_of(whole())) - number
    assert f"Line {number + 1} contradicts itself (" in read.notices[0]
    assert f"{number - 1} steps before it were kept, {lost} lines from there on left out." in read.notices[0]


WRONG_TYPES = [
    fields(index="1"), fields(emitted="6"), fields(emitted=[6.5]), fields(start=None), fields(drafted=[None]),
    fields(last="best"), fields(prefill=1), fields(start=True), fields(tokens={"a": "b"}),
    fields(type="stop"), fields(start=float("nan")), fields(end=float("inf")), fields(positions=[[]]),
    fields(num_accepted=1.5), fields(tokens=[]), lambda line: line.pop("end"),
    fields(positions=[{"target": [[1]]}]),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(WRONG_TYPES)))
def test_wrong_types_end_the_reading(number: int) -> None:
    read = decode_trace(edited(2, WRONG_TYPES[number]))
    assert read.steps == whole().steps[:1]
    assert "Line 3 is damaged" in read.notices[0]


@pytest.mark.parametrize("number", ["1e400", "-1e400", "NaN", "Infinity", "9" * 5000, "0x1", "01", "1_0"])
def test_numbers_that_are_none(number: str) -> None:
    data = WHOLE.replace(b'"verify_s":0.03', b'"verify_s":' + number.encode(), 1)
    assert "Line 3 is damaged" in decode_trace(data).notices[0]


HEADER_LIES = {
    "schema": [1, None, "", "2.0", "x", "0.9", "-1.0", "9" * 10_000],
    "lane": [None, 5, ["dflash"]],
    "messages": [None, [{"role": "god", "content": ""}], [["user", "Hi"]], "Hi"],
    "prompt_token_ids": [[-1], [2**31], ["1"], None, [10**40]],
    "sampling": [None, {"seed": 10**30}, {"temperature": "hot"}, {"max_tokens": -(10**30)}],
    "fingerprint": [
        {},
        {"method": "dflash", "target": {"name": "x"}, "num_speculative_tokens": -1},
        {"method": "dflash", "target": {"name": "x"}, "num_speculative_tokens": 10**9},
        {"method": "dflash", "target": {"name": "x", "layer_ids": [10**30]}},
    ],
    "tokens": [{"1": "한"}, {"-1": "x"}, {str(2**31): "x"}, {"x": "y"}, ["a"]],
    "type": ["step", "end", None, "x"],
}


@pytest.mark.parametrize(("field", "value"), [(f, v) for f, values in HEADER_LIES.items() for v in values])
def test_a_header_that_cannot_be_is_refused(field: str, value: Any) -> None:
    with pytest.raises(TraceError) as refused:
        decode_trace(edited(0, fields(**{field: value})))
    assert len(str(refused.value)) < 300


@pytest.mark.parametrize("version", ["1", "1.", "1.0", "1.99", "1.x", "1.2.3", "1." + "9" * 9999, "1.٤"])
def test_minor_versions_open(version: str) -> None:
    read = decode_trace(edited(0, fields(schema=version, novelty={"deep": [[]]})))
    assert read.steps == whole().steps
    assert [len(notice) < 200 for notice in read.notices] == [True] * (version != "1.0")


@pytest.mark.parametrize(
    "edit",
    [fields(num_output_tokens=-1), fields(engine_accepted=[-1]), fields(num_cached_prompt_tokens=10**30),
     fields(check=None), fields(text=None)],
)  # fmt: skip
def test_an_end_that_cannot_be_is_left_out(edit: Edit) -> None:
    read = decode_trace(edited(6, edit))
    assert read.steps == whole().steps
    assert read.end is None
    assert "Line 7" in read.notices[0]
    assert "cut short" in read.notices[-1]


def test_what_follows_the_end_is_said_to_be_left_out() -> None:
    for more in (lines_of(whole())[-1], lines_of(whole())[2], b"\n", b"x"):
        read = decode_trace(WHOLE + more)
        assert read.end == whole().end
        assert "Line 8" in read.notices[0]


@settings(max_examples=150, deadline=None)
@given(at=st.integers(0, len(WHOLE)), packed=st.booleans())
def test_truncated_anywhere(tmp_path_factory: pytest.TempPathFactory, at: int, packed: bool) -> None:
    path = tmp_path_factory.getbasetemp() / ("cut.jsonl.gz" if packed else "cut.jsonl")
    data = gzip.compress(WHOLE) if packed else WHOLE
    path.write_bytes(data[: min(at, len(data))])
    with contextlib.suppress(TraceError):
        read = read_trace(path)
        assert read.steps == whole().steps[: len(read.steps)]
        assert at >= len(data) - 1 or read.notices
    with contextlib.suppress(TraceError):
        read_summary(path)


@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_archives_with_a_damaged_byte(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    path = tmp_path_factory.getbasetemp() / "damaged.jsonl.gz"
    packed = bytearray(gzip.compress(WHOLE))
    packed[data.draw(st.integers(10, len(packed) - 1))] ^= data.draw(st.integers(1, 255))
    path.write_bytes(packed)
    with contextlib.suppress(TraceError):
        read = read_trace(path)
        # Another byte may mean the same: two distances back can lead to the same text.
        harmless = read.lines() == decode_trace(WHOLE).lines()
        assert read.notices or harmless, "the archive's own checksum says that something is wrong"


@settings(max_examples=150, deadline=None)
@given(order=st.lists(st.integers(0, 6), max_size=9))
def test_lines_swapped_repeated_and_removed(order: list[int]) -> None:
    lines = lines_of(whole())
    if order[:1] != [0]:
        with pytest.raises(TraceError):
            decode_trace(b"".join(lines[i] for i in order))
        return
    read = decode_trace(b"".join(lines[i] for i in order))
    assert read.steps == whole().steps[: len(read.steps)]
    assert read.notices or order == list(range(7)) or order[-1] == 6


@settings(max_examples=100, deadline=None)
@given(data=st.binary(max_size=300), packed=st.booleans())
def test_any_bytes_in_a_file(tmp_path_factory: pytest.TempPathFactory, data: bytes, packed: bool) -> None:
    path = tmp_path_factory.getbasetemp() / "bytes.jsonl.gz"
    path.write_bytes(b"\x1f\x8b" + data if packed else data)
    for read in (read_trace, read_traces, read_summary):
        with pytest.raises(TraceError):
            read(path)


NUMBERS = st.sampled_from([-1, 0, 1, 2, 3, 7, 2**31 - 1, 2**31, 2**63, 10**40, 1e-320, 1e308, -0.0, 0.5, 1e9])
VALUES = st.one_of(
    NUMBERS,
    st.sampled_from(
        [None, True, "", HOSTILE, "\x00", "한", "plain", "bonus", "none", "2.0", [], {}, [[]], [0], [6]]
    ),
)


def spots(value: Any) -> list[tuple[Any, Any]]:
    """Every place of a JSON value: the container, and the key in it."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [spot for key, child in inner for spot in [(value, key), *spots(child)]]


def change(data: st.DataObject, line: dict[str, Any]) -> None:
    """Replace, remove or repeat something, anywhere in a line."""
    container, key = data.draw(st.sampled_from(spots(line)))
    action = data.draw(st.sampled_from(["replace", "replace", "replace", "remove", "repeat"]))
    if action == "replace":
        container[key] = data.draw(VALUES)
    elif action == "remove":
        del container[key]
    elif isinstance(container, list):
        container.insert(key, copy.deepcopy(container[key]))


def consume(trace: Trace, folder: Path) -> None:
    """Everything that a trace is used for."""
    other = whole()
    other.header = make_header(
        lane="none", fingerprint=msgspec.structs.replace(make_header().fingerprint, method="none")
    )
    traces = [trace, other]
    lane_values(trace.steps)
    race_values(trace.steps, other.steps)
    race_values(other.steps, trace.steps)
    judge_texts(traces)
    document = recorded_document(traces)
    assert "<" not in document
    for line in document.splitlines():
        json.loads(line, parse_constant=pytest.fail)
    pages = [trace._repr_html_()]
    for draw in (
        lambda: diff_html(trace, other),
        lambda: diagnosis_html([trace], [other]),
        lambda: calibration_html([trace], [other]),
    ):
        with contextlib.suppress(DiffError, MixedTracesError):
            pages.append(draw())
    assert not [page for page in pages if "<script" in page]
    write_csv(traces, folder / "t.csv")
    write_parquet(traces, folder / "t.parquet")
    write_chrome(traces, folder / "t.json")
    json.loads((folder / "t.json").read_text(), parse_constant=pytest.fail)
    to_positions_frame(traces)
    write_trace(trace, folder / "t.jsonl")
    assert read_trace(folder / "t.jsonl").steps == trace.steps


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_what_the_reader_lets_through_breaks_nothing(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    lines = [json.loads(line) for line in lines_of(whole())]
    for _ in range(data.draw(st.integers(1, 3))):
        change(data, lines[data.draw(st.integers(0, len(lines) - 1))])
    try:
        read = decode_trace("".join(json.dumps(line) + "\n" for line in lines).encode())
    except TraceError:
        return
    consume(read, tmp_path_factory.getbasetemp())


def test_hostile_text_everywhere_is_text(tmp_path: Path) -> None:
    def replace(value: Any, key: str = "") -> Any:
        if isinstance(value, dict):
            return {k: replace(v, k) for k, v in value.items()}
        if isinstance(value, list):
            return [replace(v) for v in value]
        free = isinstance(value, str) and key not in ("type", "role", "last", "origin", "schema")
        return HOSTILE if free else value

    lines = [replace(json.loads(line)) for line in lines_of(whole())]
    read = decode_trace("".join(json.dumps(line) + "\n" for line in lines).encode())
    assert read.header.lane == read.header.tokens[1] == HOSTILE
    assert read.end is not None
    assert read.end.text == HOSTILE
    consume(read, tmp_path)


def test_lone_surrogates_are_refused() -> None:
    for escape in (rb"\ud800", rb"\udfff", rb"\ud800x"):
        with pytest.raises(TraceError):
            decode_trace(WHOLE.replace(b'"content":"Hi"', b'"content":"' + escape + b'"'))
    data = WHOLE.replace(b'"text":"text"', rb'"text":"\udc00"')
    assert "Line 7 is damaged" in decode_trace(data).notices[0]


def test_deep_nesting_in_fields_that_are_not_ours() -> None:
    for depth in (100, 100_000):
        nested = b'{"a":' * depth + b"1" + b"}" * depth
        data = WHOLE.replace(b'{"type":"step"', b'{"x":' + nested + b',"type":"step"', 1)
        read = decode_trace(data)
        assert read.steps == whole().steps or "Line 2 is damaged" in read.notices[0]
        with contextlib.suppress(TraceError):
            decode_trace(WHOLE.replace(b'{"type":"header"', b'{"x":' + nested + b',"type":"header"', 1))


def test_a_bomb_is_never_unpacked(tmp_path: Path) -> None:
    """Two gigabytes in two megabytes: reading stops at the limit, and needs little more memory."""
    megabyte = gzip.compress(b" " * 2**20)
    (tmp_path / "bomb.jsonl.gz").write_bytes(gzip.compress(WHOLE) + megabyte * 2048)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(TraceError, match=r"larger than 50 MB.*head -n"):
        read_trace(tmp_path / "bomb.jsonl.gz")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 300_000, "kilobytes"


def test_limits_are_met_exactly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "MAX_STEPS", 5)
    monkeypatch.setattr(reader, "MAX_BYTES", len(WHOLE))
    for name, data in (("t.jsonl", WHOLE), ("t.jsonl.gz", gzip.compress(WHOLE))):
        (tmp_path / name).write_bytes(data)
        assert read_trace(tmp_path / name) == whole()
    monkeypatch.setattr(reader, "MAX_BYTES", len(WHOLE) - 1)
    for name in ("t.jsonl", "t.jsonl.gz"):
        with pytest.raises(TraceError, match="larger than"):
            read_trace(tmp_path / name)


def test_archives_of_several_parts(tmp_path: Path) -> None:
    lines = lines_of(whole())
    path = tmp_path / "t.jsonl.gz"
    path.write_bytes(b"".join(map(gzip.compress, lines)))
    assert read_trace(path) == whole()
    path.write_bytes(path.read_bytes() + b"rubbish")
    assert read_trace(path).steps == whole().steps
    assert "archive is damaged" in read_trace(path).notices[-1]


def test_what_is_no_file(tmp_path: Path) -> None:
    (tmp_path / "zero").symlink_to("/dev/zero")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "empty").write_bytes(b"")
    names = ["zero", "loop", "pipe", "empty", ".", "nothing", "a\0b", "x" * 5000, "\ud800", "zero/x"]
    for name in names:
        for read in (read_trace, read_summary, read_traces):
            with pytest.raises(TraceError) as refused:
                read(tmp_path / name)
            str(refused.value).encode()  # can be shown
    with pytest.raises(TraceError, match="holds no traces"):
        read_traces(tmp_path)


def test_a_file_that_may_not_be_read(tmp_path: Path) -> None:
    (tmp_path / "t.jsonl").write_bytes(WHOLE)
    (tmp_path / "t.jsonl").chmod(0)
    user = os.geteuid()
    if user == 0:  # who may read everything
        os.seteuid(65534)
    try:
        with pytest.raises(TraceError, match=r"t\.jsonl cannot be read: Permission denied"):
            read_trace(tmp_path / "t.jsonl")
    finally:
        os.seteuid(user)


def test_a_run_is_a_folder_of_traces(tmp_path: Path) -> None:
    for second, name in enumerate(["b.jsonl", "a.jsonl.gz"]):
        trace = whole()
        trace.header = msgspec.structs.replace(
            trace.header, lane=name, recorded_at=f"2026-01-01T00:00:0{second}"
        )
        write_trace(trace, tmp_path / name)
    (tmp_path / "notes.txt").write_text("no trace")
    assert [trace.header.lane for trace in read_traces(tmp_path)] == ["b.jsonl", "a.jsonl.gz"]
    assert [trace.header.lane for trace in read_traces(tmp_path / "b.jsonl")] == ["b.jsonl"]
