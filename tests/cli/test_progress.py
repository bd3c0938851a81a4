"""What a benchmark shows in the terminal before it begins and while it runs."""

from __future__ import annotations

import io
from collections.abc import AsyncGenerator
from typing import cast

import pytest
from rich.console import Console

from dflash_viz import cli
from dflash_viz.bench.job import BenchJob, Progress
from dflash_viz.results import Result, Setting
from tests.cli.conftest import Shown
from tests.cli.test_faults import HOSTILE, controls
from tests.measured import empty_result

FEW = "Few questions (3) for 16 at once"


class Told:
    """A job that measures nothing and says what it was given."""

    total = 3

    def __init__(self, concurrency: int = 1) -> None:
        asked = [Setting(f"lane{HOSTILE}", "dflash", 5, 0.0, concurrency)]
        self.result: Result = empty_result(asked, 3)

    async def run(self) -> AsyncGenerator[Progress]:
        yield Progress(1, 3, f"engine{HOSTILE}\n\nsays", None, 0)
        yield Progress(3, 3, f"done{HOSTILE}")


def run(job: Told) -> None:
    assert not cli._run(cast(BenchJob, job))


def test_names_and_messages_command_no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = io.StringIO()
    monkeypatch.setattr(cli, "_terminal", Console(file=shown, force_terminal=False, width=300))
    run(Told())
    assert controls(shown.getvalue()) == []
    assert "done\\u001b]0;mine\\u0007" in shown.getvalue()


def test_every_line_of_the_bar_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    monkeypatch.setattr(
        "rich.progress.Progress.update", lambda *_, description, completed: told.append(description)
    )
    run(Told())
    assert controls("".join(told)) == []
    assert "\n" not in "".join(told)
    assert told[0].startswith("lane\\u001b]0;mine")
    assert told[0].endswith("\\u202e says")


def test_few_questions_for_many_at_once_are_told_before(capsys: Shown) -> None:
    run(Told(concurrency=16))
    assert capsys.readouterr().err.startswith(FEW)
    run(Told())
    assert FEW not in capsys.readouterr().err
