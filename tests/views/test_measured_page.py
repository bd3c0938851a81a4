"""What the page about a benchmark says, in HTML and in Markdown, and that nothing in it can act."""

from __future__ import annotations

import re
from html import escape

import msgspec
import pytest

from dflash_viz.metrics.measured import MEASURED, by_prompt
from dflash_viz.results import Failure, Result
from dflash_viz.trace import Check
from dflash_viz.views.measured_page import compare_html, result_html
from dflash_viz.views.measured_parts import (
    Definitions,
    Folded,
    Heading,
    Items,
    Link,
    Paragraph,
    Table,
    to_html,
    to_markdown,
)
from dflash_viz.views.measured_report import markdown
from tests.measured import change_answers, empty_result, made_result, made_settings
from tests.views.made_measured import BUILTIN, HOSTILE, busy, hostile_result, verdicts
from tests.views.test_findings import Reader


@pytest.fixture(scope="module")
def result() -> Result:
    return made_result()


def page(result: Result) -> Reader:
    """The page, read by a parser that checks that every element is closed."""
    return Reader(result_html(result, verdicts(result)))


def rows(html: str, caption: str) -> list[list[str]]:
    """The cells of the table whose caption begins so, its head first."""
    table = next(t for t in re.findall(r"<table.*?</table>", html, re.S) if f"<span>{escape(caption)}" in t)
    lines = re.findall(r"<tr>(.*?)</tr>", table, re.S)
    return [[Reader(cell).text for cell in re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", line)] for line in lines]


def test_the_main_table_stands_for_itself(result: Result) -> None:
    html = result_html(result, [])
    head, *settings = rows(html, "Every setting")
    assert head == [
        "setting", "prompts", "AL, tokens", "AL, mean of requests, tokens", "tokens per engine step",
        "decode speed, tokens/s", "speedup, ×", "throughput, tokens/s", "latency, s",
    ]  # fmt: skip
    assert rows(html, "The other figures")[0][2:] == [
        "acceptance rate, %", "throughput gain, ×", "latency, 95th percentile, s", "first token, s",
        "draft, ms", "verify, ms", "answers", "failures",
    ]  # fmt: skip
    assert [row[0] for row in settings] == ["dflash", "eagle3", "ngram", "none"]
    assert all(row[1] == "12" for row in settings)
    assert re.fullmatch(r"\d\.\d\d \[\d\.\d\d, \d\.\d\d\]", settings[0][2])
    assert re.fullmatch(r"\d\.\d\d \[\d\.\d\d, \d\.\d\d\]", settings[0][6])
    assert re.fullmatch(r"\d+\.\d", settings[0][7]), "measured once: no interval"
    assert (settings[3][2], settings[3][6]) == ("–", "–")


def test_every_figure_is_defined(result: Result) -> None:
    text = page(result).text
    for figure in MEASURED:
        assert figure.definition in text, figure.key
    assert "percentile interval of a bootstrap over prompts" in text


def test_what_was_asked_is_told(result: Result) -> None:
    text = page(made_result(dataset=BUILTIN, max_tokens=77)).text
    assert "builtin, from the product's own prompts: 12 of 60 questions, the first turn of each" in text
    assert "at most 77 tokens; temperature 0 (always the best token)" in text
    assert "one request, alone on the engine" in text
    warm = page(made_result(made_settings(temperatures=(0.0, 0.7)), 3, top_p=0.9, seed=5)).text
    assert "temperature 0, 0.7, top-p 0.9, seed 5" in warm


def test_complete_and_agreeing_is_said(result: Result) -> None:
    text = page(result).text
    assert "✓ Complete: all 4 settings were measured to their end." in text
    assert "48 of 48 answers agree with vLLM's own counts." in text
    assert "What went wrong" not in text


def test_unfinished_names_the_settings_that_are() -> None:
    result = made_result(num_questions=6)
    result.stretches = [
        msgspec.structs.replace(one, finished=False) if one.setting == 1 else one for one in result.stretches
    ]
    assert "✗ Not complete: 1 of 4 settings were not measured to their end (eagle3)." in page(result).text
    empty = page(empty_result(made_settings(), 3)).text
    assert "4 of 4 settings" in empty
    assert "Nothing has been answered yet." in empty
    assert "No engine has been ready yet." in empty


def test_answers_that_disagree_with_vllm_are_a_problem() -> None:
    result = made_result(num_questions=6)
    result.answers[0] = msgspec.structs.replace(result.answers[0], check=Check(False, "we count 3, vLLM 4"))
    result.answers[1] = msgspec.structs.replace(result.answers[1], check=Check(None, ""))
    html = result_html(result, [])
    text = Reader(html).text
    assert "✗ 22 of 24 answers agree with vLLM's own counts, 1 do not." in text
    assert "vLLM gave nothing to compare with for 1." in text
    assert "we count 3, vLLM 4" in text
    assert html.count('class="dv-problem"') == 1


def test_sums_are_checked_against_the_servers_counters() -> None:
    result = made_result(num_questions=6)
    assert "The answers of 4 of 4 settings add up to what vLLM's /metrics counted." in page(result).text
    result.stretches[1] = msgspec.structs.replace(result.stretches[1], output_tokens=1)
    result.stretches[2] = msgspec.structs.replace(result.stretches[2], finished=False)
    html = result_html(result, [])
    text = Reader(html).text
    assert "✗ The answers of 2 of 3 settings add up to what vLLM's /metrics counted." in text
    assert "1 of 4 settings cannot be compared with vLLM's /metrics: " in text
    assert re.search(r"asked the same engine\. eagle3: output tokens: \d+, vLLM 1<", html)
    assert html.count('class="dv-problem"') == 2, "this, and what is not complete"
    assert "The answers of 2 of 3 settings add up" in markdown(result, [])


def test_sums_that_cannot_be_compared_are_no_agreement() -> None:
    result = made_result(num_questions=6)
    result.failures = [Failure(number, "timed out", "q0") for number in range(4)]
    text = page(result).text
    assert "4 of 4 settings cannot be compared with vLLM's /metrics" in text
    assert "add up to" not in text
    assert "vLLM's /metrics" not in page(empty_result(made_settings(), 3)).text


def test_few_questions_for_many_at_once_are_a_warning() -> None:
    text = page(busy()).text
    assert "⚠ Few questions (12) for 4 and 16 at once: no more than 12 ever run at once; " in text
    assert "Few questions" not in page(made_result(num_questions=2)).text


def test_a_page_of_many_settings_stays_small() -> None:
    many = made_result(made_settings(("dflash", "none"), ks=range(1, 300)), num_questions=1)
    html = result_html(many, [])
    assert "No more than 100 pairs are listed." in html
    assert len(rows(html, "Every two settings")) == 1 + 100
    assert "No more than" not in result_html(busy(3), [])


def test_what_went_wrong_is_listed() -> None:
    dataset = msgspec.structs.replace(BUILTIN, skipped=["line 9: no field question"])
    result = made_result(num_questions=3, dataset=dataset)
    del result.engines[2]
    result.failures = [Failure(2, "out of memory"), Failure(0, "timed out", "q77")]
    result.notices = [f"Line {number} is damaged." for number in range(25)]
    text = page(result).text
    assert "questions or engines that failed: 2; lines of the result's file that were left out: 25" in text
    for told in (
        "ngram, engine: out of memory",
        "dflash, question q77: timed out",
        "line 9: no field question",
    ):
        assert told in text
    assert "Line 19 is damaged." in text
    assert "Line 20 is damaged." not in text
    assert "… and 5 more." in text


def test_verdicts_have_a_mark_and_a_word(result: Result) -> None:
    html = result_html(result, verdicts(result, note="at most 2048 tokens"))
    _, *found = rows(html, "Every expectation")
    assert [row[0] for row in found] == ["✓ pass", "✗ fail", "– not comparable"]
    assert [row[1] for row in found] == ["dflash", "dflash", "dflash"]
    assert found[1][3:5] == ["6.50 (AL, mean of requests)", "5.85 (90%)"]
    assert re.fullmatch(r"\d\.\d\d \[.*\]", found[1][5])
    assert found[2][5] == "–"
    assert found[2][6] == "K is 5, not 15"
    assert [row[7] for row in found] == ["Table 1; at most 2048 tokens"] * 3
    assert "some/drafter, K = 15, temperature 0, gsm8k" in found[1][2]
    assert "speedup there 5.15 ×" in found[1][2]
    assert "No expectation is known" in Reader(result_html(result, [])).text


def test_best_and_worst_prompts_lead_to_their_traces(result: Result) -> None:
    html = result_html(result, [], links=lambda trace: f"#result/id/{trace}")
    _, *found = rows(html, "The 3 best")
    mine = by_prompt(result, 0)
    assert [row[1] for row in found[:6]] == [one.question for one in [*mine[:3], *mine[-3:]]]
    assert [row[0] for row in found[2:4]] == ["dflash: ▲ best", "dflash: ▼ worst"]
    assert found[0][3] == f"{mine[0].al:.2f}"
    assert f'<a href="#result/id/{mine[0].trace}">{mine[0].question}</a>' in html
    assert html.count("<a ") == 4 * 6
    assert "<a " not in result_html(result, [])


def test_few_prompts_are_not_named_twice() -> None:
    _, *found = rows(result_html(made_result(num_questions=4), []), "The 3 best")
    assert [row[0] for row in found[:4]] == ["dflash: ▲ best"] * 3 + ["dflash: ▼ worst"]


def test_a_prompt_without_a_trace_has_no_link() -> None:
    result = made_result(num_questions=2)
    change_answers(result, 0, trace="")
    assert result_html(result, [], links=str).count("<a ") == 3 * 2


def test_engines_are_told_once_and_where_they_differ(result: Result) -> None:
    html = result_html(result, [])
    same = dict(rows(html, "What is the same")[1:])
    assert (same["target.name"], same["device"], same["versions.vllm"]) == ("target", "CPU", "0.32.0")
    assert same["option.max-num-seqs"] == "128"
    head, *differing = rows(html, "What differs")
    assert head == ["field", "dflash", "eagle3", "ngram", "none"]
    by_path = {path: values for path, *values in differing}
    assert by_path["method"] == ["dflash", "eagle3", "ngram", "none"]
    assert by_path["drafter.content_hash"] == ["dflash-hash", "eagle3-hash", "–", "–"]
    assert not set(same) & set(by_path)


def test_worse_answers_are_a_warning() -> None:
    result = made_result(num_questions=30)
    assert "Answers that could be judged" in page(result).text
    change_answers(result, 0, text="nothing")
    html = result_html(result, [])
    assert "dflash: answers are worse than without speculation" in Reader(html).text
    assert "✗ dflash" in html


def test_where_speculation_stops_paying_is_a_sentence() -> None:
    assert re.search(r"dflash: faster than no speculation up to \d+ at once", page(busy()).text)


def test_long_tables_are_folded() -> None:
    html = result_html(busy(), [])
    assert "<summary>Best and worst prompts (72 rows)</summary>" in html
    assert "<h3>Best and worst prompts</h3>" in result_html(made_result(), [])


HOSTILE_PAGES = {
    "result": lambda bad: result_html(bad, verdicts(bad, note=HOSTILE, source=HOSTILE, drafter=HOSTILE), str),
    "unlike": lambda bad: compare_html(bad, made_result(num_questions=3)),
    "alike": lambda bad: compare_html(bad, bad),
}


@pytest.mark.parametrize("name", HOSTILE_PAGES)
def test_nothing_of_a_file_is_markup(name: str) -> None:
    html = HOSTILE_PAGES[name](hostile_result())
    read = Reader(html)
    assert not read.tags & {"img", "script"}
    assert not [attribute for attribute in read.attributes if attribute.startswith("on")]
    assert "<!--" not in html
    assert HOSTILE in read.text


def test_two_results_beside_each_other() -> None:
    a = made_result(dataset=BUILTIN)
    b = made_result(dataset=BUILTIN, max_tokens=99)
    b.engines[0] = msgspec.structs.replace(
        b.engines[0], fingerprint=msgspec.structs.replace(b.engines[0].fingerprint, device="GPU")
    )
    html = compare_html(a, b)
    head, *found = rows(html, "Every setting that both")
    assert head[-3:] == ["common prompts", "AL, B less A", "decode speed, B / A"]
    assert found[0][0] == "dflash"
    assert found[0][-3:] == ["12", "0.00 [0.00, 0.00]", "1.00 [1.00, 1.00]"]
    assert found[3][-2] == "–"
    assert found[0][1] == found[0][2] != "–"
    text = Reader(html).text
    assert "The engines differ in 1 fields" in text
    for key in ("al", "speed", "throughput"):
        assert next(one.definition for one in MEASURED if one.key == key) in text
    assert ["dflash: device", "CPU", "GPU"] in rows(html, "Fields that differ")
    assert rows(html, "What was asked differently")[1][0] == "Answers"


def test_results_that_cannot_be_paired_say_so() -> None:
    a = made_result(dataset=BUILTIN)
    other = made_result(dataset=msgspec.structs.replace(BUILTIN, content_hash="other"))
    assert "asked different questions" in Reader(compare_html(a, other)).text
    assert "asked different questions" not in Reader(compare_html(a, a)).text
    assert "The engines are the same" in Reader(compare_html(a, a)).text
    none = made_result(made_settings(concurrencies=(7,)), 3)
    assert "No setting is in both" in Reader(compare_html(a, none)).text


# Markdown ----------------------------------------------------------------------------------------


def tables(text: str) -> list[list[str]]:
    """The lines of every table."""
    return [block.split("\n") for block in re.findall(r"(?:^\|.*\|$\n?)+", text, re.M)]


def columns(line: str) -> int:
    return len(re.findall(r"(?<!\\)\|", line)) - 1


@pytest.mark.parametrize(
    "make", [made_result, busy, hostile_result, lambda: empty_result(made_settings(), 3)]
)
def test_every_table_of_the_markdown_is_one_to_github(make: object) -> None:
    result = make()  # type: ignore[operator]
    found = tables(markdown(result, verdicts(result, note=HOSTILE)))
    assert len(found) >= 3
    for head, rule, *body in found:
        assert set(rule) <= {"|", "-", " "}
        assert columns(head) == columns(rule) >= 2
        assert all(columns(line) == columns(head) for line in body if line)


def test_the_markdown_says_what_the_page_says(result: Result) -> None:
    text = markdown(result, verdicts(result))
    for part in ("## Figures", "| dflash | 12 |", "✓ pass", "✗ fail", "– not comparable", "### More figures"):
        assert part in text, part
    for figure in MEASURED:
        assert figure.definition.split(".")[0] in text.replace("\\", ""), figure.key


def test_markup_in_texts_is_text_in_markdown() -> None:
    written = to_markdown(
        [
            Heading("# a <b>"), Paragraph("1. [x](y) `c` *d* _e_ $f$ ~g~ a|b"), Paragraph("- h\n\n- i"),
            Items(["+ j"]), Definitions([("k", "<script>")]),
            Table("l", ("m|", "n"), [("o\np", Link("q|", "http://r"))]), Folded("s", [Paragraph("t & u")]),
        ]
    )  # fmt: skip
    assert written == (
        "## \\# a &lt;b&gt;\n\n1\\. \\[x](y) \\`c\\` \\*d\\* \\_e\\_ \\$f\\$ \\~g\\~ a\\|b\n\n\\- h - i\n\n"
        "- \\+ j\n\n- **k**: &lt;script&gt;\n\n*l*\n\n| m\\| | n |\n| --- | --- |\n| o p | q\\| |\n\n"
        "### s\n\nt &amp; u\n"
    )


def test_links_keep_to_their_attribute() -> None:
    html = to_html([Table("t", ("a", "b"), [("x", Link(HOSTILE, HOSTILE))])])
    assert f'<a href="{escape(HOSTILE)}">{escape(HOSTILE)}</a>' in html
    Reader(html)
