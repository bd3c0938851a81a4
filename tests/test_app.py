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


@pytest.mark.parametrize(
    ("arguments", "words"),
    [(["--server", "localhost:8000"], "no http or https address"),
     (["--server", "http://h:1", "--server", "http://h:1"], "name each"),
     (["--server", "http://h:1", "--token-file", "/nowhere/at/all"], "cannot be read")],
)  # fmt: skip
def test_servers_that_cannot_be(arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert app.main(arguments) == 2
    assert words in capsys.readouterr().err


def test_servers_instead_of_engines(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        app.parse_arguments(["--server", "http://h:1", "--no-engine"])
    assert "exclude each other" in capsys.readouterr().err


def test_servers_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DFLASH_VIZ_SERVERS", "a=http://h:1  http://h:2")
    assert app.parse_arguments([]).server == ["a=http://h:1", "http://h:2"]
    assert app.parse_arguments(["--server", "http://h:3"]).server == ["http://h:3"]
    assert app.parse_arguments(["--no-engine"]).server == []
