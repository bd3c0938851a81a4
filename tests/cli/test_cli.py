"""The command line without engines: what it shows and writes, and with which exit status it ends."""

from __future__ import annotations

import gzip
import json
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pandas as pd
import pytest

from dflash_viz import cli
from dflash_viz.bench.job import BenchJob
from dflash_viz.results import Result, read_result, write_result
from dflash_viz.trace import read_trace
from dflash_viz.views.export import FILES
from dflash_viz.views.measured_files import FORMATS
from dflash_viz.weights.resolver import ROOT
from tests.bench.made import written
from tests.bench.test_validation import row
from tests.cli.conftest import GALLERY, Shown, run
from tests.measured import change_answers, made_result, made_settings

NOWHERE = "title: Nowhere\nlanes:\n  - {{name: {lane}, method: none, target: ./nowhere}}\n"


@pytest.fixture
def result(tmp_path: Path) -> Result:
    """A result in the folder ``result``."""
    made = made_result(num_questions=6)
    (tmp_path / "result").mkdir()
    write_result(made, tmp_path / "result" / "result.jsonl")
    return made


def test_a_report_is_printed_as_markdown(
    result: Result, monkeypatch: pytest.MonkeyPatch, capsys: Shown
) -> None:
    assert run(monkeypatch, "report", "result") == 0
    shown = capsys.readouterr()
    assert shown.out.startswith("## embedded-cpu on builtin")
    assert "| dflash |" in shown.out
    assert shown.err == ""
    assert run(monkeypatch, "report", "result/result.jsonl") == 0
    assert capsys.readouterr().out == shown.out


def test_a_report_for_machines_is_one_document(
    result: Result, monkeypatch: pytest.MonkeyPatch, capsys: Shown
) -> None:
    assert run(monkeypatch, "report", "result", "--json") == 0
    shown = capsys.readouterr()
    made = json.loads(shown.out)
    assert [one["lane"] for one in made["settings"]] == ["dflash", "eagle3", "ngram", "none"]
    accepted = sum(one.num_accepted for one in result.answers_of(0))
    drafts = sum(one.num_drafts for one in result.answers_of(0))
    assert made["settings"][0]["figures"]["al"]["value"] == pytest.approx(1 + accepted / drafts)
    assert shown.err == ""


def test_a_report_judges_by_the_shipped_expectations(
    monkeypatch: pytest.MonkeyPatch, capsys: Shown, tmp_path: Path
) -> None:
    write_result(made_result(pair="embedded"), tmp_path / "mine.jsonl")
    assert run(monkeypatch, "report", "mine.jsonl", "--json") == 0
    made = json.loads(capsys.readouterr().out)
    assert "embedded" in {one["expectation"]["pair"] for one in made["verdicts"]}


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_of_a_report(
    name: str, result: Result, monkeypatch: pytest.MonkeyPatch, capsys: Shown, tmp_path: Path
) -> None:
    assert run(monkeypatch, "report", "result", "--to", name, "--out", "new/folder") == 0
    files = [tmp_path / line for line in capsys.readouterr().out.splitlines()]
    assert files
    assert set((tmp_path / "new" / "folder").iterdir()) == set(files)
    assert all(file.stat().st_size > 0 for file in files)
    if name == "csv":
        assert len(pd.read_csv(tmp_path / "new" / "folder" / "answers.csv")) == len(result.answers)


def test_the_files_written_for_machines(
    result: Result, monkeypatch: pytest.MonkeyPatch, capsys: Shown, tmp_path: Path
) -> None:
    assert run(monkeypatch, "report", "result", "--to", "json, markdown", "--json", "--out", "w") == 0
    assert json.loads(capsys.readouterr().out) == ["w/result.json", "w/result.md"]
    assert run(monkeypatch, "trace", GALLERY / "chat", "--to", "csv", "--json", "--out", "w") == 0
    assert json.loads(capsys.readouterr().out) == ["w/steps.csv"]
    assert {file.name for file in (tmp_path / "w").iterdir()} == {"result.json", "result.md", "steps.csv"}


def test_two_results_are_compared(
    result: Result, monkeypatch: pytest.MonkeyPatch, capsys: Shown, tmp_path: Path
) -> None:
    other = made_result(made_settings(("dflash", "none")), num_questions=6)
    change_answers(other, 0, decode_s=1.0)
    write_result(other, tmp_path / "other.jsonl")
    assert run(monkeypatch, "report", "result", "--compare", "other.jsonl", "--json") == 0
    made = json.loads(capsys.readouterr().out)
    assert (made["format"], made["same_questions"]) == ("dflash-viz-compared", True)
    assert (made["a"]["pair"], made["b"]["num_questions"]) == ("embedded-cpu", 6)
    assert [one["lane"] for one in made["settings"]] == ["dflash", "none"]
    assert made["settings"][0]["speed_ratio"] == pytest.approx(
        sum(one.decode_s for one in result.answers_of(0)) / 6
    )
    assert made["settings"][1]["al_difference"] is None, "nothing is drafted"
    assert run(monkeypatch, "report", "result", "--compare", "other.jsonl") == 0
    shown = capsys.readouterr().out
    assert shown.startswith("## Two results beside each other\n")
    assert "| dflash | " in shown
    assert "Differences and ratios are B against A" in shown
    assert all(len(line.split("|")) < 15 for line in shown.splitlines()), "columns that can be read"


def test_traces_are_summed_up(monkeypatch: pytest.MonkeyPatch, capsys: Shown) -> None:
    assert run(monkeypatch, "trace", GALLERY / "bad") == 0
    shown = capsys.readouterr()
    for lane in ("dflash", "eagle3", "ngram", "none"):
        assert f"{lane} ({lane}, K = " in shown.out
    assert "  ! Acceptance is low at every position" in shown.out
    assert "What to do: Ask a question from the drafter's own field first" in shown.out
    # Every figure that is shown is defined.
    for figure in cli_figures(shown.out):
        assert f"\n{figure}: " in shown.out
    assert shown.err == ""


def cli_figures(text: str) -> set[str]:
    """The labels of the figures in a summary."""
    lines = (line for line in text.splitlines() if line.startswith("  ") and line[2] not in " !")
    labels = {line[2:26].strip() for line in lines if not line.startswith(("  ended:", "  notice:"))}
    assert len(labels) > 5
    return labels


def test_traces_for_machines(monkeypatch: pytest.MonkeyPatch, capsys: Shown) -> None:
    assert run(monkeypatch, "trace", GALLERY / "chat", "--json") == 0
    shown = capsys.readouterr()
    made = json.loads(shown.out)
    assert [one["lane"] for one in made] == ["dflash", "eagle3", "ngram", "none"]
    counts = [read_trace(file).end for file in sorted((GALLERY / "chat").iterdir())]
    assert [one["check"] for one in made] == [end.check.message for end in counts if end]
    assert made[0]["figures"]["speedup"] is not None
    assert made[0]["agrees"] is True
    assert shown.err == ""


def test_one_trace_has_nothing_to_be_faster_than(monkeypatch: pytest.MonkeyPatch, capsys: Shown) -> None:
    assert run(monkeypatch, "trace", GALLERY / "chat" / "1-dflash.jsonl.gz", "--json") == 0
    (made,) = json.loads(capsys.readouterr().out)
    assert made["figures"]["speedup"] is None
    assert made["K"] == 5


def test_other_scripts_are_written_as_they_are(monkeypatch: pytest.MonkeyPatch, capsys: Shown) -> None:
    file = GALLERY / "chinese" / "1-dflash.jsonl.gz"
    question = read_trace(file).header.question
    assert not question.isascii()
    assert run(monkeypatch, "trace", file, "--json") == 0
    assert question in capsys.readouterr().out


@pytest.mark.parametrize("name", FILES)
def test_every_format_of_traces(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: Shown, tmp_path: Path
) -> None:
    assert run(monkeypatch, "trace", GALLERY / "chat", "--to", name, "--out", "new/folder") == 0
    file = Path("new/folder") / FILES[name][0]
    assert capsys.readouterr().out == f"{file}\n"
    assert (tmp_path / file).stat().st_size > 1000


def test_a_damaged_trace_says_so(monkeypatch: pytest.MonkeyPatch, capsys: Shown, tmp_path: Path) -> None:
    data = gzip.decompress((GALLERY / "chat" / "1-dflash.jsonl.gz").read_bytes())
    (tmp_path / "cut.jsonl").write_bytes(data[: len(data) // 2])
    assert run(monkeypatch, "trace", "cut.jsonl") == 0
    shown = capsys.readouterr().out
    assert "  notice: " in shown
    assert "ended: cut short; check: none" in shown


def test_bad_lines_are_skipped_when_asked(
    monkeypatch: pytest.MonkeyPatch, capsys: Shown, tmp_path: Path
) -> None:
    (tmp_path / "nowhere.yaml").write_text(NOWHERE.format(lane="alone"))
    written(tmp_path / "mine.jsonl", {"turns": ["One?"]}, "{no JSON", {"turns": ["Two?"]})
    options = ("--preset", "nowhere.yaml", "--skip-bad-lines", "--out", "made")
    assert run(monkeypatch, "bench", "mine.jsonl", *options) == 1
    made = read_result(tmp_path / "made")
    assert [one.turns for one in made.questions.values()] == [["One?"], ["Two?"]]
    (skipped,) = made.plan.dataset.skipped
    assert skipped.startswith("mine.jsonl, line 2: ")


@pytest.mark.parametrize("lane", ["alone", "'[/] [red]alone'"])
def test_an_engine_that_cannot_start_is_a_failure(
    lane: str, monkeypatch: pytest.MonkeyPatch, capsys: Shown, tmp_path: Path
) -> None:
    """The lane's target is nowhere, which is known before an engine starts."""
    (tmp_path / "nowhere.yaml").write_text(NOWHERE.format(lane=lane))
    folder = tmp_path / ("long" * 20) / ("name" * 20)
    order = ("--preset", "nowhere.yaml", "--limit", "2", "--k", "1,2", "--concurrency", "2,1", "--seed", "5")
    assert run(monkeypatch, "bench", *order, "--max-tokens", "7", "--json", "--out", folder) == 1
    shown = capsys.readouterr()
    made = json.loads(shown.out)
    assert [one["setting"] for one in made["failures"]] == [0, 1]
    assert "There is no model './nowhere'" in made["failures"][0]["message"]
    # In one piece, however narrow the terminal is, so that it can be copied.
    assert f"The result is in {folder}\n" in shown.err
    plan = read_result(folder).plan
    assert [one.concurrency for one in plan.settings] == [2, 1]
    assert (plan.max_tokens, plan.seed, plan.dataset.num_questions) == (7, 5, 2)
    assert run(monkeypatch, "bench", "--resume", folder, "--json") == 1
    again = json.loads(capsys.readouterr().out)
    assert [one["setting"] for one in again["failures"]] == [0, 1]


def test_a_benchmark_that_was_stopped_says_how_it_goes_on(
    monkeypatch: pytest.MonkeyPatch, capsys: Shown, tmp_path: Path
) -> None:
    monkeypatch.setattr(cli, "_run", lambda job: True)
    (tmp_path / "nowhere.yaml").write_text(NOWHERE.format(lane="alone"))
    assert run(monkeypatch, "bench", "--preset", "nowhere.yaml", "--limit", "1", "--out", "my result") == 130
    told = capsys.readouterr().err
    assert told.endswith("Go on with it: python -m dflash_viz bench --resume 'my result'\n")


def test_without_a_folder_the_result_is_in_the_cache(
    monkeypatch: pytest.MonkeyPatch, capsys: Shown, tmp_path: Path
) -> None:
    (tmp_path / "nowhere.yaml").write_text(NOWHERE.format(lane="alone"))
    assert run(monkeypatch, "bench", "--preset", "nowhere.yaml", "--limit", "1") == 1
    shown = capsys.readouterr()
    (folder,) = (tmp_path / "cache" / "results").iterdir()
    assert f"The result is in {folder}\n" in shown.err
    assert shown.out.startswith("## nowhere on builtin")


@pytest.fixture
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Sequence[str]:
    """Options of a check of two benchmarks, neither of which can start its engine."""
    preset = NOWHERE.format(lane="wide").replace("none", "dflash, drafter: ./nobody")
    (tmp_path / "nowhere.yaml").write_text(preset)
    rows = [row(num_questions=2), row(num_questions=2, temperature=1.0, thinking=False, target="Qwen/Qwen3")]
    monkeypatch.setattr(cli, "read_expectations", lambda: rows)
    return ("--pair", "embedded", "--preset", "nowhere.yaml")


def test_a_check_that_could_not_be_made_did_not_pass(
    nowhere: Sequence[str], monkeypatch: pytest.MonkeyPatch, capsys: Shown, tmp_path: Path
) -> None:
    assert run(monkeypatch, "validate", *nowhere, "--out", "made") == 1
    shown = capsys.readouterr()
    verdicts = shown.out[shown.out.index("\nValidation FAILED.\n") :]
    assert verdicts.count("- – not comparable: dflash on builtin (the first turn of each), K = 5, ") == 2
    assert verdicts.count("  - the engine did not start: There is no model './nowhere'") == 2
    assert shown.out.count("## nowhere on builtin") == 2, "the report of each"
    folders = ["made/1-builtin", "made/2-builtin"]
    assert [line for line in shown.err.splitlines() if line.startswith("The result is in")] == [
        f"The result is in {folder}" for folder in folders
    ]
    temperatures = [read_result(tmp_path / folder).plan.settings[0].temperature for folder in folders]
    assert temperatures == [0.0, 1.0]


def test_a_check_for_machines_is_one_document(
    nowhere: Sequence[str], monkeypatch: pytest.MonkeyPatch, capsys: Shown
) -> None:
    assert run(monkeypatch, "validate", *nowhere, "--json") == 1
    made = json.loads(capsys.readouterr().out)
    assert made["passed"] is False
    assert [(one["passed"], one["findings"]) for one in made["checks"]] == [(False, {})] * 2
    outcomes = [verdict["outcome"] for one in made["checks"] for verdict in one["verdicts"]]
    assert outcomes == ["not comparable"] * 2


def test_what_is_run_and_what_cannot_be_judged_is_said_before(
    nowhere: Sequence[str], monkeypatch: pytest.MonkeyPatch, capsys: Shown
) -> None:
    said: list[str] = []

    def stopped(job: BenchJob) -> bool:
        said.append(capsys.readouterr().err)
        return False

    monkeypatch.setattr(cli, "_run", stopped)
    assert run(monkeypatch, "validate", *nowhere) == 1
    first, second = said
    assert first.startswith(
        "2 benchmarks, one after another, are run; how long it takes is known after the first answers:\n"
        "1. builtin, 2 questions (the first turn of each), lanes wide of nowhere.yaml: K = 5; temperature 0; "
        "16 at once; at most 64 tokens\n"
        "   - expected: dflash on builtin (the first turn of each), K = 5, temperature 0: AL, pooled, at "
        "least 1.80 (a test)\n"
    )
    hopeless = [line for line in first.splitlines() if "will not be comparable" in line]
    assert len(hopeless) == 2
    assert hopeless[0].endswith("temperature 0: the target is nowhere, not target")
    assert "at most 64 tokens; not thinking\n" in first
    assert second.endswith("Benchmark 2 of 2\n")


def test_questions_that_do_not_fit_are_said_before(
    monkeypatch: pytest.MonkeyPatch, capsys: Shown, tmp_path: Path
) -> None:
    rows = [row(dataset="gsm8k", num_questions=5, dataset_hash="another")]
    monkeypatch.setattr(cli, "read_expectations", lambda: rows)
    monkeypatch.setattr(cli, "_run", lambda job: True)
    written(tmp_path / "mine.jsonl", {"question": "1 + 1?", "answer": "#### 2"})
    assert run(monkeypatch, "validate", "--pair", "embedded", "--data", "mine.jsonl", "--out", "made") == 130
    told = capsys.readouterr().err
    assert "- will not be comparable: dflash on gsm8k (the first turn of each), K = 5, " in told
    assert "temperature 0: 1 questions, not 5\n" in told


def test_a_check_that_was_stopped_says_how_it_goes_on(
    nowhere: Sequence[str], monkeypatch: pytest.MonkeyPatch, capsys: Shown, tmp_path: Path
) -> None:
    real = cli._run

    def second_stopped(job: BenchJob) -> bool:
        if job.folder.name == "1-builtin":
            return real(job)
        job.close()
        return True

    monkeypatch.setattr(cli, "_run", second_stopped)
    options = (*nowhere, "--dataset", "builtin", "--lanes", "wide")
    assert run(monkeypatch, "validate", *options, "--out", "my results") == 130
    told = capsys.readouterr().err
    (way,) = [line for line in told.splitlines() if line.startswith("Go on with it: ")]
    words = shlex.split(way.removeprefix("Go on with it: "))
    assert words[:4] == ["python", "-m", "dflash_viz", "validate"]
    assert words[-4:] == ["--resume", "my results/1-builtin", "--resume", "my results/2-builtin"]
    monkeypatch.setattr(cli, "_run", real)
    results = tmp_path / "my results"
    before = sorted(results.rglob("*"))
    assert run(monkeypatch, *words[3:], "--json") == 1
    assert len(json.loads(capsys.readouterr().out)["checks"]) == 2
    assert sorted(results.rglob("*")) == before, "it went on with what there was"
    assert run(monkeypatch, *words[3:], "--out", "another") == 2
    assert capsys.readouterr().err.startswith("--out is for a new result")


def test_a_check_that_has_one_result_begins_the_other(
    nowhere: Sequence[str], monkeypatch: pytest.MonkeyPatch, capsys: Shown
) -> None:
    assert run(monkeypatch, "validate", *nowhere, "--out", "made") == 1
    assert run(monkeypatch, "validate", *nowhere, "--resume", "made/2-builtin", "--out", "new") == 1
    told = capsys.readouterr().err.splitlines()
    assert [line.split()[-1] for line in told if line.startswith("The result is in")][2:] == [
        "new/1-builtin",
        "made/2-builtin",
    ]


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("bench", ["qwen3-8b", "dflash,", "eagle3,", "Exit", "status", "1:", "Example:"]),
        ("validate", ["qwen3-4b,", "embedded,", "--resume", "Example:"]),
        ("report", ["replaced."]),
    ],
)
def test_help_says_what_there_is(
    command: str, words: Sequence[str], monkeypatch: pytest.MonkeyPatch, capsys: Shown
) -> None:
    assert run(monkeypatch, command, "--help") == 0
    shown = capsys.readouterr().out.split()
    assert [word for word in words if not any(word.strip(",.") in one for one in shown)] == []


def test_help_needs_neither_engine_nor_page() -> None:
    code = (
        "import runpy, sys; sys.modules.update(vllm=None, torch=None, transformers=None, gradio=None);"
        "sys.argv = ['dflash_viz', '--help']; runpy.run_module('dflash_viz', run_name='__main__')"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, timeout=120, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert all(command in done.stdout for command in ("bench", "validate", "report", "trace"))
    assert done.stderr == ""
