"""The pages about traces: what they say, and that nothing in them can act."""

from __future__ import annotations

from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path

import msgspec
import pytest
from playwright.sync_api import Browser, Page

from dflash_viz.metrics import RULES
from dflash_viz.trace import Message, ModelPrint, Trace
from dflash_viz.views.calibration_page import calibration_html
from dflash_viz.views.diagnosis_page import diagnosis_html
from dflash_viz.views.diff_page import ROWS, STRIP_TOKENS, diff_html
from dflash_viz.views.token_text import token_texts, visible
from tests.metrics.made import contended, engine, made, made_plain, recorded_runs

HOSTILE = "\"></td><img src=x onerror=alert(1)><script>alert(1)</script>'"
P = (0.95, 0.75, 0.55, 0.35, 0.15)
CSS = Path(__file__).resolve().parents[2] / "assets" / "findings.css"


class Reader(HTMLParser):
    """Collects elements and text, and checks that every element is closed where it was opened."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.text = ""
        self.feed(html)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open.append(tag)
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def hostile(trace: Trace) -> Trace:
    """The same trace with markup wherever a trace can hold text."""
    bad = HOSTILE.encode().decode("latin-1")
    model = ModelPrint(HOSTILE, HOSTILE, HOSTILE, HOSTILE, attention_backend=HOSTILE)
    fingerprint = msgspec.structs.replace(
        trace.header.fingerprint, target=model, drafter=model, device=HOSTILE, model_runner=HOSTILE,
        chat_template_hash=HOSTILE, versions={HOSTILE: HOSTILE},
    )  # fmt: skip
    header = msgspec.structs.replace(
        trace.header, lane=HOSTILE, recorded_at=HOSTILE, fingerprint=fingerprint,
        messages=[Message("user", HOSTILE)], tokens=dict.fromkeys(trace.output_token_ids, bad),
    )  # fmt: skip
    return Trace(header, trace.steps, msgspec.structs.replace(trace.end, text=HOSTILE * 9))


@pytest.mark.parametrize(
    "draw",
    [
        diff_html,
        lambda bad, good: diff_html(good, bad),
        lambda bad, good: diff_html(bad, contended(bad)),
        lambda bad, good: diff_html(bad, made_plain(5, prompt_token_ids=[9])),
        lambda bad, good: diagnosis_html([bad], [good]),
        lambda bad, good: diagnosis_html([bad, good]),
        lambda bad, good: calibration_html([bad], [good]),
    ],
)
@pytest.mark.parametrize("accepted", [[0] * 40, [1, 1, 1, 0] * 12, [0, 1, 0, 2, 0, 1, 0, 0, 1, 0] * 12])
def test_whatever_a_trace_holds_is_text(draw: Callable[[Trace, Trace], str], accepted: list[int]) -> None:
    read = Reader(draw(hostile(made(accepted, p=P)), made(accepted, p=P)))
    assert not {"img", "script"} & read.tags
    assert not {name for name in read.attributes if name.startswith("on")}


def test_recorded_runs_can_all_be_shown() -> None:
    for traces in recorded_runs():
        for trace in traces:
            assert "<svg" in calibration_html([trace], traces) or "No position has" in calibration_html(
                [trace]
            )
            Reader(
                diagnosis_html([trace], traces)
                + calibration_html([trace], traces)
                + diff_html(traces[0], trace)
            )


# Texts -----------------------------------------------------------------------------------------


def test_characters_that_span_tokens_stay_whole() -> None:
    smile = "😀".encode()
    pieces = {1: b"a ", 2: smile[:2], 3: smile[2:], 4: smile[:1]}
    assert token_texts([1, 2, 3, 1], pieces) == ["a ", "", "😀", "a "]
    assert token_texts([4], pieces) == ["\ufffd"]
    assert token_texts([99], pieces) == ["\ufffd"]
    assert visible(" a\n\t") == "␣a⏎⇥"


# Difference ------------------------------------------------------------------------------------


def test_difference_in_words_and_marks() -> None:
    a, b = made([3, 0, 2, 1]), made([1, 2, 1, 0, 1], step_s=0.03, lane="other")
    read = Reader(diff_html(a, b))
    for part in (
        "B: other (dflash, K = 5)",
        "The texts agree as far as both go; 10 tokens are compared.",
        "▲ won 50.0 ms",  # in total: 0.2 against 0.15 seconds
        "1.33 times",
        "▼ lost 10.0 ms",
        "In 3 of 3 the steps differ",
        "The same engine, models, versions and settings",
    ):
        assert part in read.text, part


def test_the_strip_aligns_steps_with_their_tokens() -> None:
    html = diff_html(made([3, 0]), made([1, 2]))
    assert "grid-template-columns:repeat(5,auto)" in html
    assert [part.split('"')[0] for part in html.split("grid-column:span ")[1:]] == ["4", "1", "2", "3"]
    assert 'title="A, step 1: 3 of 5 accepted, 50.0 ms">1<' in html


def test_a_parting_is_named_and_what_is_left_out_is_said() -> None:
    a = made([3, 0, 2], tokens=[1, 2])
    read = Reader(diff_html(a, made_plain([1, 2, 1, 2, 1, 1, 2])))
    assert "The texts part at token 5: A writes “b”, B “a”. The 4 compared tokens" in read.text
    assert "4 tokens of A and 2 of B are not compared" in read.text


def test_other_prompts_and_times_in_words() -> None:
    assert "different prompts" in Reader(diff_html(made([1]), made([1], prompt_token_ids=[7]))).text
    read = Reader(diff_html(made([3, 1]), contended(made([3, 1], step_s=0.01))))
    assert "Times are not comparable: B ran at the same time as eagle3 on one machine." in read.text
    assert "won" not in read.text.split("In total")[1].split("A span lies")[0]
    assert "▲" not in read.text.split("Span by span")[1]


def delayed(trace: Trace, at: int) -> Trace:
    """The trace with a step that takes a second longer."""
    later = [msgspec.structs.replace(s, start=s.start + 1, end=s.end + 1) for s in trace.steps[at + 1 :]]
    slow = msgspec.structs.replace(trace.steps[at], end=trace.steps[at].end + 1)
    return Trace(trace.header, [*trace.steps[:at], slow, *later], trace.end)


def test_long_answers_show_the_largest_gains_and_losses() -> None:
    a, b = delayed(made([1] * 500), 400), delayed(made([1] * 500), 450)
    html = diff_html(a, b)
    rows = Reader(html).text.split("Span by span")[1]
    assert "799–800▲ won 1000.0 ms" in rows
    assert "899–900▼ lost 1000.0 ms" in rows
    assert html.count("<tr><th") - ROWS < 10
    assert f"The {ROWS} largest gains and losses are shown; {500 - ROWS} more spans are left out" in rows
    assert html.count('class="dv-diff-token"') <= STRIP_TOKENS
    assert f"{500 - STRIP_TOKENS // 2} more spans are left out" in html


# Diagnosis and calibration ---------------------------------------------------------------------


def test_a_finding_has_evidence_and_advice() -> None:
    html = diagnosis_html([made([0] * 40)])
    read = Reader(html)
    assert html.count('class="dv-finding"') == 1
    for part in (
        "nearly never right",
        "0 of 40 (0%",
        "What to do",
        "lm_head",
        "1 of 7 rules found something",
    ):
        assert part in read.text, part
    assert read.text.count("nothing found") == len(RULES) - 1


def test_silence_is_no_proof() -> None:
    assert "That is no proof" in diagnosis_html([made([2] * 9)])
    assert "Choose a trace" in diagnosis_html([])
    mixed = [made([1]), made([1], fingerprint=engine("eagle3"))]
    assert "not of one lane" in diagnosis_html(mixed)
    assert "not of one lane" in calibration_html(mixed)


def test_the_curve_has_its_numbers_as_text() -> None:
    read = Reader(calibration_html([made([2, 3, 5] * 8, p=P)], [made_plain(50)]))
    for part in ("0.9 to 1.0", "expected calibration error 0.", "◀ suggested", "as recorded"):
        assert part in read.text, part
    assert "dflash (dflash, K = 5), 2026-01-01 00:00:00." in read.text
    assert "Measured without speculation: 33.3 tokens/s" in read.text


def test_no_probabilities_no_curve() -> None:
    html = calibration_html([made([2, 3, 5] * 8)])
    assert "<svg" not in html
    assert "No position has the drafter's probability" in Reader(html).text
    assert "as recorded" in html, "what a smaller K would bring needs none"
    assert "Nothing was drafted." in calibration_html([made_plain(9)])
    assert "Choose a trace" in calibration_html([])


# In a browser ----------------------------------------------------------------------------------


def opened(browser: Browser, html: str, width: int) -> Page:
    page = browser.new_page(viewport={"width": width, "height": 844})
    page.set_content(f"<!doctype html><style>{CSS.read_text()}</style><body>{html}</body>")
    return page


@pytest.mark.browser
@pytest.mark.parametrize("width", [1280, 390])
def test_wide_things_scroll_inside_their_box(browser: Browser, width: int) -> None:
    a, b = made([3, 0, 2, 1] * 30, p=P), made_plain(300)
    html = diff_html(a, b) + calibration_html([a], [b]) + diagnosis_html([made([0] * 40)])
    page = opened(browser, html, width)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    strip = page.locator(".dv-diff-strip")
    assert strip.evaluate("node => node.scrollWidth > node.clientWidth")
    strip.focus()
    page.keyboard.press("ArrowRight")
    page.wait_for_function("document.querySelector('.dv-diff-strip').scrollLeft > 0")
    page.close()


@pytest.mark.browser
def test_steps_stand_over_their_tokens(browser: Browser) -> None:
    page = opened(browser, diff_html(made([3, 0]), made([1, 2])), 1280)
    boxes = {
        name: [box.bounding_box() for box in page.locator(f".dv-diff-{name}").all()]
        for name in ("step", "token")
    }
    steps, tokens = boxes["step"], boxes["token"]
    assert (len(steps), len(tokens)) == (4, 5)
    for step, first, last in ((0, 0, 3), (1, 4, 4), (2, 0, 1), (3, 2, 4)):
        assert steps[step]["x"] <= tokens[first]["x"]
        right = tokens[last]["x"] + tokens[last]["width"]
        assert steps[step]["x"] + steps[step]["width"] >= right - 1
    assert steps[0]["y"] < tokens[0]["y"] < steps[2]["y"]
    page.close()
