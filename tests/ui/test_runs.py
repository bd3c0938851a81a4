"""Runs on real disks, a full one among them."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from dflash_viz.trace import Trace, TraceError, read_trace
from dflash_viz.ui import runs
from dflash_viz.ui.runs import RunFolder, delete_run, new_run, open_run, recent


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DFLASH_VIZ_CACHE", str(tmp_path))
    return tmp_path


def named(trace: Trace, lane: str, second: int = 0) -> Trace:
    header = msgspec.structs.replace(
        trace.header, lane=lane, recorded_at=f"2026-01-01T00:00:{second:02d}+00:00"
    )
    return Trace(header, trace.steps, trace.end)


def record(*traces: Trace, run: RunFolder | None = None) -> RunFolder:
    run = run or new_run()
    for trace in traces:
        recorder = run.recorder(trace.header.lane)
        assert recorder.write(trace.lines()) == ""
        recorder.close()
        assert recorder.saved is not None
    return run


def test_a_run_is_opened_as_it_was_recorded(cache: Path, trace: Trace) -> None:
    traces = [named(trace, "none"), named(trace, "dflash", 1)]
    run = record(*traces)
    assert {file.relative_to(cache).as_posix() for file in run.path.iterdir()} == {
        f"runs/{run.id}/none.jsonl",
        f"runs/{run.id}/dflash.jsonl",
    }
    assert open_run(run.id) == traces, "in the order in which they were recorded"


def test_lines_are_on_disk_at_once(trace: Trace) -> None:
    run = new_run()
    recorder = run.recorder("dflash")
    assert recorder.saved is None
    recorder.write([trace.header, trace.steps[0]])
    assert read_trace(recorder.path).steps == trace.steps[:1]
    assert [(found.tokens, found.complete, found.problem) for found in recent()] == [(1, False, "")]
    recorder.close()


def test_a_folder_cannot_be_guessed(cache: Path) -> None:
    made = [new_run() for _ in range(50)]
    assert len({run.id[-22:] for run in made}) == 50
    assert all(re.fullmatch(r"\d{8}-\d{6}-[\w-]{22}", run.id) for run in made)
    assert not (cache / "runs").exists(), "nothing is on disk before there is something to keep"


def test_lanes_with_odd_names_keep_their_own_files(trace: Trace) -> None:
    names = ["a/b", "a b", "../../etc", ""]
    run = record(*(named(trace, name, i) for i, name in enumerate(names)))
    assert all(file.parent == run.path for file in run.path.rglob("*"))
    assert [opened.header.lane for opened in open_run(run.id)] == names


def test_recent_runs(cache: Path, trace: Trace) -> None:
    runs_of = [RunFolder(f"2026010{i}-000000-{'x' * 22}", cache) for i in (1, 3, 2)]
    for run in runs_of:
        record(
            named(trace, "dflash"),
            named(trace, "none", 1),
            run=RunFolder(run.id, cache / "runs" / run.id),
        )
    (cache / "runs" / "dflash-20260101-000000-abc.jsonl").write_text("of an earlier version")
    (cache / "runs" / "somebody's folder").mkdir()
    listed = recent()
    assert [run.id[:8] for run in listed] == ["20260103", "20260102", "20260101"]
    assert listed[0].lanes == ("dflash", "none")
    assert (listed[0].prompt, listed[0].tokens, listed[0].complete) == ("Hi", 18, True)
    assert listed[0].began == "2026-01-03T00:00:00"


def test_nothing_was_ever_recorded() -> None:
    assert recent() == []


@pytest.mark.parametrize("content", [b"", b"nonsense\n", b"\xff\xfe", None])
def test_damaged_runs_are_listed_as_such(cache: Path, trace: Trace, content: bytes | None) -> None:
    record(trace)
    folder = cache / "runs" / f"20990101-020304-{'x' * 22}"
    folder.mkdir()
    if content is not None:
        (folder / "dflash.jsonl").write_bytes(content)
    damaged, good = recent()
    assert damaged.problem
    assert damaged.began == "2099-01-01T02:03:04"
    assert not good.problem
    with pytest.raises(TraceError):
        open_run(damaged.id)
    delete_run(damaged.id)
    assert [run.id for run in recent()] == [good.id]


def test_a_lane_that_cannot_be_read_does_not_hide_the_others(cache: Path, trace: Trace) -> None:
    run = record(named(trace, "dflash"))
    (run.path / "none.jsonl").write_bytes(b"")  # a full disk took its header
    (opened,) = open_run(run.id)
    assert opened.steps == trace.steps
    assert "none.jsonl is left out" in opened.notices[-1]
    (listed,) = recent()
    assert (listed.lanes, listed.complete, listed.problem) == (("dflash",), False, "")


def test_a_run_is_not_deleted_while_it_is_recorded(cache: Path, trace: Trace) -> None:
    run = new_run()
    recorder = run.recorder("dflash")
    recorder.write([trace.header])
    with pytest.raises(TraceError, match="still being recorded"):
        delete_run(run.id)
    recorder.close()
    delete_run(run.id)
    assert recent() == []


def test_a_cut_run_is_listed_with_what_it_has(trace: Trace) -> None:
    run = record(trace)
    file = run.path / "dflash.jsonl"
    file.write_bytes(b"\n".join(file.read_bytes().split(b"\n")[:3]) + b'\n{"type":"step","in')
    assert [(found.tokens, found.complete, found.problem) for found in recent()] == [(3, False, "")]
    assert open_run(run.id)[0].steps == trace.steps[:2]


@pytest.mark.parametrize(
    "run",
    ["", ".", "..", "../x", "/etc", "20260101-000000-", f"20260101-000000-{'x' * 22}", "a\0b", "x" * 5000,
     f"20260101-000000-{'x' * 22}\n", f"２０２６0101-000000-{'x' * 22}", f"20260101-000000-{'/' * 22}"],
)  # fmt: skip
def test_only_runs_can_be_opened_and_deleted(cache: Path, trace: Trace, run: str) -> None:
    kept = record(trace)
    for action in (open_run, delete_run):
        with pytest.raises(TraceError, match="no such run"):
            action(run)
    assert open_run(kept.id) == [trace]


def test_a_link_is_no_run(cache: Path, trace: Trace) -> None:
    elsewhere = record(trace, run=RunFolder("x", cache / "elsewhere"))
    linked = f"20260101-000000-{'x' * 22}"
    (cache / "runs").mkdir()
    (cache / "runs" / linked).symlink_to(elsewhere.path)
    for action in (open_run, delete_run):
        with pytest.raises(TraceError, match="no such run"):
            action(linked)
    assert list(elsewhere.path.iterdir())


def test_deleting(cache: Path, trace: Trace) -> None:
    kept, gone = record(trace), record(trace)
    delete_run(gone.id)
    assert not gone.path.exists()
    assert [run.id for run in recent()] == [kept.id]


def test_old_runs_are_forgotten(cache: Path, trace: Trace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "KEPT_RUNS", 3)
    for i in range(5):
        folder = cache / "runs" / f"2000010{i}-000000-{'x' * 22}"
        folder.mkdir(parents=True)
        (folder / "dflash.jsonl").write_text("")
    flat = cache / "runs" / "dflash-20000101-000000-abc.jsonl"
    flat.write_text("")
    run = record(trace, named(trace, "none", 1))
    assert [found.id[:8] for found in recent()] == [run.id[:8], "20000104", "20000103"]
    assert len(open_run(run.id)) == 2
    assert flat.exists(), "files of earlier versions are nobody's to delete"


@pytest.fixture
def full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    mount = tmp_path / "full"
    mount.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(mount)]
    if subprocess.run(command, check=False).returncode != 0:
        pytest.skip("mounting a small disk needs root")
    monkeypatch.setenv("DFLASH_VIZ_CACHE", str(mount))
    yield mount
    subprocess.run(["umount", str(mount)], check=True)


def test_full_disk_stops_the_recording_not_the_run(full_disk: Path, trace: Trace) -> None:
    recorder = new_run().recorder("dflash")
    messages = {recorder.write([trace.header, *trace.steps])} | {
        recorder.write(trace.steps) for _ in range(400)
    }
    recorder.close()
    assert messages == {"", "This run's trace is not saved: No space left on device."}
    assert recorder.saved is None
    assert read_trace(recorder.path).steps == trace.steps, "what came before is kept"
