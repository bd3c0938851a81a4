"""Nothing is left running, however the app or the keeper ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

# A "server" with a child of its own that ignores SIGTERM, as a hanging engine would.
SERVER = """
import subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c",
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"],
    start_new_session=True)
print(child.pid, flush=True)
time.sleep(600)
"""
# An "app" that starts a keeper and waits, holding the pipe.
APP = """
import signal, subprocess, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
keeper = subprocess.Popen([sys.executable, "-m", "dflash_viz.lanes.keeper", sys.argv[1],
    sys.executable, "-c", sys.argv[2]], stdin=subprocess.PIPE, start_new_session=True)
print(keeper.pid, flush=True)
time.sleep(600)
"""
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def running(tmp_path: Path):
    """An app, its keeper, and the two processes below the server."""
    log = tmp_path / "log"
    app = subprocess.Popen(
        [sys.executable, "-c", APP, str(log), SERVER], stdout=subprocess.PIPE, text=True, cwd=ROOT
    )
    assert app.stdout is not None
    keeper = psutil.Process(int(app.stdout.readline()))
    deadline = time.monotonic() + 20
    while not log.is_file() or not log.read_text().strip():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    inner = psutil.Process(int(log.read_text()))
    server = inner.parent()
    assert server is not None
    yield app, keeper, [server, inner]
    app.kill()
    app.wait()
    for process in [keeper, server, inner]:
        if process.is_running():
            process.kill()


def lives(process: psutil.Process) -> bool:
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:  # it has ended between the two questions
        return False


def all_gone(processes: list[psutil.Process], seconds: float) -> bool:
    """Whether they end in time; the app that would collect its dead keeper only sleeps."""
    deadline = time.monotonic() + seconds
    while [process for process in processes if lives(process)]:
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_app_ends(running, number: int) -> None:
    app, keeper, below = running
    os.kill(app.pid, number)
    app.wait()
    assert all_gone([keeper, *below], 15)


def test_keeper_is_terminated(running) -> None:
    _, keeper, below = running
    keeper.terminate()
    assert all_gone([keeper, *below], 15)


def test_keeper_is_killed(running) -> None:
    _, keeper, (server, _) = running
    keeper.kill()
    assert all_gone([keeper, server], 5)


def test_server_ends_by_itself(running) -> None:
    _, keeper, below = running
    below[0].kill()
    assert all_gone([keeper, *below], 15)


def test_exit_status_is_the_servers(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "dflash_viz.lanes.keeper", str(tmp_path / "log")]
    program = [sys.executable, "-c", "import sys; sys.exit(7)"]
    keeper = subprocess.Popen([*command, *program], stdin=subprocess.PIPE, cwd=ROOT)
    assert keeper.wait(20) == 7
