"""What a validation of several benchmarks says in the end."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from dflash_viz.bench.order import Order
from dflash_viz.bench.validation import Check, Choice, conclude
from dflash_viz.checking import Done, outcome, outcome_document, way_on
from dflash_viz.metrics.measured import recorded_expectations
from tests.measured import made_result, made_settings


def done(factor: float) -> Done:
    """A benchmark of which ``factor`` times what it shows is expected."""
    result = made_result(made_settings(("dflash", "none")))
    rows = [
        msgspec.structs.replace(one, al=one.al * factor)
        for one in recorded_expectations(result, "embedded", 0.9, "")
    ]
    return result, conclude(result, Check(Order(), {}, tuple(rows)))


@pytest.mark.parametrize(
    ("factors", "passed"), [((1.0, 1.0), True), ((1.0, 2.0), False), ((2.0, 1.0), False), ((), False)]
)
def test_all_must_pass(factors: tuple[float, ...], passed: bool) -> None:
    made = [done(factor) for factor in factors]
    assert outcome_document(made)["passed"] is passed
    assert outcome(made).splitlines()[0] == ("Validation passed." if passed else "Validation FAILED.")


def test_every_verdict_is_told_and_why_it_failed() -> None:
    text = outcome([done(1.0), done(2.0)])
    good, bad = [line for line in text.splitlines() if line.startswith("- ") and "dflash on builtin" in line]
    assert good.startswith("- ✓ pass: dflash on builtin (the first turn of each), K = 5, temperature 0: AL")
    assert bad.startswith("- ✗ fail: ")
    assert "dflash on builtin: what its traces show\n- No rule finds a reason." in text


def test_the_way_on_repeats_what_was_chosen() -> None:
    choice = Choice("gsm8k", Path("my data"), "mine.yaml", ("a", "b"), "./drafter")
    assert way_on("qwen3-8b", choice, [Path("one"), Path("two 2")]) == (
        "python -m dflash_viz validate --pair qwen3-8b --dataset gsm8k --data 'my data' --preset mine.yaml "
        "--lanes a,b --drafter ./drafter --resume one --resume 'two 2'"
    )
    assert way_on("p", Choice(), []) == "python -m dflash_viz validate --pair p"
