"""The command line: mistakes get a sentence that says what to do."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "app.py", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )


def test_busy_port() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        ended = run("--no-engine", "--port", str(port))
    assert ended.returncode == 2
    assert f"Port {port} is in use" in ended.stderr
    assert f"--port {port + 1}" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_unknown_preset() -> None:
    ended = run("--preset", "nope")
    assert ended.returncode == 2
    assert "Known presets: embedded-cpu" in ended.stderr
