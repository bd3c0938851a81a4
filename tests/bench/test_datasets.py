"""The questions of a benchmark: worded and chosen as they should be, every fault named."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dflash_viz.bench import datasets as ours
from dflash_viz.bench.datasets import NAMES, DatasetError, load_dataset
from dflash_viz.bench.formats import FORMATS, format_of, plain_number
from dflash_viz.bench.prompts import CODE, KINDS, MATHS, MATHS_ANSWERS, asks_for_python
from tests.bench.made import fault, written

BOXED = "\nPlease reason step by step, and put your final answer within \\boxed{}."
TASK = "Write a solution to the following problem and make sure that it passes the tests:\n```python\n"
STUB = 'def double(x: int) -> int:\n    """Twice x."""\n'
GSM8K = {"question": "How many are 600 and 634?", "answer": "600 + 634 = <<600+634=1234>>\n#### 1,234"}
MATH500 = {"problem": "Find $x$.", "answer": "\\frac{1}{2}", "unique_id": "test/algebra/1.json"}
HUMANEVAL = {"task_id": "HumanEval/0", "prompt": STUB, "entry_point": "double", "test": "..."}
MBPP = {"task_id": 11, "prompt": "Write a function to double.", "code": "...", "test_list": ["assert 1"]}
MT_BENCH = {"question_id": 81, "category": "writing", "turns": ["Write.", "Write it again."]}


# Built in


def test_sixty_questions_are_built_in_and_their_kinds_take_turns() -> None:
    loaded = load_dataset("builtin", limit=7)
    assert [q.kind for q in loaded.questions] == ["maths", "code", "chat", "maths", "code", "chat", "maths"]
    assert [q.id for q in loaded.questions[:4]] == ["maths-1", "code-1", "chat-1", "maths-2"]
    assert (loaded.num_available, loaded.name, loaded.skipped) == (60, "builtin", [])
    everything = load_dataset("builtin").questions
    assert len({q.turns[0] for q in everything}) == len({q.id for q in everything}) == 60


def test_built_in_answers_can_be_checked() -> None:
    by_id = {q.id: q for q in load_dataset("builtin").questions}
    sums = {
        "maths-1": 24 * 5 - 96,
        "maths-2": 0.15 * 240,
        "maths-3": 180 / 3 * 7,
        "maths-4": (45 - 12) / 3,
        "maths-7": 4.5 / 6 * 10,
        "maths-8": sum(range(1, 21)),
        "maths-9": 500 - 12 * 3 * 7,
        "maths-10": 87 * 1.1 / 3,
        "maths-11": 18 * 22 - 287,
        "maths-12": 48 * 0.75 * 0.9,
        "maths-13": max(n for n in range(1, 199) if 252 % n == 0 and 198 % n == 0),
        "maths-14": sum(f"{n:03b}".count("1") == 2 for n in range(8)),
        "maths-15": sum(35 + 5 * day for day in range(7)),
        "maths-16": 17 * 23 - 144 / 12,
        "maths-17": -(-2 * (60 / 1.5 + 1) // 12),
        "maths-18": 174 / 3 + 1,
        "maths-19": 84 / (16 + 12) * 60,
        "maths-20": 200 + (20.5 - 12) / 0.05,
    }
    checked = {q.id: float(q.reference) for q in by_id.values() if q.grader == "number"}
    assert checked == pytest.approx(sums)
    assert {q.kind for q in by_id.values() if q.grader == "python"} == {"code"}
    assert by_id["code-6"].grader == ""  # SQL
    assert sum(asks_for_python(prompt) for prompt in CODE) == 14
    assert len(MATHS) == len(MATHS_ANSWERS)
    assert {len(prompts) for prompts in KINDS.values()} == {20}


def test_the_built_in_set_takes_no_file(tmp_path: Path) -> None:
    assert "leave out" in fault("builtin", tmp_path)


# Known formats


@pytest.mark.parametrize(
    ("name", "row", "prompt", "grader", "reference", "identity", "kind"),
    [
        ("gsm8k", GSM8K, GSM8K["question"] + BOXED, "number", "1234", "gsm8k-1", "gsm8k"),
        ("math500", MATH500, "Find $x$." + BOXED, "", "", "math500-1", "math500"),
        (
            "math500",
            {"problem": "?", "answer": "-2.50"},
            "?" + BOXED,
            "number",
            "-2.5",
            "math500-1",
            "math500",
        ),
        ("humaneval", HUMANEVAL, f"{TASK}{STUB}\n```", "python", "", "HumanEval/0", "humaneval"),
        ("mbpp", MBPP, "Write a function to double.", "python", "", "11", "mbpp"),
        ("mbpp", {"task_id": 2, "text": "Halve it."}, "Halve it.", "python", "", "2", "mbpp"),
        ("mt-bench", MT_BENCH, "Write.", "", "", "81", "writing"),
        ("mt-bench", {"prompt_id": 5, "prompt": ["Say."], "category": "stem"}, "Say.", "", "", "5", "stem"),
        ("spec-bench", MT_BENCH, "Write.", "", "", "81", "writing"),
        ("spec-bench", {"turns": ["Go."]}, "Go.", "", "", "spec-bench-1", "spec-bench"),
    ],
)
def test_a_line_becomes_a_question(
    tmp_path: Path, name: str, row: object, prompt: str, grader: str, reference: str, identity: str, kind: str
) -> None:
    file = written(tmp_path / "some.jsonl", row)
    (question,) = load_dataset(name, file).questions
    assert question.turns == [prompt]
    assert (question.grader, question.reference) == (grader, reference)
    assert (question.id, question.kind) == (identity, kind)


def test_a_conversation_is_asked_as_far_as_wanted(tmp_path: Path) -> None:
    file = written(tmp_path / "some.jsonl", MT_BENCH)
    assert load_dataset("mt-bench", file, turns="first").questions[0].turns == ["Write."]
    assert load_dataset("mt-bench", file, turns="both").questions[0].turns == ["Write.", "Write it again."]


@pytest.mark.parametrize(
    ("text", "number"),
    [("18", "18"), (" $1,234.50 ", "1234.5"), ("-3.0", "-3"), ("100", "100"), ("1,000,000", "1000000")]
    + [
        (text, "")
        for text in ("", "x", "1,2", "\\frac12", "3\\pi", "12 cm", "٣", "1e5", "(1, 2)", "5%", "nan")
    ],
)
def test_only_plain_numbers_can_be_compared(text: str, number: str) -> None:
    assert plain_number(text) == number


def test_every_name_has_a_format_and_all_but_spec_bench_a_place_on_the_hub() -> None:
    assert set(NAMES) == {"builtin"} | {one.name for one in FORMATS}
    assert [one.name for one in FORMATS if one.hub is None] == ["spec-bench"]


# Which file


def test_a_folder_is_searched_for_the_names_that_are_known(tmp_path: Path) -> None:
    written(tmp_path / "gsm8k_test.jsonl", GSM8K)
    (tmp_path / "spec_bench").mkdir()
    written(tmp_path / "spec_bench" / "question.jsonl", MT_BENCH)
    assert load_dataset("gsm8k", tmp_path).source == "gsm8k_test.jsonl"
    assert load_dataset("spec-bench", tmp_path).source == "question.jsonl"
    said = fault("humaneval", tmp_path)
    assert "humaneval.jsonl, HumanEval.jsonl" in said
    assert "--data PATH" in said


@pytest.mark.parametrize(
    ("file", "row", "name"),
    [
        ("gsm8k_test.jsonl", GSM8K, "gsm8k"),
        ("mine.jsonl", GSM8K, "mine"),
        ("mine.jsonl", MATH500, "mine"),
        ("humaneval.jsonl", HUMANEVAL, "humaneval"),
        ("mbpp.jsonl", MBPP, "mbpp"),
        ("mt_bench.jsonl", MT_BENCH, "mt-bench"),
        ("spec_bench.jsonl", MT_BENCH, "spec-bench"),
        ("question.jsonl", MT_BENCH, "question"),
        ("mine.jsonl", {"turns": ["What is a lighthouse?"]}, "mine"),
    ],
)
def test_a_file_says_itself_what_its_lines_are(tmp_path: Path, file: str, row: object, name: str) -> None:
    loaded = load_dataset(str(written(tmp_path / file, row)))
    assert (loaded.name, loaded.source, len(loaded.questions)) == (name, file, 1)
    assert loaded.questions[0].kind in (name, "writing")


def test_formats_are_told_apart() -> None:
    rows = {"gsm8k": GSM8K, "math500": MATH500, "humaneval": HUMANEVAL, "mbpp": MBPP, "mt-bench": MT_BENCH}
    for name, row in rows.items():
        found = format_of(row)
        assert found is not None
        assert found.name == name
    assert format_of({"text": "?"}) is None


def test_unknown_fields_are_named(tmp_path: Path) -> None:
    said = fault(str(written(tmp_path / "mine.jsonl", {"instruction": "Go.", "output": "Gone."})))
    assert "mine.jsonl" in said
    assert "instruction, output" in said
    assert '{"turns": [' in said


def test_an_unknown_data_set_lists_the_known_ones() -> None:
    said = fault("hellaswag")
    assert all(name in said for name in NAMES)


# Which questions


def test_the_limit_chooses_as_the_dflash_benchmark_does(tmp_path: Path) -> None:
    file = written(tmp_path / "some.jsonl", *({"turns": [f"Question {n}"]} for n in range(50)))
    order = list(range(50))
    random.Random(42).shuffle(order)
    loaded = load_dataset("mt-bench", file, limit=8)
    assert [q.turns[0] for q in loaded.questions] == [f"Question {n}" for n in order[:8]]
    assert [q.id for q in loaded.questions] == [f"mt-bench-{n + 1}" for n in order[:8]]
    assert loaded.num_available == 50
    for limit in (None, 50, 1000):
        everything = load_dataset("mt-bench", file, limit=limit).questions
        assert [q.turns[0] for q in everything] == [f"Question {n}" for n in range(50)]


@pytest.mark.parametrize("limit", [0, -1])
def test_no_questions_at_all_are_refused(limit: int) -> None:
    assert "at least one" in fault("builtin", limit=limit)


# Bad lines


@pytest.mark.parametrize(
    ("name", "line", "why"),
    [
        ("gsm8k", "{", "not JSON"),
        ("gsm8k", "[1]", "not a JSON object"),
        ("gsm8k", "[" * 100_000, "not JSON"),
        ("gsm8k", '{"answer": "#### 1"}', '"question" is missing'),
        ("gsm8k", '{"question": "?"}', '"answer" is missing'),
        ("gsm8k", '{"question": 5, "answer": "#### 1"}', '"question" is not a text'),
        ("gsm8k", '{"question": " ", "answer": "#### 1"}', '"question" is empty'),
        ("gsm8k", '{"question": "?", "answer": "1"}', '"answer" does not end with'),
        ("gsm8k", '{"question": "?", "answer": "#### many"}', '"answer" does not end with'),
        ("math500", '{"answer": "1"}', '"problem" is missing'),
        ("humaneval", '{"task_id": "a"}', '"prompt" is missing'),
        ("humaneval", '{"task_id": true, "prompt": "?"}', '"task_id" is neither'),
        ("humaneval", '{"task_id": "", "prompt": "?"}', '"task_id" does not have'),
        ("mbpp", '{"task_id": 1}', '"prompt" is missing'),
        ("mt-bench", '{"question_id": 1}', '"turns" is missing'),
        ("mt-bench", '{"turns": []}', '"turns" is not a list of texts'),
        ("mt-bench", '{"turns": "Go."}', '"turns" is not a list of texts'),
        ("mt-bench", '{"turns": ["Go.", null]}', '"turns" is not a list of texts'),
        ("mt-bench", '{"turns": ["Go."], "category": ["a"]}', '"category" is neither'),
        ("mt-bench", json.dumps({"turns": ["Go."], "category": "x" * 101}), '"category" does not have'),
        ("mt-bench", '{"turns": ["Go."], "question_id": 81}', "earlier question's"),
    ],
)
def test_a_bad_line_is_named_or_skipped(tmp_path: Path, name: str, line: str, why: str) -> None:
    good = {"gsm8k": GSM8K, "math500": MATH500, "humaneval": HUMANEVAL, "mbpp": MBPP, "mt-bench": MT_BENCH}
    file = written(tmp_path / "some.jsonl", good[name], "", line)
    said = fault(name, file)
    assert said.startswith("some.jsonl, line 3: ")
    assert why in said
    loaded = load_dataset(name, file, on_bad_line="skip")
    assert (len(loaded.questions), loaded.num_available, len(loaded.skipped)) == (1, 1, 1)
    assert loaded.skipped[0].startswith("some.jsonl, line 3: ")
    assert why in loaded.skipped[0]


def test_skipped_lines_are_not_listed_without_end(tmp_path: Path) -> None:
    file = written(tmp_path / "some.jsonl", GSM8K, *["{"] * 150)
    skipped = load_dataset("gsm8k", file, on_bad_line="skip").skipped
    assert len(skipped) == 101
    assert skipped[-1] == "50 more lines."


def test_a_file_of_bad_lines_alone_holds_no_questions(tmp_path: Path) -> None:
    said = fault("gsm8k", written(tmp_path / "some.jsonl", "{", "}"), on_bad_line="skip")
    assert "not one line can be used" in said
    assert "line 1" in said


# Bad files


@pytest.mark.parametrize("name", ["gsm8k", ""])
@pytest.mark.parametrize("data", [b"", b"\n \r\n\n"])
def test_an_empty_file_is_called_empty(tmp_path: Path, name: str, data: bytes) -> None:
    file = tmp_path / "some.jsonl"
    file.write_bytes(data)
    said = fault(name, file) if name else fault(str(file))
    assert "some.jsonl" in said
    assert "it is empty" in said


@pytest.mark.parametrize("on_bad_line", ["stop", "skip"])
@pytest.mark.parametrize("data", [json.dumps(GSM8K).encode("utf-16"), b"\x1f\x8b\x08\x00\xff\xfe\n"])
def test_what_is_not_utf8_is_called_so(tmp_path: Path, data: bytes, on_bad_line: str) -> None:
    file = tmp_path / "some.jsonl"
    file.write_bytes(data)
    said = fault("gsm8k", file, on_bad_line=on_bad_line)
    assert "line 1: it is not UTF-8 text" in said
    assert "unpack it" in said


def test_windows_files_are_read(tmp_path: Path) -> None:
    file = tmp_path / "some.jsonl"
    file.write_bytes(b"\xef\xbb\xbf" + json.dumps(GSM8K).encode() + b"\r\n" + json.dumps(GSM8K).encode())
    assert [q.id for q in load_dataset(str(file)).questions] == ["some-1", "some-2"]


def test_a_huge_file_is_not_read(tmp_path: Path) -> None:
    file = tmp_path / "some.jsonl"
    file.touch()
    os.truncate(file, ours.MAX_BYTES + 1)  # a hole: it takes no room
    assert "larger than 100 MB" in fault("gsm8k", file)


@pytest.mark.parametrize("path", ["nowhere", "~nobody-of-this-name/x", "x" * 5000, "a\0b", "/dev/zero"])
def test_a_path_without_a_file_is_named(path: str) -> None:
    said = fault("gsm8k", Path(path))
    assert path in said
    assert "Check the path" in said


def test_a_folder_needs_the_data_sets_name(tmp_path: Path) -> None:
    folder = tmp_path / "all.jsonl"
    folder.mkdir()
    assert "name the data set" in fault(str(folder))


# Hostile lines


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
FIELDS = ("question", "answer", "problem", "prompt", "text", "turns", "task_id", "question_id", "category")
ROWS = st.dictionaries(st.sampled_from(FIELDS), JSON | st.lists(st.text(max_size=9), max_size=3), max_size=6)
GOOD = [json.dumps(row).encode() for row in (GSM8K, MATH500, HUMANEVAL, MBPP, MT_BENCH)]
CUT = st.tuples(st.sampled_from(GOOD), st.integers(0, 200)).map(lambda cut: cut[0][: cut[1]])
BYTES = st.binary(max_size=60)
LINES = st.lists(BYTES | CUT | ROWS.map(lambda row: json.dumps(row).encode()), max_size=8)


def sound_or_refused(name: str, file: Path, turns: Any) -> None:
    """A data set loads with questions that can be asked, or is refused for holding none."""
    try:
        loaded = load_dataset(name, file, limit=3, turns=turns, on_bad_line="skip")
    except DatasetError:
        assert "some.jsonl holds no questions" in fault(name, file, on_bad_line="skip")
        return
    assert 1 <= len(loaded.questions) == min(3, loaded.num_available)
    assert len({q.id for q in loaded.questions}) == len(loaded.questions)
    for question in loaded.questions:
        assert question.turns
        assert all(turn.strip() and turn.encode() for turn in question.turns)
        assert question.id.strip()
        assert question.kind.strip()
        assert (question.grader == "number") == bool(question.reference)
    if not loaded.skipped:
        assert load_dataset(name, file, limit=3, turns=turns) == loaded


@pytest.mark.parametrize("name", [name for name in NAMES if name != "builtin"])
@pytest.mark.parametrize("turns", ["first", "both"])
def test_hostile_lines_are_faults_or_sound_questions(tmp_path: Path, name: str, turns: str) -> None:
    @given(LINES)
    @settings(max_examples=100, deadline=None)
    def check(lines: list[bytes]) -> None:
        file = tmp_path / "some.jsonl"
        file.write_bytes(b"\n".join(lines))
        sound_or_refused(name, file, turns)

    check()
