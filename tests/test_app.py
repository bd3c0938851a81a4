"""The command line: mistakes get a sentence that says what to do."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import pytest

import app
from dflash_viz.lanes.auto import Choice
from tests.lanes import smi
from tests.space.made import VIEWER, spacefile

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


def test_an_address_of_another_machine(capsys: pytest.CaptureFixture[str]) -> None:
    assert app.main(["--no-engine", "--host", "192.0.2.1", "--port", "7999"]) == 2
    assert "192.0.2.1 is no address of this machine" in capsys.readouterr().err


@pytest.mark.parametrize("port", ["99999", "0", "x", "-1"])
def test_what_is_no_port(port: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        app.main(["--no-engine", "--port", port])
    assert "a port is a number from 1 to 65535" in capsys.readouterr().err


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


def _settled(*arguments: str) -> app.Settings:
    return app.settle(app.parse_arguments(list(arguments)))


def test_a_preset_is_chosen_for_the_machine(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    smi.put_smi(monkeypatch, tmp_path, smi.H200.replace("143155", "12000"))
    monkeypatch.setattr("dflash_viz.lanes.auto.is_cpu_build", lambda: False)
    assert _settled("--preset", "auto").preset == "embedded-cuda"
    said = capsys.readouterr().out
    assert said.startswith(
        "Preset embedded-cuda: SmolLM2-135M-Instruct on a GPU. NVIDIA H200 has 12.6 GB free"
    )
    assert "Not qwen3-4b: Lane 'dflash' needs 17.3 GB of GPU memory" in said
    monkeypatch.setattr("dflash_viz.lanes.auto.is_cpu_build", lambda: True)
    assert _settled("--preset", "auto").preset == "embedded-cpu"
    assert "is the one for CPUs" in capsys.readouterr().out


def test_where_no_pair_fits_the_app_says_so_and_ends(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    smi.put_smi(monkeypatch, tmp_path, smi.T4)
    monkeypatch.setattr("dflash_viz.lanes.auto.is_cpu_build", lambda: False)
    assert app.main(["--preset", "auto"]) == 2
    assert "finds no pair for this GPU. Not embedded-cuda" in capsys.readouterr().err


def test_a_space_may_leave_the_preset_to_its_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(app, "choose_preset", lambda: Choice("qwen3-4b", "There is room."))
    assert _settled("--spacefile", str(spacefile(tmp_path, preset="auto"))).preset == "qwen3-4b"
    viewer = spacefile(tmp_path, preset="auto", **VIEWER)
    assert _settled("--spacefile", str(viewer)).preset == "embedded-cpu"


@pytest.mark.parametrize("more", [["--no-engine"], ["--server", "http://h:1"]])
def test_without_engines_there_is_nothing_to_choose(
    more: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(app, "choose_preset", None)
    assert _settled("--preset", "auto", *more).preset == "embedded-cpu"
    assert capsys.readouterr().out == ""
    assert _settled("--preset", "mine", *more).preset == "mine"
