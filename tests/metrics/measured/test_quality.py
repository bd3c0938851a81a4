"""The guard: what an answer says in the end, and whether one setting's answers are worse."""

from __future__ import annotations

import string
import warnings
from math import comb

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dflash_viz.metrics.measured import final_number, parses_as_python, quality, quality_warnings
from dflash_viz.metrics.measured.answers import MAX_CODE
from dflash_viz.metrics.measured.quality import Quality, sign_test
from dflash_viz.results import Question, Result
from tests.measured import change_answers, made_engine, made_result, made_settings


@pytest.mark.parametrize(
    ("text", "number"),
    [
        (r"So it is \boxed{42}.", "42"),
        (r"First \boxed{1}, but then \boxed{2}; 3 is wrong.", "2"),
        (r"Put it within \boxed{}: 7", "7"),
        (r"\boxed{\$1{,}234.50}", "1234.5"),
        (r"\boxed{10\,000}", "10000"),
        (r"\boxed{x = -3}", "-3"),
        (r"\boxed{\frac{3}{4}}", "0.75"),
        (r"\boxed{-\dfrac{1}{3}}", "-0.333333"),
        (r"\boxed{12\text{ m}^2}", "12"),
        (r"\boxed{\text{42 dollars}}", "42"),
        (r"\boxed{50\%}", "50"),
        (r"\boxed{\mathbf{5}} of 9", "5"),
        (r"\boxed{3, 4}", None),
        (r"\boxed{not closed 5, 6", "6"),
        ("She has 3.\n#### 1,000", "1000"),
        ("#### 5\n#### -6.0\nand 7", "-6"),
        ("So #### **$1,234**.\r\nIs that 5?", "1234"),
        ("The total is 72 clips.\n#### Step 2: check\n8 * 9 = 72", "72"),
        ("The total is 72 clips.\n#### 2. Check\nThe answer is 72, not 9.", "72"),
        ("#### 18 dollars", "18"),
        ("#### Steps\nFirst 1. The answer is 8, not 9.", "8"),
        ("#### Step 2\nno more", "2"),
        ("The answer is: **$18**.\nCheck: 9 * 2", "18"),
        ("The answer is approximately -2.50 metres", "-2.5"),
        ("The final answer is\n12", "12"),
        ("answer = 4. Then 5 more", "4"),
        ("ANSWER: 4 (not 5)", "4"),
        ("There are 3 cats and 4 dogs.", "4"),
        ("It costs 12.", "12"),
        ("7-5=2", "2"),
        ("about 7-5", "5"),
        ("it is −4 degrees", "-4"),
        ("ratio 5/2", "2.5"),
        ("divide by 1/0", None),
        (".5", "0.5"),
        ("007.10", "7.1"),
        ("-0.0", "0"),
        ("1,2", "2"),
        ("gpt4 and h2o", None),
        ("none at all", None),
        ("", None),
        ("٣", None),
        ("#" * 50, None),
    ],
)
def test_final_number(text: str, number: str | None) -> None:
    assert final_number(text) == number


@given(
    st.integers(-(10**12), 10**12), st.sampled_from(["{}", "#### {}", r"\boxed{{{}}}", "The answer is {}."])
)
def test_integers_are_found_however_they_are_written(number: int, form: str) -> None:
    for written in (f"{number}", f"{number:,}", f"{number}.00"):
        assert final_number("Step 1: 99 bottles.\n" + form.format(written)) == str(number)


@given(
    st.text(max_size=300)
    | st.text(alphabet=r"\boxed{}frac#answer is:=$-−.,/0123456789 " + "\n", max_size=300)
)
def test_any_text_has_a_plain_number_or_none(text: str) -> None:
    found = final_number(text)
    if found is not None:
        float(found)
        assert set(found) <= set(string.digits + ".-")
        assert final_number(found) == found, "one spelling only"


@pytest.mark.parametrize(
    "text", ["9" * 100_000, "1," * 50_000, r"\boxed{" * 5_000, "1/" * 50_000, "9" * 5000 + "/7"]
)
def test_absurd_numbers_do_no_harm(text: str) -> None:
    final_number(text)


# Python ----------------------------------------------------------------------------------------

GOOD, BAD = "def f(x):\n    return x + 1", "def f(x)\n    return x +"


@pytest.mark.parametrize(
    ("text", "parses"),
    [
        (GOOD, True),
        (BAD, False),
        (f"Here:\n```python\n{GOOD}\n```\nIt adds one.", True),
        (f"Here:\n```python\n{BAD}\n```\nIt adds one.", False),
        (f"```py\n{GOOD}\n```", True),
        (f"```\n{BAD}\n```", False),
        (f"```bash\nls -l | sort and more and more and more\n```\n```Python\n{GOOD}\n```", True),
        (f"```python\n{GOOD}\n```\nUse it:\n```python\n>>> f(1)\n2\n```", True),
        (f"  ```python\n  {GOOD.replace(chr(10), chr(10) + '  ')}\n  ```", True),
        (f"```python\n{GOOD}", True),
        (f"~~~python\n{GOOD}\n~~~", True),
        ("    return x + 1", True),
        ("I am sorry, I cannot.", False),
        ("", False),
        ("```python\n```", False),
        ("x = '\\d'", True),
        ("a\0b", False),
        ("\ud800 = 1", False),
        ("(" * 10_000, False),
        ("-" * 90_000 + "1", False),
        ("a" + ".b" * 40_000, False),
        ("[" * 5_000 + "]" * 5_000, False),
        ("1" * 10_000, False),
        ("f'" + "{" * 1_000, False),
        ("x\n" * MAX_CODE, False),
    ],
)
def test_parses_as_python(text: str, parses: bool) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert parses_as_python(text) is parses


@given(st.text(max_size=200) | st.text(alphabet="`~\npython()[]{}:\\'\"\0 =+-#@\ud800", max_size=200))
def test_any_text_parses_or_not(text: str) -> None:
    assert parses_as_python(text) in (True, False)


def test_code_is_never_run(monkeypatch: pytest.MonkeyPatch) -> None:
    assert parses_as_python("```python\nraise SystemExit(1)\n```")
    assert parses_as_python("import os\nos._exit(1)")


# Settings against each other -------------------------------------------------------------------


def spoil(result: Result, setting: int, kind: str, number: int, **changes: object) -> None:
    """Change the first answers of a kind."""
    spoilt = 0
    for i, answer in enumerate(result.answers):
        if answer.setting == setting and answer.kind == kind and spoilt < number:
            result.answers[i] = msgspec.structs.replace(answer, **changes)
            spoilt += 1


def test_good_answers_are_good() -> None:
    result = made_result(num_questions=30)
    assert quality(result) == [
        *(Quality(n, judged=20, good=20, cut=0, both_good=20, p_value=1.0) for n in range(3)),
        Quality(3, judged=20, good=20, cut=0),
    ]
    assert quality_warnings(result) == []


def test_counts_by_hand() -> None:
    result = made_result(made_settings(("dflash", "none")), num_questions=30)
    spoil(result, 0, "maths", 4, text="It is 0.")
    spoil(result, 0, "code", 2, text="```python\n(\n```")
    spoil(result, 1, "maths", 1, text="It is 0.")
    dflash, plain = quality(result)
    assert dflash == Quality(0, 20, 14, 0, both_good=14, only_this=0, only_plain=5, p_value=2 / 2**5)
    assert (plain.good, plain.p_value) == (19, None)


def test_what_was_cut_is_not_judged() -> None:
    result = made_result(made_settings(("dflash", "none")), num_questions=30)
    spoil(result, 0, "code", 3, text="```python\ndef f(", finish_reason="length")
    spoil(result, 0, "maths", 2, text="So far 1 +", finish_reason="length")
    dflash, _ = quality(result)
    assert (dflash.judged, dflash.good, dflash.cut, dflash.only_plain) == (15, 15, 5, 0)


def test_only_the_last_turn_is_judged() -> None:
    result = made_result(made_settings(("dflash",)), num_questions=3, num_turns=2)
    assert quality(result)[0].judged == 2
    result.answers = [msgspec.structs.replace(a, text="(") if a.turn == 0 else a for a in result.answers]
    assert quality(result)[0].good == 2
    result.answers = [answer for answer in result.answers if answer.turn == 0]
    assert quality(result) == [], "the first turn's answer is not the one that has a grader"


def test_without_graders_or_references_nothing_is_judged() -> None:
    result = made_result(num_questions=3)
    result.questions = {
        name: Question(name, "chat", one.turns, "number" if name == "q0" else "", "x")
        for name, one in result.questions.items()
    }
    assert [(one.judged, one.p_value) for one in quality(result)] == [(0, None)] * 4
    result.questions = {name: Question(name, "chat", ["?"]) for name in result.questions}
    assert quality(result) == []
    assert quality_warnings(result) == []


def test_the_last_answer_is_judged() -> None:
    result = made_result(made_settings(("dflash",)), num_questions=3)
    result.answers.append(msgspec.structs.replace(result.answers[0], text="It is 0."))
    assert (quality(result)[0].judged, quality(result)[0].good) == (2, 1)


def in_bfloat16(result: Result) -> None:
    for number, asked in enumerate(result.plan.settings):
        engine = result.engines[number].fingerprint
        target = msgspec.structs.replace(engine.target, dtype="bfloat16")
        result.engines[number] = made_engine(number, asked, target=target)


def test_a_worse_lane_is_warned_of() -> None:
    result = made_result(num_questions=30)
    in_bfloat16(result)
    spoil(result, 0, "maths", 5, text="It is 0.")
    assert quality_warnings(result) == [], "5 of 5 can be chance (p = 0.06)"
    spoil(result, 0, "maths", 6, text="It is 0.")
    assert quality_warnings(result) == [
        "dflash: answers are worse than without speculation: 6 are good only there, 0 only here "
        "(sign test, p = 0.031)."
    ]


def test_a_better_lane_is_no_warning() -> None:
    result = made_result(num_questions=30)
    in_bfloat16(result)
    spoil(result, 3, "maths", 10, text="It is 0.")
    assert quality(result)[0].p_value == pytest.approx(2 / 2**10)
    assert quality_warnings(result) == []


def test_text_that_differs_where_it_must_not() -> None:
    result = made_result(made_settings(("dflash", "none"), temperatures=(0.0, 1.0)), num_questions=30)
    for setting in (0, 1):
        spoil(result, setting, "chat", 2, text="Something else.")
    assert quality_warnings(result) == [
        "dflash, temperature 0: 2 of 30 texts differ from those without speculation, at temperature 0 in "
        "float32, where they should be the same."
    ]
    in_bfloat16(result)
    assert quality_warnings(result) == [], "there rounding may change a text"
    result.engines.clear()
    assert quality_warnings(result) == []


def test_sign_test_against_the_binomial_distribution() -> None:
    assert sign_test(0, 0) == 1
    assert sign_test(5, 5) == 1
    assert sign_test(1, 9) == sign_test(9, 1) == pytest.approx(2 * 11 / 1024)
    assert sign_test(3, 17) == pytest.approx(2 * sum(comb(20, i) for i in range(4)) / 2**20)
    assert 0 <= sign_test(0, 5000) < 1e-300


@given(st.lists(st.text(max_size=60), min_size=2, max_size=2))
def test_hostile_answers_are_judged_without_harm(texts: list[str]) -> None:
    result = made_result(made_settings(("dflash", "none")), num_questions=3)
    for setting, text in enumerate(texts):
        change_answers(result, setting, text=text)
    for one in quality(result):
        assert 0 <= one.good <= one.judged == 2
    assert len(quality_warnings(result)) == (texts[0] != texts[1])
