"""The recorder on real disks, a full one among them."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from dflash_viz.trace import Trace, read_trace
from dflash_viz.ui import recorder
from dflash_viz.ui.recorder import Recorder


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DFLASH_VIZ_CACHE", str(tmp_path))
    return tmp_path


def test_records(cache: Path, trace: Trace) -> None:
    made = Recorder()
    assert made.write([trace.header, *trace.steps]) == ""
    assert trace.end is not None
    assert made.write([trace.end]) == ""
    made.close()
    assert made.path is not None
    assert read_trace(made.path) == trace


def test_old_runs_are_forgotten(cache: Path, trace: Trace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorder, "KEPT_TRACES", 3)
    (cache / "runs").mkdir()
    for i in range(5):
        (cache / "runs" / f"2000010{i}.jsonl").write_text("")
    made = Recorder()
    made.write([trace.header])
    made.close()
    assert len(list((cache / "runs").iterdir())) == 3
    assert made.path is not None
    assert made.path.is_file()


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
    made = Recorder()
    messages = {
        made.write([trace.header, *trace.steps]) if i == 0 else made.write(trace.steps) for i in range(400)
    }
    made.close()
    assert messages == {"", "This run's trace is not saved: No space left on device."}
