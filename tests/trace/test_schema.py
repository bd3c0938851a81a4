"""The published schema: it is the code's, traces fulfil it, and it refuses what is none."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest

from dflash_viz.trace import SCHEMA_VERSION, Draw, Position, TokenProb, Trace, encode_line
from dflash_viz.trace.schema import PUBLISHED, encoded_schema

RECORDED = sorted((Path(__file__).resolve().parents[2] / "assets" / "recorded").rglob("*.jsonl.gz"))


@pytest.fixture(scope="module")
def schema() -> Any:
    """The file that is published, as a validator."""
    read = json.loads(PUBLISHED.read_text())
    jsonschema.Draft202012Validator.check_schema(read)
    return jsonschema.Draft202012Validator(read)


def test_the_file_is_what_the_code_says(schema: Any) -> None:
    hint = "the trace's model has changed: run python -m dflash_viz.trace.schema"
    assert PUBLISHED.read_text() == encoded_schema(), hint
    assert schema.schema["x-version"] == SCHEMA_VERSION
    assert schema.schema["title"]
    assert "$id" not in PUBLISHED.read_text()


def test_everything_in_it_is_described(schema: Any) -> None:
    assert {"Header", "Step", "End", "Position", "Draw"} <= set(schema.schema["$defs"])
    assert all(part["description"] for part in schema.schema["$defs"].values())


def test_recorded_traces_fulfil_it(schema: Any) -> None:
    assert RECORDED
    for path in RECORDED:
        for number, line in enumerate(gzip.decompress(path.read_bytes()).splitlines(), start=1):
            fault = jsonschema.exceptions.best_match(schema.iter_errors(json.loads(line)))
            assert fault is None, f"{path.name}, line {number}: {fault.message}"


def test_every_field_that_we_write_is_in_it(schema: Any, trace: Trace) -> None:
    said = Position([TokenProb(6, 0.5)], [TokenProb(6, 0.5)], 0.5, 0.5, Draw(0.5, 1.0, 0.5))
    step = msgspec.structs.replace(trace.steps[1], positions=[said] * 4, padded=True, batch_size=2)
    for line in [*trace.lines(), step]:
        written = json.loads(encode_line(line))
        schema.validate(written)
        kind = type(line).__name__
        assert set(written) <= set(schema.schema["$defs"][kind]["properties"])


@pytest.mark.parametrize(
    ("line", "field", "value"),
    [(0, "origin", "invented"), (1, "index", "1"), (1, "emitted", None), (2, "last", "best"),
     (2, "type", "x"), (3, "positions", [{"target": [[1]]}]), (-1, "check", {}),
     (-1, "num_output_tokens", 1.5)],
)  # fmt: skip
def test_it_refuses_what_is_no_trace(schema: Any, trace: Trace, line: int, field: str, value: Any) -> None:
    wrong = json.loads(encode_line(trace.lines()[line]))
    assert schema.is_valid(wrong)
    assert not schema.is_valid({**wrong, field: value})
