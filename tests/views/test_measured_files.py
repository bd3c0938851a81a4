"""What leaves a benchmark for other tools can be read there."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from dflash_viz.metrics.measured import MEASURED, setting_values
from dflash_viz.results import Result
from dflash_viz.views.measured_files import FORMATS, write_measured
from dflash_viz.views.measured_report import document
from dflash_viz.views.measured_tables import answers_frame, samples_frame, settings_frame
from tests.measured import empty_result, made_result, made_settings
from tests.views.made_measured import HOSTILE, busy, hostile_result, verdicts

TABLES = ("settings", "answers", "kinds", "pairs", "verdicts", "samples")


@pytest.fixture(scope="module")
def result() -> Result:
    return made_result()


@pytest.mark.parametrize("kind", FORMATS)
def test_every_format_is_written(result: Result, tmp_path: Path, kind: str) -> None:
    files = write_measured(result, verdicts(result), kind, tmp_path / "deep" / "er")
    assert files
    assert sorted(files) == sorted((tmp_path / "deep" / "er").iterdir())
    assert all(file.stat().st_size > 100 for file in files)
    if kind in ("csv", "parquet"):
        assert [file.name for file in files] == [f"{name}.{kind}" for name in TABLES]


def test_an_unknown_format_names_the_known_ones(result: Result, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"'xlsx'.*csv, parquet, json, markdown, html"):
        write_measured(result, [], "xlsx", tmp_path)


def test_csv_round_trip(tmp_path: Path) -> None:
    result = busy(5)
    write_measured(result, [], "csv", tmp_path)
    for name, frame in (("settings", settings_frame(result)), ("answers", answers_frame(result))):
        read = pd.read_csv(tmp_path / f"{name}.csv", keep_default_na=False, na_values={}, dtype=str)
        assert list(read.columns) == list(frame.columns)
        for column in ("label", "K", "concurrency"):
            assert read[column].tolist() == frame[column].astype(str).tolist(), column
    values = pd.read_csv(tmp_path / "settings.csv")
    assert values.speed.tolist() == settings_frame(result).speed.tolist()
    assert values.al.isna().tolist() == settings_frame(result).al.isna().tolist()


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t", "\r", "＝"])
def test_no_cell_is_a_formula(tmp_path: Path, start: str) -> None:
    formula = f'{start}HYPERLINK("http://x","y")'
    result = hostile_result(formula)
    write_measured(result, verdicts(result, note=formula, source=formula, pair=formula), "csv", tmp_path)
    found = 0
    for name in TABLES:
        with (tmp_path / f"{name}.csv").open(newline="") as file:
            cells = [cell for line in csv.reader(file) for cell in line if "HYPERLINK" in cell]
        assert all(cell.startswith("'") for cell in cells), name
        found += len(cells)
    assert found > 50


def test_parquet_round_trip(tmp_path: Path) -> None:
    for result in (busy(3), hostile_result(), empty_result(made_settings(), 3)):
        write_measured(result, [], "parquet", tmp_path)
        for name, frame in (
            ("settings", settings_frame(result)),
            ("answers", answers_frame(result)),
            ("samples", samples_frame(result)),
        ):
            pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / f"{name}.parquet"), frame)


def read_json(result: Result, folder: Path) -> dict[str, Any]:
    (file,) = write_measured(result, verdicts(result), "json", folder)

    def refuse(word: str) -> None:
        raise AssertionError(word)

    return json.loads(file.read_text(), parse_constant=refuse)


def test_the_document_holds_numbers_and_their_definitions(result: Result, tmp_path: Path) -> None:
    read = read_json(result, tmp_path)
    assert list(read) == [
        "format", "version", "result", "figures", "intervals", "settings", "pairs", "verdicts", "quality",
        "warnings", "checks", "server_checks", "failures", "notices",
    ]  # fmt: skip
    assert (read["format"], read["version"]) == ("dflash-viz-measured", "1.0")
    assert [one["key"] for one in read["figures"]] == [one.key for one in MEASURED]
    assert all(one["definition"] for one in read["figures"])
    for number, one in enumerate(read["settings"]):
        for key, estimate in setting_values(result, number).items():
            got = one["figures"][key]
            if estimate is None:
                assert got is None
                continue
            assert got["value"] == estimate.value
            assert (got["low"], got["high"], got["num_prompts"]) == (
                estimate.low, estimate.high, estimate.num_prompts
            )  # fmt: skip
    first, plain = read["settings"][0], read["settings"][3]
    assert [one["position"] for one in first["positions"]] == [1, 2, 3, 4, 5]
    assert plain["figures"]["al"] is None
    assert first["engine"]["fingerprint"]["drafter"]["content_hash"] == "dflash-hash"
    assert first["engine"]["fingerprint"]["prompt_lookup_min"] is None, (
        "stable keys, those at their defaults too"
    )
    assert read["checks"] == {"agree": 48, "disagree": 0, "unknown": 0}
    assert read["server_checks"][3] == {"setting": 3, "agrees": True, "message": "all sums are vLLM's"}
    assert read["warnings"] == []
    assert [one["outcome"] for one in read["verdicts"]] == ["pass", "fail", "not comparable"]
    assert read["verdicts"][0]["expectation"]["al"] == 2.0
    assert read["verdicts"][2]["measured"] is None


def test_the_document_of_an_unfinished_result(tmp_path: Path) -> None:
    empty = empty_result(made_settings(), 3)
    read = read_json(empty, tmp_path)
    assert read["result"]["complete"] is False
    assert read["settings"][0]["figures"]["speed"] is None
    assert read["settings"][0]["engine"] is None
    assert read["pairs"] == []
    assert set(read) == set(document(made_result(), []))


def test_hostile_text_is_the_same_in_the_document(tmp_path: Path) -> None:
    read = read_json(hostile_result(), tmp_path)
    assert read["result"]["dataset"]["name"] == HOSTILE
    assert read["notices"] == [HOSTILE]
    assert {one["message"] for one in read["failures"]} == {HOSTILE}
