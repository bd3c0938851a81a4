"""What the command line says of what is wrong: one line that the user can act on, and nothing that a file or
model says commands the terminal."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

from dflash_viz import cli
from dflash_viz.results import Failure, Setting, write_result
from dflash_viz.trace import Check, Message, read_trace
from tests.bench.made import written
from tests.cli.conftest import GALLERY, Shown, never, run
from tests.measured import change_answers, made_result

HOSTILE = "\x1b]0;mine\x07\x1b[2J\x9b31m\u202e\r"


def controls(text: str) -> list[str]:
    """What of a text a terminal would obey, or show in another order."""
    return [c for c in text if (ord(c) < 32 and c not in "\n\t") or 127 <= ord(c) < 160 or c == "\u202e"]


def hostile_result(folder: Path) -> None:
    """A result whose every text would command a terminal."""
    settings = [Setting(f"a{HOSTILE}", "dflash", 5, 0.0, 1), Setting(f"b{HOSTILE}", "none", 0, 0.0, 1)]
    made = made_result(settings, num_questions=3, pair=f"pair{HOSTILE}")
    made.failures = [Failure(0, f"failed {HOSTILE}", f"q{HOSTILE}")]
    check = Check(False, f"disagrees {HOSTILE}")
    for number in range(2):
        change_answers(made, number, text=HOSTILE, kind=f"kind{HOSTILE}", check=check)
    folder.mkdir()
    write_result(made, folder / "result.jsonl")


def hostile_trace(file: Path) -> None:
    """A trace whose every text would command a terminal."""
    trace = read_trace(GALLERY / "chat" / "1-dflash.jsonl.gz")
    assert trace.end is not None
    asked = [Message("user", f"why{HOSTILE}")]
    trace.header = msgspec.structs.replace(trace.header, lane=f"lane{HOSTILE}", messages=asked)
    trace.end = msgspec.structs.replace(trace.end, check=Check(False, f"disagrees {HOSTILE}"))
    file.write_bytes(b"".join(msgspec.json.encode(line) + b"\n" for line in trace.lines()))


@pytest.mark.parametrize(
    "arguments",
    [
        ("report", "bad"),
        ("report", "bad", "--json"),
        ("report", "bad", "--compare", "bad"),
        ("report", "bad", "--compare", "bad", "--json"),
        ("trace", "bad.jsonl"),
        ("trace", "bad.jsonl", "--json"),
        ("report", f"bad{HOSTILE}"),
        ("trace", f"bad{HOSTILE}"),
        ("bench", f"bad{HOSTILE}"),
        ("bench", "--preset", f"bad{HOSTILE}.yaml"),
        ("bench", "--lanes", HOSTILE),
        ("validate", "--pair", HOSTILE),
    ],
)
def test_nothing_commands_the_terminal(
    arguments: Sequence[str], monkeypatch: pytest.MonkeyPatch, capsys: Shown, tmp_path: Path
) -> None:
    monkeypatch.setattr(cli, "_run", never)
    hostile_result(tmp_path / "bad")
    hostile_trace(tmp_path / "bad.jsonl")
    status = run(monkeypatch, *arguments)
    shown = capsys.readouterr()
    assert controls(shown.out + shown.err) == []
    assert (status, shown.err.count("\n")) == ((2, 1) if HOSTILE in "".join(arguments) else (0, 0))
    if "--json" in arguments:
        assert "\x1b]0;mine" in str(json.loads(shown.out)) or "\\x1b]0;mine" in str(json.loads(shown.out))


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("bench", "gsm9k"), "There is no data set 'gsm9k'. Known are builtin, gsm8k, "),
        (("bench", "--lanes", "dflash,nobody"), "There is no lane 'nobody'. Lanes: dflash, eagle3, ngram, "),
        (("bench", "--preset", "auto"), "--preset auto is for the app alone; a measurement names its pair. "),
        (("validate", "--pair", "embedded", "--preset", "auto"), "--preset auto is for the app alone; "),
        (("bench", "--preset", "nothing"), "There is no preset 'nothing'. Known presets: embedded-cpu, "),
        (("bench", "--k", "x"), "--k takes numbers with commas between, not 'x'."),
        (("bench", "--k", "5;7"), "--k takes numbers with commas between, not '5;7'."),
        (("bench", "--k", "5.5"), "--k takes numbers with commas between, not '5.5'."),
        (("bench", "--k", "3,0"), "K must be at least 1, not 0."),
        (("bench", "--temperature", "warm"), "--temperature takes numbers with commas between, not 'warm'."),
        (("bench", "--temperature", "nan"), "The temperature must be from 0 to 2."),
        (("bench", "--temperature", ","), "Choose at least one temperature and one concurrency."),
        (("bench", "--concurrency", "many"), "--concurrency takes numbers with commas between, not 'many'."),
        (("bench", "--concurrency", "1,500"), "The concurrency must be from 1 to 128."),
        (("bench", "--max-tokens", "0"), "An answer must have at least 1 token."),
        (("bench", "--limit", "0"), "Ask at least 1 question."),
        (("bench", "gsm8k", "--data", "missing"), "There is no file missing. Check the path."),
        (("bench", "--data", "mine.jsonl"), "The built-in questions need no file: leave out mine.jsonl"),
        (("bench", "bad.jsonl"), "bad.jsonl, line 3: it is not JSON that can be read ("),
        (("bench", "gsm8k", "--data", "bad.jsonl"), "bad.jsonl, line 1: "),
        (("bench", "--resume", "nothing"), "nothing holds no result: No such file or directory."),
        (("bench", "--resume", "empty"), "empty holds no result: No such file or directory."),
        (
            ("bench", "gsm8k", "--k", "3", "--seed", "0", "--resume", "taken", "--json"),
            "--resume goes on with what the result was begun with: leave out the data set gsm8k, --k, ",
        ),
        (("bench", "--out", "taken"), "taken holds a result already: resume it, or choose another folder."),
        (("bench", "--out", "bad.jsonl"), "bad.jsonl cannot be written: File exists."),
        (("bench", "--out", "bad.jsonl/in"), "bad.jsonl/in cannot be written: Not a directory."),
        (
            ("validate", "--pair", "nobody"),
            "There are no expectations for the pair 'nobody'. Pairs: embedded,",
        ),
        (
            ("validate", "--pair", "embedded", "--dataset", "mbpp"),
            "The pair 'embedded' has no expectations on 'mbpp'. Data sets: builtin",
        ),
        (
            ("validate", "--pair", "embedded", "--lanes", "none"),
            "The preset 'embedded-cpu' has no lane of none with a method in dflash",
        ),
        (
            ("validate", "--pair", "embedded", "--drafter", "x", "--lanes", "ngram"),
            "--drafter replaces the drafter of one lane: choose it with --lanes",
        ),
        (("validate", "--pair", "embedded", "--out", "taken", "--lanes", "dflash"), "taken holds a result"),
        (
            ("validate", "--pair", "embedded", "--resume", "taken"),
            "taken holds no result of this check: give the pair, data set, preset and lanes that it ",
        ),
        (
            ("validate", "--pair", "embedded", "--resume", "nothing"),
            "nothing holds no result: No such file or directory.",
        ),
        (("report", "nothing"), "nothing holds no result: No such file or directory."),
        (("report", "empty"), "empty holds no result: No such file or directory."),
        (("report", "bad.jsonl"), "This is no result of a benchmark: its first line is not a result's head."),
        (("report", "taken", "--to", "csv,xls"), "There is no format 'xls'. Formats: csv, parquet, json, "),
        (("report", "taken", "--to", "csv", "--out", "bad.jsonl"), "bad.jsonl: File exists"),
        (("report", "taken", "--compare", "nothing"), "nothing holds no result: No such file or directory."),
        (
            ("report", "taken", "--compare", "taken", "--to", "csv"),
            "--to writes one result, --compare prints two: leave one of them out.",
        ),
        (("report", "taken", "--to", "json,markdown"), "result.md is there already: choose another folder"),
        (
            ("trace", str(GALLERY / "chat"), "--to", "csv"),
            "steps.csv is there already: choose another folder",
        ),
        (("trace", "nothing"), "nothing cannot be read: No such file or directory."),
        (("trace", "empty"), "empty holds no traces: no file in it ends in .jsonl or .jsonl.gz."),
        (
            ("trace", str(GALLERY / "chat"), "--to", "xls"),
            "There is no format 'xls'. Formats: csv, parquet, ",
        ),
        (("trace", str(GALLERY / "chat"), "--to", "csv", "--out", "bad.jsonl"), "bad.jsonl: File exists"),
    ],
)
def test_what_the_user_can_mend_is_one_line(
    arguments: Sequence[str], told: str, monkeypatch: pytest.MonkeyPatch, capsys: Shown, tmp_path: Path
) -> None:
    monkeypatch.setattr(cli, "_run", never)
    written(tmp_path / "bad.jsonl", {"turns": ["One?"]}, {"turns": ["Two?"]}, "{no JSON")
    (tmp_path / "empty").mkdir()
    (tmp_path / "taken").mkdir()
    write_result(made_result(num_questions=1), tmp_path / "taken" / "result.jsonl")
    for name in ("result.md", "steps.csv"):
        (tmp_path / name).write_text("mine")
    before = sorted(tmp_path.rglob("*"))
    assert run(monkeypatch, *arguments) == 2
    shown = capsys.readouterr()
    assert shown.err.startswith(told)
    assert shown.err.count("\n") == 1
    assert shown.err.endswith("\n")
    assert shown.out == ""
    assert sorted(tmp_path.rglob("*")) == before, "nothing is left behind"
    assert (tmp_path / "result.md").read_text() == "mine"


@pytest.mark.parametrize(
    "arguments",
    [("bench", "--limit", "few"), ("validate",), ("report",), ("bench", "--turns", "all"), ("nothing",)],
)
def test_wrong_use_is_explained(
    arguments: Sequence[str], monkeypatch: pytest.MonkeyPatch, capsys: Shown
) -> None:
    monkeypatch.setattr(cli, "_run", never)
    assert run(monkeypatch, *arguments) == 2
    shown = capsys.readouterr()
    assert "Usage: " in shown.err
    assert "Traceback" not in shown.err
    assert shown.out == ""
