"""Where results lie: listed, opened, deleted, their traces found, and nothing else reached by their names."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from urllib.parse import parse_qs

import msgspec
import pytest

from dflash_viz.bench.places import new_result
from dflash_viz.bench.record import GALLERY
from dflash_viz.results import FILE_NAME, Result, ResultError, ResultWriter, write_result
from dflash_viz.trace import TraceError, read_trace
from dflash_viz.ui.library import Library, Place
from dflash_viz.ui.measure_look import Look, Source, source_of_path
from dflash_viz.ui.results import (
    delete_result,
    id_of,
    open_result,
    recent,
    trace_link,
    trace_place,
)
from tests.measured import made_result

UNKNOWN = "20200101-000000-aaaaaaaaaaaaaaaaaaaaaa"


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DFLASH_VIZ_CACHE", str(tmp_path))
    return tmp_path


def keep(result: Result, name: str = "") -> Path:
    """The result in a folder of the app's own."""
    folder = new_result() if not name else new_result().parent / name
    folder.mkdir(parents=True)
    write_result(result, folder / FILE_NAME)
    return folder


def with_traces(*runs: str) -> Path:
    """A result with a prompt's traces for each of these runs of the gallery."""
    folder = keep(made_result(num_questions=3))
    for number, run in enumerate(runs):
        shutil.copytree(GALLERY / run, folder / "traces" / f"{number:05}-0")
    return folder


def test_results_are_listed_newest_first_with_what_is_there_of_them() -> None:
    half = made_result(num_questions=3)
    half.stretches.pop()
    damaged, older, newer = (f"2026013{i}-120000-{'a' * 22}" for i in (0, 1, 2))
    (new_result().parent / damaged).mkdir(parents=True)
    (new_result().parent / damaged / FILE_NAME).write_text("hello")
    keep(made_result(num_questions=3), older)
    folder = keep(half, newer)
    with (folder / FILE_NAME).open("ab") as file:
        file.write(b'{"type":"stretch","setting":3,"sec')  # the app that wrote it died
    first, second, third = recent()
    assert [one.id for one in (first, second, third)] == [newer, older, damaged]
    assert (first.finished, first.num_settings, first.answers, first.complete) == (3, 4, 12, False)
    assert (second.finished, second.complete, second.problem) == (4, True, "")
    assert second.began == "2026-01-31T12:00:00"
    assert "no result" in third.problem
    assert not third.complete


def test_names_cannot_be_guessed_and_new_ones_are_not_there_yet() -> None:
    one, other = new_result(), new_result()
    assert one != other
    assert re.fullmatch(r"\d{8}-\d{6}-[\w-]{22}", one.name)
    assert not one.exists()
    assert recent() == []


@pytest.mark.parametrize(
    "name", ["", ".", "..", "../results", UNKNOWN, f"../{UNKNOWN}", f"{UNKNOWN}\n", "a\0b"]
)
def test_only_names_of_results_open_or_delete_anything(cache: Path, name: str) -> None:
    kept = keep(made_result(num_questions=1))
    (cache / UNKNOWN).mkdir()
    for use in (open_result, delete_result):
        with pytest.raises(ResultError, match="no such result"):
            use(name)
    assert (kept / FILE_NAME).is_file()
    assert (cache / UNKNOWN).is_dir()


def test_a_link_in_the_folder_of_results_is_no_result(cache: Path) -> None:
    outside = cache / "outside"
    outside.mkdir()
    write_result(made_result(num_questions=1), outside / FILE_NAME)
    new_result().parent.mkdir()
    (new_result().parent / UNKNOWN).symlink_to(outside)
    assert recent() == []
    with pytest.raises(ResultError):
        delete_result(UNKNOWN)
    assert (outside / FILE_NAME).is_file()


def test_a_result_opens_as_it_was_written_and_goes_for_good() -> None:
    made = made_result(num_questions=3)
    folder = keep(made)
    assert msgspec.structs.replace(open_result(folder.name), folder=None) == made
    delete_result(folder.name)
    assert not folder.exists()
    with pytest.raises(ResultError):
        open_result(folder.name)


def test_a_link_opens_the_answers_to_one_prompt_together() -> None:
    folder = with_traces("chat", "code")
    file = next((folder / "traces" / "00001-0").glob("1-*"))
    link = trace_link(folder.name, str(file.relative_to(folder)))
    address = parse_qs(link.removeprefix("?"))["run"][0]
    run = Library([]).open(Place(address))
    assert run.address == address
    assert len(run.traces) == len(list(file.parent.iterdir())) > 1
    assert {tuple(t.header.prompt_token_ids) for t in run.traces} == {
        tuple(read_trace(file).header.prompt_token_ids)
    }


def test_beside_a_trace_only_those_of_its_prompt_are_opened() -> None:
    """The second turns of a conversation hold what each lane answered in the first."""
    folder = with_traces("chat") / "traces" / "00000-0"
    other = next((GALLERY / "code").glob("1-*"))
    shutil.copy(other, folder / "9-other.jsonl.gz")
    library, name = Library([]), folder.parents[1].name
    assert len(library.open(Place(f"result/{name}/00000-0/9-other.jsonl.gz")).traces) == 1
    chat = library.open(Place(f"result/{name}/00000-0/{next(folder.glob('1-*')).name}"))
    assert len(chat.traces) == len(list((GALLERY / "chat").iterdir()))
    with pytest.raises(TraceError, match="different prompts"):
        library.open(Place(f"result/{name}/00000-0"))


@pytest.mark.parametrize(
    "inner",
    [
        "", ".", "..", "../result.jsonl", "/etc/passwd", "00000-0/../../result.jsonl", "none",
        "a\0b", "x" * 300, "out", "out/secret.jsonl", "file.jsonl",
    ],
)  # fmt: skip
def test_addresses_lead_into_the_traces_of_their_result_alone(cache: Path, inner: str) -> None:
    folder = with_traces("chat")
    (cache / "elsewhere").mkdir()
    secret = cache / "elsewhere" / "secret.jsonl"
    shutil.copy(next((GALLERY / "chat").iterdir()), secret)
    (folder / "traces" / "out").symlink_to(secret.parent)
    (folder / "traces" / "file.jsonl").symlink_to(secret)
    with pytest.raises(TraceError, match="no trace of a result"):
        trace_place(f"result/{folder.name}/{inner}")


def test_addresses_of_other_results_lead_nowhere() -> None:
    with_traces("chat")
    for address in (f"result/{UNKNOWN}/00000-0", "result/../runs", "result/", "result"):
        with pytest.raises(TraceError):
            trace_place(address)


def test_links_are_made_only_for_what_lies_among_the_traces() -> None:
    assert trace_link("id", "traces/a b/<x>.jsonl") == "?run=result/id/a%20b/%3Cx%3E.jsonl"
    assert [trace_link("id", path) for path in ("", "other/a.jsonl", "traces2/a")] == ["", "", ""]


def test_a_path_into_the_apps_own_results_is_known_as_such(tmp_path: Path) -> None:
    folder = keep(made_result(num_questions=1))
    elsewhere = tmp_path / folder.name
    elsewhere.mkdir()
    assert source_of_path(str(folder)) == source_of_path(f" {folder / FILE_NAME} ") == Source(folder.name)
    assert source_of_path(str(elsewhere)) == Source(file=elsewhere)
    assert id_of(elsewhere) == ""
    with pytest.raises(ResultError, match="Type the path"):
        source_of_path("  ")


def test_a_look_keeps_the_latest_results_each_once() -> None:
    look = Look()
    for number in (*range(12), 11, 5):
        look = look.opened(str(number), Source(file=Path(str(number))))
    assert [label for label, _ in look.pile] == ["5", "11", "10", "9", "8", "7", "6", "4"]
    assert look.shown == Source(file=Path("5"))
    assert look.without(Source(file=Path("5"))).shown is None


def test_a_result_that_is_being_written_is_unfinished() -> None:
    made = made_result(num_questions=2)
    with ResultWriter(new_result(), made.head) as writer:
        writer.write(next(iter(made.questions.values())))
        (found,) = recent()
        assert (found.finished, found.answers, found.complete, found.problem) == (0, 0, False, "")
