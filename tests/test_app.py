"""The command line: mistakes get a sentence that says what to do."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import pytest

import app

ROOT = Path(__file__).resolve().parents[1]


def test_busy_port(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        status = app.main(["--no-engine", "--port", str(port)])
    assert status == 2
    said = capsys.readouterr().err
    assert f"Port {port} is in use" in said
    assert f"--port {port + 1}" in said


def test_unknown_preset() -> None:
    ended = subprocess.run(
        [sys.executable, "app.py", "--preset", "nope"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    assert ended.returncode == 2
    assert "Known presets: embedded-cpu" in ended.stderr
    assert "Traceback" not in ended.stderr
