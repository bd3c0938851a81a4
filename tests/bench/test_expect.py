"""Recording a pair's expectations again: which rows go, and which stay."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from dflash_viz.bench import expect
from dflash_viz.metrics.measured import Expectation, read_expectations, write_expectations
from dflash_viz.results import write_result
from tests.bench.test_validation import row
from tests.measured import made_result, made_settings


@pytest.fixture
def known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Expectation]:
    """Expectations of two pairs, published and recorded, in place of the product's own."""
    rows = [
        row(source="a paper"),
        row(source="recorded 2025-01-01 by version 0.1 on CPU"),
        row(source="recorded 2025-01-01 by version 0.1 on CPU", dataset="gsm8k"),
    ]
    folder = tmp_path / "expectations"
    folder.mkdir()
    write_expectations(rows, folder / "embedded.json")
    write_expectations([row(pair="other", source="recorded long ago")], folder / "other.json")
    monkeypatch.setattr(expect, "EXPECTATIONS", folder)
    return rows


def test_recorded_rows_are_replaced_and_published_ones_stay(
    known: list[Expectation],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    write_result(made_result(made_settings(("dflash", "none"))), tmp_path / "result.jsonl")
    monkeypatch.setattr(sys, "argv", ["expect", str(tmp_path / "result.jsonl"), "--note", "two cores"])
    expect.main()
    published, elsewhere, fresh, other = read_expectations(tmp_path / "expectations")
    assert [published, elsewhere] == [known[0], known[2]]
    assert (fresh.pair, fresh.dataset, fresh.note) == ("embedded", "builtin", "two cores")
    assert fresh.source.startswith("recorded 2026-01-01")
    assert other.pair == "other"
    assert capsys.readouterr().out == f"embedded: builtin, dflash, K = 5: AL {fresh.al:.2f}\n"
