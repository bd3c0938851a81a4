"""Results that are damaged, absurd or meant to hurt: never anything but ``ResultError``, and every line that
cannot be relied on is named."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dflash_viz.results import FILE_NAME, SCHEMA_VERSION, Result, ResultError, decode_result, read_result
from dflash_viz.results.files import MAX_SETTINGS, NO_RESULT, _encoder, result_lines
from tests.measured import made_result, made_settings

HUGE = 10**400
Json = dict[str, Any]
Edit = Callable[[Json], object]
WHOLE = made_result(made_settings(("dflash", "none")), num_questions=2)
LINES: list[Json] = [json.loads(_encoder.encode(line)) for line in result_lines(WHOLE)]
PLACES = {kind: next(i for i, one in enumerate(LINES) if one["type"] == kind) for kind in
          ("head", "question", "engine", "answer", "sample", "stretch")}  # fmt: skip


def data_of(lines: list[Json]) -> bytes:
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)


def edited(kind: str, edit: Edit) -> bytes:
    """The file with the first line of a kind changed."""
    lines = copy.deepcopy(LINES)
    edit(lines[PLACES[kind]])
    return data_of(lines)


def notice_of(kind: str, edit: Edit) -> str:
    """What is said of a changed line, which must be left out and named."""
    result = decode_result(edited(kind, edit))
    assert len(list(result_lines(result))) == len(LINES) - 1
    (notice,) = result.notices
    begin = f"Line {PLACES[kind] + 1} "
    assert notice.startswith(begin)
    return notice.removeprefix(begin)


def refusal(data: bytes) -> str:
    """What is said of something that is no result."""
    with pytest.raises(ResultError) as caught:
        decode_result(data)
    return str(caught.value)


def test_the_file_that_is_damaged_here_is_whole() -> None:
    assert decode_result(data_of(LINES)) == WHOLE


@given(st.binary(max_size=400))
def test_any_bytes_are_a_result_or_a_result_error(data: bytes) -> None:
    refusal(data)


@given(st.integers(1, len(LINES) - 1), st.binary(max_size=200).filter(lambda text: b"\n" not in text))
def test_any_bytes_for_a_line_cost_that_line_alone(number: int, text: bytes) -> None:
    lines = data_of(LINES).splitlines(keepends=True)
    lines[number] = text + b"\n"
    result = decode_result(b"".join(lines))
    told = {int(notice.split()[1]) for notice in result.notices}
    assert number + 1 in told or not text
    # A question that is gone takes its answers along.
    answers = {i + 1 for i, one in enumerate(LINES) if one["type"] == "answer"}
    assert told - {number + 1} <= (answers if LINES[number]["type"] == "question" else set())


@given(st.data())
def test_any_value_anywhere_is_refused_or_safe(data: st.DataObject) -> None:
    lines = copy.deepcopy(LINES)
    spot: Any = lines[data.draw(st.integers(0, len(lines) - 1))]
    while True:
        key = data.draw(st.sampled_from(list(spot) if isinstance(spot, dict) else range(len(spot))))
        if isinstance(spot[key], dict | list) and spot[key] and data.draw(st.booleans()):
            spot = spot[key]
            continue
        break
    spot[key] = data.draw(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.lists(st.integers())
        | st.sampled_from([HUGE, -HUGE, 2**63, -1, {}, [], [[]]])
    )  # fmt: skip
    check_sound(data_of(lines))


@given(st.integers(0, len(data_of(LINES))), st.integers(0, 255))
def test_a_changed_byte_is_refused_or_safe(place: int, byte: int) -> None:
    data = bytearray(data_of(LINES))
    data[min(place, len(data) - 1)] = byte
    check_sound(bytes(data))


def check_sound(data: bytes) -> None:
    """Whatever is let through can be computed with."""
    try:
        result = decode_result(data)
    except ResultError:
        return
    for answer in result.answers:
        assert answer.question in result.questions
        assert result.plan.settings[answer.setting]
        assert 0 <= answer.num_accepted <= answer.num_draft_tokens < 2**63
        assert 0 <= answer.latency_s < 2**63
        assert all(0 <= count < 2**63 for count in answer.accepted_per_position)
        assert (Path("/result") / answer.trace).resolve().is_relative_to("/result")
    for line in [*result.samples, *result.stretches]:
        assert result.plan.settings[line.setting]
        assert 0 <= line.seconds < 2**63


@pytest.mark.parametrize("cut", range(1, 60, 7))
def test_a_file_that_is_cut_short_keeps_what_is_whole(cut: int) -> None:
    data = data_of(LINES)[: -cut - 1]
    result = decode_result(data)
    assert result.notices == [f"Line {len(LINES)} is cut short and was left out."]
    assert result.stretches == WHOLE.stretches[:-1]
    assert result.answers == WHOLE.answers


def test_a_damaged_line_within_is_no_cut() -> None:
    lines = data_of(LINES).split(b"\n")
    lines[3] = lines[3][:-1]
    assert decode_result(b"\n".join(lines)).notices == ["Line 4 is damaged and was left out."]


NUMBER = "was left out: it holds a number that cannot be."
DAMAGED = "is damaged and was left out."


@pytest.mark.parametrize(
    ("kind", "field", "value", "told"),
    [
        ("answer", "latency_s", -0.5, NUMBER),
        ("answer", "latency_s", HUGE, DAMAGED),
        ("answer", "latency_s", 1e300, NUMBER),
        ("answer", "latency_s", float("nan"), DAMAGED),
        ("answer", "decode_s", float("inf"), DAMAGED),
        ("answer", "first_token_s", -1.0, NUMBER),
        ("answer", "num_steps", HUGE, NUMBER),
        ("answer", "num_steps", 2**63, NUMBER),
        ("answer", "num_steps", 1.5, DAMAGED),
        ("answer", "turn", -1, NUMBER),
        ("answer", "accepted_per_position", [1, -1], NUMBER),
        ("answer", "drafted_per_position", [HUGE], NUMBER),
        ("answer", "num_accepted", 10**6, "was left out: more was accepted than drafted."),
        ("answer", "setting", 2, "was left out: there is no setting 2."),
        ("answer", "setting", -1, "was left out: there is no setting -1."),
        ("answer", "question", "q7", "was left out: its question 'q7' is not in the file."),
        ("answer", "question", "q" * 500, f"was left out: its question '{'q' * 40}' is not in the file."),
        ("answer", "text", None, DAMAGED),
        ("answer", "type", "verdict", DAMAGED),
        ("sample", "running", -1, NUMBER),
        ("sample", "seconds", HUGE, DAMAGED),
        ("sample", "setting", 2, "was left out: there is no setting 2."),
        ("stretch", "seconds", -1, NUMBER),
        ("stretch", "accepted_per_position", [2**63], NUMBER),
        ("stretch", "setting", 99, "was left out: there is no setting 99."),
        ("engine", "setting", 2, "was left out: there is no setting 2."),
    ],
)
def test_a_line_that_cannot_be_relied_on_is_left_out(kind: str, field: str, value: Any, told: str) -> None:
    assert notice_of(kind, lambda line: line.update({field: value})) == told


def test_a_number_of_thousands_of_digits_is_damage() -> None:
    digits = b"1" + b"0" * 5000  # more than Python writes
    data = edited("answer", lambda line: line.update(num_steps="digits")).replace(b'"digits"', digits)
    assert decode_result(data).notices == [f"Line {PLACES['answer'] + 1} {DAMAGED}"]


def test_the_largest_number_that_tables_can_hold_is_let_through() -> None:
    result = decode_result(edited("answer", lambda line: line.update(num_steps=2**63 - 1)))
    assert not result.notices
    assert result.answers[0].num_steps == 2**63 - 1


@pytest.mark.parametrize(
    "trace",
    ["/etc/passwd", "../secret", "traces/../../secret", "traces/..", "..", "//host/share"],
)
def test_a_trace_outside_the_folder_is_refused(trace: str) -> None:
    told = notice_of("answer", lambda line: line.update(trace=trace))
    assert told == "was left out: its trace lies outside the result's folder."


def test_a_trace_may_have_any_name_inside_the_folder() -> None:
    result = decode_result(edited("answer", lambda line: line.update(trace="traces/..odd../a..gz")))
    assert result.answers[0].trace == "traces/..odd../a..gz"


def test_a_question_without_turns_is_left_out_with_its_answers() -> None:
    result = decode_result(edited("question", lambda line: line.update(turns=[])))
    first, *rest = result.notices
    assert first == f"Line {PLACES['question'] + 1} was left out: its question is empty."
    assert len(rest) == 2
    assert all("its question 'q0' is not in the file" in notice for notice in rest)


def test_a_second_head_is_left_out() -> None:
    lines = [*LINES, LINES[0]]
    assert decode_result(data_of(lines)).notices == [f"Line {len(lines)} was left out: it is a second head."]


def test_deep_nesting_is_damage() -> None:
    deep = b'{"type":"engine","setting":0,"options":{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}}\n"
    result = decode_result(data_of(LINES) + deep)
    assert result.notices == [f"Line {len(LINES) + 1} is damaged and was left out."]
    assert refusal(b"[" * 100_000) == NO_RESULT
    head = json.dumps({**LINES[0], "extra": "deep"}).encode()
    nested = head.replace(b'"deep"', b"[" * 100_000 + b"]" * 100_000)
    assert "\n" not in refusal(nested)


@pytest.mark.parametrize(
    "data",
    [b"", b"\n", b"\0" * 50, b"\xff\xfe", b"{}", b"[]", b"null", b'{"schema": 1}', b"\x1f\x8b\x08\x00"],
)
def test_what_has_no_head_is_no_result(data: bytes) -> None:
    assert refusal(data) == NO_RESULT
    assert refusal(data + b"\n" + data_of(LINES)) == NO_RESULT


def test_a_line_of_another_kind_is_no_head() -> None:
    data = edited("answer", lambda line: line.update(schema=SCHEMA_VERSION)).split(b"\n", PLACES["answer"])
    assert refusal(data[-1]) == NO_RESULT


@pytest.mark.parametrize("version", ["2.0", "0.9", "10.0", "", "x", "1x.0", "2\n\x1b[2J"])
def test_another_major_version_is_refused(version: str) -> None:
    told = refusal(edited("head", lambda head: head.update(schema=version)))
    assert told == (
        f"This result has schema version {version!r}; this program reads {SCHEMA_VERSION}. "
        "Open it with the version of DFlash Viz that wrote it."
    )


def test_a_long_version_is_not_repeated() -> None:
    assert len(refusal(edited("head", lambda head: head.update(schema="9" * 10_000)))) < 200


def test_a_newer_minor_version_is_read() -> None:
    def newer(head: Json) -> None:
        head.update(schema="1.7", something_new=[1])

    result = decode_result(edited("head", newer))
    assert result.head.schema == "1.7"
    assert result.answers == WHOLE.answers
    assert not result.notices


@pytest.mark.parametrize(
    ("edit", "told"),
    [
        (lambda head: head["plan"].update(settings=[]), "it has no settings"),
        (
            lambda head: head["plan"].update(settings=head["plan"]["settings"][:1] * (MAX_SETTINGS + 1)),
            "it has 301 settings, more than 300",
        ),
        (lambda head: head["plan"].update(max_tokens=-1), "it holds a number that cannot be"),
        (lambda head: head["plan"].update(max_tokens=HUGE), "it holds a number that cannot be"),
        (lambda head: head["plan"]["settings"][1].update(temperature=-1.0), "a number that cannot be"),
        (lambda head: head["plan"]["settings"][0].update(concurrency=2**63), "a number that cannot be"),
        (lambda head: head["plan"]["settings"][0].update(num_speculative_tokens=-1), "a number that cannot"),
        (lambda head: head["plan"]["settings"][0].update(temperature=HUGE), "out of range"),
        (lambda head: head["plan"].pop("dataset"), "missing required field `dataset`"),
        (lambda head: head["plan"]["dataset"].update(turns="all"), "Invalid enum value 'all'"),
    ],
)
def test_a_damaged_head_is_refused_with_the_reason(edit: Edit, told: str) -> None:
    said = refusal(edited("head", edit))
    assert said.startswith("The result's head is damaged: ")
    assert said.endswith(".")
    assert told in said


def test_as_many_settings_as_are_let_through() -> None:
    def many(head: Json) -> None:
        head["plan"]["settings"] = head["plan"]["settings"][:1] * MAX_SETTINGS

    assert len(decode_result(edited("head", many)).plan.settings) == MAX_SETTINGS


def test_the_file_says_the_same_as_its_bytes(tmp_path: Path) -> None:
    def negative(line: Json) -> None:
        line.update(latency_s=-1)

    (tmp_path / FILE_NAME).write_bytes(edited("answer", negative))
    from_file: Result = read_result(tmp_path)
    assert from_file == decode_result(edited("answer", negative))
    (tmp_path / FILE_NAME).write_bytes(b"no result\n")
    with pytest.raises(ResultError, match="its first line is not a result's head"):
        read_result(tmp_path)
