"""Files of expectations: the shipped ones, and what is said of faulty ones."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dflash_viz.metrics.measured import ExpectationError, read_expectations, write_expectations
from tests.metrics.measured.test_expectations import row

ASSETS = Path(__file__).resolve().parents[3] / "assets" / "expectations"


def test_the_published_rows_are_there() -> None:
    rows = [one for one in read_expectations(ASSETS) if one.pair.startswith("qwen3")]
    told = {(e.pair, e.method, e.dataset, e.num_speculative_tokens, e.temperature): e for e in rows}
    assert len(told) == len(rows)
    paper = told["qwen3-8b", "dflash", "mt-bench", 15, 0.0]
    assert (paper.al, paper.speedup, paper.turns, paper.definition) == (4.24, 2.75, "both", "al_mean")
    assert (told["qwen3-8b", "dflash", "gsm8k", 15, 1.0].al, paper.max_tokens) == (5.98, 2048)
    assert told["qwen3-4b", "dflash", "math500", 15, 0.0].al == 7.84
    own = {name: told["qwen3-8b", "dflash", name, 16, 0.0] for name in ("mt-bench", "humaneval", "gsm8k")}
    assert {name: one.al for name, one in own.items()} == {"mt-bench": 4.24, "humaneval": 6.5, "gsm8k": 6.213}
    assert {one.turns for one in own.values()} == {"first"}
    chain = told["qwen3-8b", "eagle3", "mt-bench", 3, 0.0]
    assert (chain.al, chain.definition) == (2.26, "al")


def test_the_published_rows_of_llama_are_there() -> None:
    rows = [one for one in read_expectations(ASSETS) if one.pair == "llama-3.1-8b"]
    told = {(e.method, e.dataset, e.num_speculative_tokens, e.definition): e.al for e in rows}
    assert told == {
        ("dflash", "gsm8k", 9, "al_mean"): 4.32,
        ("dflash", "humaneval", 9, "al_mean"): 4.91,
        ("eagle3", "mt-bench", 3, "al"): 2.6,
    }
    assert {one.thinking for one in rows} == {None}, "it has no such mode"


def test_published_rows_are_whole() -> None:
    for one in read_expectations(ASSETS):
        assert one.source
        if one.pair.startswith("qwen3"):
            assert one.target == f"Qwen/Qwen3-{one.pair[-2:].upper()}"
            assert one.method != "dflash" or one.drafter == f"z-lab/Qwen3-{one.pair[-2:].upper()}-DFlash-b16"
            assert one.method != "dflash" or (one.thinking, one.tolerance) == (False, 0.9)
            # One lucky question must not meet it.
            assert one.num_questions == {"humaneval": 164, "mt-bench": 80}.get(one.dataset, 128)


def test_what_is_written_is_read(tmp_path: Path) -> None:
    rows = [row(), row(method="eagle3", speedup=1.5, thinking=False, note="ü <b>")]
    write_expectations(rows, tmp_path / "b.json")
    write_expectations([row(pair="first")], tmp_path / "a.json")
    (tmp_path / "notes.txt").write_text("no rows")
    assert read_expectations(tmp_path) == [row(pair="first"), *rows]


def _changed(**changes: Any) -> bytes:
    return msgspec.json.encode([msgspec.to_builtins(row()) | changes])


@pytest.mark.parametrize(
    ("content", "named"),
    [
        (_changed(al="high"), "al"),
        (_changed(al=0.5), "al"),
        (_changed(tolerance=0), "tolerance"),
        (_changed(tolerance=1.5), "tolerance"),
        (_changed(turns="all"), "turns"),
        (_changed(definition="tau"), "definition"),
        (_changed(num_speculative_tokens=0), "num_speculative_tokens"),
        (_changed(source=""), "source"),
        (_changed(colour="red"), "colour"),
        (_changed(speedup=None, concurrency=0), "concurrency"),
        (b'[{"pair": "made"}]', "target"),
        (b'{"pair": "made"}', "array"),
        (b"[", "broken.json"),
        (b"\xff\xfe", "broken.json"),
        (b"[" * 100_000, "broken.json"),
        (b"", "broken.json"),
    ],
)
def test_a_faulty_file_is_named_with_its_field(tmp_path: Path, content: bytes, named: str) -> None:
    (tmp_path / "broken.json").write_bytes(content)
    with pytest.raises(ExpectationError, match=r"broken\.json") as caught:
        read_expectations(tmp_path)
    assert named in str(caught.value)


def test_no_folder(tmp_path: Path) -> None:
    with pytest.raises(ExpectationError, match="no folder"):
        read_expectations(tmp_path / "nowhere")
    assert read_expectations(tmp_path) == []


@given(st.binary(max_size=200))
def test_any_bytes_are_rows_or_an_error(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    folder = tmp_path_factory.mktemp("rows")
    (folder / "any.json").write_bytes(content)
    with contextlib.suppress(ExpectationError):
        assert read_expectations(folder) == []
