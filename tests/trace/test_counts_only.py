"""Traces of answers whose steps were not recorded: written, read, checked, shown."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest

from dflash_viz.metrics import DiffError, count, counted_acceptance, counted_values, diagnose, diff
from dflash_viz.trace import (
    Check,
    End,
    Run,
    Step,
    Trace,
    Window,
    decode_trace,
    encode_line,
    read_summary,
)
from dflash_viz.trace.schema import line_schema
from dflash_viz.ui.playback import run_document
from dflash_viz.views.export import to_frame
from dflash_viz.views.trace_summary import summary, summary_text
from tests.conftest import make_header

WHY = "This server runs without the hooks."
WINDOW = Window(0.5, 2.0, 40, 2, 90, 10, 70, 25, [9, 8, 5, 2, 1, 0, 0])
END = End("length", "The answer <b>", 41, Check(None, "Counts only."), window=WINDOW)


def counted_trace(**changes: Any) -> Trace:
    """A trace without steps, as it comes from a server without hooks."""
    return Trace(make_header(counts_only=WHY), [], msgspec.structs.replace(END, **changes))


def encoded(trace: Trace) -> bytes:
    return b"".join(map(encode_line, trace.lines()))


def test_it_is_read_as_it_was_written(tmp_path: Path) -> None:
    trace = counted_trace()
    read = decode_trace(encoded(trace))
    assert read == trace
    assert not read.notices
    validator = jsonschema.Draft202012Validator(line_schema())
    for line in trace.lines():
        validator.validate(json.loads(encode_line(line)))
    file = tmp_path / "a.jsonl"
    file.write_bytes(encoded(trace))
    assert (read_summary(file).tokens, read_summary(file).complete) == (41, True)


def test_it_has_no_steps() -> None:
    step = Step(0, 0.0, 0.1, 0.1, [5], last="plain", prefill=True, tokens={5: "x"})
    trace = counted_trace()
    read = decode_trace(encoded(Trace(trace.header, [step], trace.end)))
    assert read.steps == []
    assert "says that no steps were recorded" in read.notices[0]


@pytest.mark.parametrize(
    "lie",
    [{"num_drafts": -1}, {"output_tokens": -5}, {"first_token_s": -0.1}, {"decode_s": 1e300},
     {"decode_tokens": -1}, {"num_others": -1}, {"accepted_per_position": [1, -1]}, {"num_accepted": 2**70},
     {"accepted_per_position": [1] * 2000}],
)  # fmt: skip
def test_counts_that_cannot_be_are_refused(lie: dict[str, Any]) -> None:
    trace = counted_trace(window=msgspec.structs.replace(WINDOW, **lie))
    read = decode_trace(encoded(trace))
    assert read.end is None
    assert read.notices


def test_its_figures_are_the_counters() -> None:
    assert counted_values(END) == {
        "al": 1 + 25 / 10, "rate": 100 * 25 / 70, "client_speed": 20.0,
    }  # fmt: skip
    assert counted_acceptance(END) == [0.9, 0.8, 0.5, 0.2, 0.1, 0.0, 0.0]
    short = msgspec.structs.replace(END, window=Window(0.5, 0.01, 40))
    assert counted_values(short)["client_speed"] is None
    bare = msgspec.structs.replace(END, window=Window())
    assert set(counted_values(bare).values()) == {None}
    assert counted_acceptance(bare) == []


def test_vllms_counts_of_the_answer_itself_come_first(trace: Trace) -> None:
    """A window holds others' requests; the counts that vLLM sends with an answer do not."""
    sums = count(trace.steps)
    end = counted_trace(engine_accepted=[1, 3, 2], engine_drafted=[3, 3, 3]).end
    assert end is not None
    assert counted_values(end)["al"] == sums.acceptance_length
    assert counted_values(end)["rate"] == 100 * (sums.acceptance_rate or 0)


def test_everything_opens_it(trace: Trace) -> None:
    both = [counted_trace(), trace]
    lines = [json.loads(line) for line in run_document(Run("", both)).splitlines()]
    kinds = {line["type"] for line in lines}
    assert kinds >= {"run", "definitions", "header", "figures", "end", "finish"}
    definitions = next(line for line in lines if line["type"] == "definitions")
    assert definitions["figures"][0]["key"] == "client_speed"
    figures = next(line for line in lines if line["type"] == "figures")
    assert figures["values"]["al"] == "3.50"
    assert len(to_frame([counted_trace()])) == 0
    assert diagnose([counted_trace()], []) == []
    assert counted_trace()._repr_html_()
    assert summary([counted_trace()])[0]["figures"]["al"] == 3.5
    assert WHY in summary_text([counted_trace()])
    for pair in (both, both[::-1]):
        with pytest.raises(DiffError, match="no steps to compare"):
            diff(*pair)
