"""Result files: what is written comes back, an interrupted one goes on."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from dflash_viz.results import (
    FILE_NAME,
    TRACES,
    Answer,
    Failure,
    Result,
    ResultError,
    ResultWriter,
    Setting,
    Stretch,
    decode_result,
    files,
    labels,
    read_result,
    write_result,
)
from dflash_viz.results.files import result_lines
from tests.measured import empty_result, made_answer, made_engine, made_result, made_settings


@pytest.fixture
def result() -> Result:
    """A complete result with something in every kind of line."""
    made = made_result(num_questions=3, num_turns=2)
    made.failures.append(Failure(0, "The engine gave no answer.", "q1", 1))
    return made


def put(result: Result, folder: Path) -> Path:
    """Write a result line by line, as a benchmark does."""
    with ResultWriter(folder, result.head) as writer:
        for line in list(result_lines(result))[1:]:
            writer.write(line)
    return folder / FILE_NAME


def test_what_is_written_line_by_line_is_read_back(result: Result, tmp_path: Path) -> None:
    put(result, tmp_path / "new" / "folder")
    assert read_result(tmp_path / "new" / "folder") == result
    assert not result.notices


def test_a_whole_result_is_one_file(result: Result, tmp_path: Path) -> None:
    write_result(result, tmp_path / "mine.jsonl")
    assert read_result(tmp_path / "mine.jsonl") == result
    assert (tmp_path / "mine.jsonl").read_bytes() == put(result, tmp_path / "lines").read_bytes()


def test_a_line_is_in_the_file_as_soon_as_it_is_written(result: Result, tmp_path: Path) -> None:
    with ResultWriter(tmp_path, result.head) as writer:
        assert read_result(tmp_path).head == result.head
        writer.write(result.questions["q0"])
        assert list(read_result(tmp_path).questions) == ["q0"]


def test_a_folder_holds_one_result(result: Result, tmp_path: Path) -> None:
    before = put(result, tmp_path).read_bytes()
    with pytest.raises(FileExistsError):
        ResultWriter(tmp_path, result.head)
    assert (tmp_path / FILE_NAME).read_bytes() == before


@pytest.mark.parametrize("cut", [1, 2, 40])
def test_a_half_written_line_is_cut_and_the_result_goes_on(cut: int, result: Result, tmp_path: Path) -> None:
    file = put(result, tmp_path)
    whole = file.read_bytes()
    last = whole[: -len(whole.splitlines(keepends=True)[-1])]
    file.write_bytes(whole[: len(whole) - cut])
    seen = read_result(tmp_path)
    with ResultWriter(tmp_path) as writer:
        kept = file.read_bytes()
        writer.write(Failure(1, "gone", "q0"))
    # What is read before it goes on is what is kept: a benchmark relies on having it.
    assert kept == (whole if cut == 1 else last)
    assert len(seen.stretches) == len(result.stretches) - (cut > 1)
    assert (seen.notices == []) is (cut == 1)
    again = read_result(tmp_path)
    assert again.notices == []
    assert again.stretches == seen.stretches
    assert again.failures == [*result.failures, Failure(1, "gone", "q0")]


def test_a_head_without_its_line_end_stays(result: Result, tmp_path: Path) -> None:
    ResultWriter(tmp_path, result.head).close()
    file = tmp_path / FILE_NAME
    file.write_bytes(file.read_bytes().rstrip(b"\n"))
    with ResultWriter(tmp_path) as writer:
        writer.write(result.questions["q0"])
    assert read_result(tmp_path).questions == {"q0": result.questions["q0"]}


def test_nothing_is_cut_from_a_file_that_ends_well(result: Result, tmp_path: Path) -> None:
    before = put(result, tmp_path).read_bytes()
    ResultWriter(tmp_path).close()
    assert (tmp_path / FILE_NAME).read_bytes() == before


def test_where_there_is_no_result_none_goes_on(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        ResultWriter(tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_folder_and_the_file_in_it_are_the_same(result: Result, tmp_path: Path) -> None:
    file = put(result, tmp_path)
    assert read_result(tmp_path) == read_result(file)


def test_traces_are_at_hand_where_their_folder_is(result: Result, tmp_path: Path) -> None:
    file = put(result, tmp_path)
    assert read_result(tmp_path).folder is None
    (tmp_path / TRACES).mkdir()
    assert read_result(tmp_path).folder == str(tmp_path)
    assert read_result(file).folder == str(tmp_path)


@pytest.mark.parametrize("name", ["", "nothing", "nothing/at/all", "a\0b", "x" * 300])
def test_where_there_is_no_file_the_message_says_so(name: str, tmp_path: Path) -> None:
    with pytest.raises(ResultError, match="holds no result: "):
        read_result(tmp_path / name)


def test_the_folder_that_one_is_in_has_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ResultError, match=r"^\. holds no result: No such file or directory\.$"):
        read_result(Path())


def test_what_is_no_file_is_not_read(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).symlink_to("/dev/null")
    with pytest.raises(ResultError, match="holds no result: it is no file"):
        read_result(tmp_path)


def test_a_file_over_the_limit_is_refused_before_it_is_read(
    result: Result, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = put(result, tmp_path)
    size = file.stat().st_size
    monkeypatch.setattr(files, "MAX_BYTES", size)
    assert read_result(tmp_path) == result
    with file.open("ab") as more:
        more.truncate(size + 1)
    with pytest.raises(ResultError, match="larger than"):
        read_result(tmp_path)


def test_the_limit_lets_long_benchmarks_through(result: Result, tmp_path: Path) -> None:
    put(result, tmp_path)
    with (tmp_path / FILE_NAME).open("ab") as more:
        more.truncate(files.MAX_BYTES + 1)
    with pytest.raises(ResultError, match=r"larger than 200 MB\."):
        read_result(tmp_path)


def test_empty_lines_mean_nothing(result: Result) -> None:
    lines = [msgspec.json.encode(line) for line in result_lines(result)]
    assert decode_result(b"\n\n".join(lines) + b"\n\n") == result


@pytest.mark.parametrize(
    ("settings", "names"),
    [
        (made_settings(), ["dflash", "eagle3", "ngram", "none"]),
        (made_settings(("dflash", "none"), ks=(3, 5)), ["dflash, K = 3", "dflash, K = 5", "none"]),
        (
            made_settings(("dflash",), temperatures=(0.0, 0.7)),
            ["dflash, temperature 0", "dflash, temperature 0.7"],
        ),
        (made_settings(("none",), concurrencies=(1, 16)), ["none, 1 at once", "none, 16 at once"]),
        (
            made_settings(("dflash", "none"), (3, 5), (0.0, 1.0), (2, 4))[-1:]
            + made_settings(("dflash",), (3, 5), (0.0, 1.0), (2, 4))[:2],
            [
                "none, temperature 1, 4 at once",
                "dflash, K = 3, temperature 0, 2 at once",
                "dflash, K = 5, temperature 0, 2 at once",
            ],
        ),
        ([], []),
    ],
)
def test_labels_leave_out_what_is_the_same(settings: list[Setting], names: list[str]) -> None:
    assert labels(settings) == names


def test_labels_tell_all_settings_apart() -> None:
    settings = made_settings(ks=(3, 5), temperatures=(0.0, 0.5), concurrencies=(1, 8))
    assert len(set(labels(settings))) == len(settings)


def test_the_plain_setting_has_the_same_temperature_and_concurrency() -> None:
    settings = made_settings(("dflash", "none"), (3, 5), (0.0, 1.0), (1, 4))
    result = empty_result(settings)
    for number, asked in enumerate(settings):
        found = result.plain_of(number)
        assert found is not None
        plain = settings[found]
        assert plain.plain
        assert (plain.temperature, plain.concurrency) == (asked.temperature, asked.concurrency)


def test_without_a_plain_setting_there_is_none_to_compare_with() -> None:
    settings = [Setting("dflash", "dflash", 5, 0.0, 4), Setting("none", "none", 0, 0.0, 1)]
    assert empty_result(settings).plain_of(0) is None


def test_a_setting_is_finished_by_a_stretch_that_asked_everything() -> None:
    result = made_result(num_questions=2)
    assert result.complete
    whole = result.stretches[1]
    result.stretches[1] = msgspec.structs.replace(whole, finished=False)
    assert [result.finished(number) for number in range(4)] == [True, False, True, True]
    assert not result.complete
    result.add(whole)
    assert result.complete
    assert not empty_result(made_settings()).complete


def answer(result: Result, question: str, turn: int = 0) -> Answer:
    """An answer of the first setting."""
    return made_answer(0, result.plan.settings[0], result.questions[question], turn)


def test_a_failure_is_open_until_the_question_is_answered() -> None:
    result = empty_result(made_settings(), 2, 2)
    failed = [Failure(0, "gone", "q0", 1), Failure(0, "gone", "q1"), Failure(1, "gone", "q0", 1)]
    for one in failed:
        result.add(one)
    assert result.open_failures() == failed
    result.add(answer(result, "q0"))
    assert result.open_failures() == failed
    result.add(answer(result, "q0", 1))
    assert result.open_failures() == failed[1:]


def test_a_question_that_failed_again_is_one_failure() -> None:
    result = empty_result(made_settings(), 1)
    result.add(Failure(0, "too long", "q0"))
    result.add(Failure(0, "still too long", "q0"))
    assert result.open_failures() == [Failure(0, "still too long", "q0")]


def test_an_engine_that_failed_is_a_failure_until_its_setting_is_measured() -> None:
    result = empty_result(made_settings(), 1)
    result.add(Failure(0, "There is no memory left."))
    assert result.open_failures() == [Failure(0, "There is no memory left.")]
    result.add(made_engine(0, result.plan.settings[0]))
    result.add(Stretch(0, 1.0, 0, 0, 0, 0, 0, 0, finished=False))
    result.add(Failure(0, "The engine ended."))
    # It did start, and then broke down: that is no success.
    assert result.open_failures() == [Failure(0, "The engine ended.")]
    result.add(Stretch(1, 1.0, 1, 10, 10, 0, 0, 0))
    assert result.open_failures() == [Failure(0, "The engine ended.")]
    result.add(Stretch(0, 1.0, 1, 10, 10, 0, 0, 0))
    assert result.open_failures() == []
