"""A lane that shows no steps: its text, its figures, and why there are no blocks."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

pytestmark = pytest.mark.browser
WHY = "This server runs without the hooks <b>of DFlash Viz</b>."
SOURCE = "Counts only: the server's counters. Up to 2 other requests ran there meanwhile."
FIGURES = [("client_speed", "decode speed, app's clock", "tokens/s"), ("al", "AL", "tokens")]
END = {
    "finish_reason": "length",
    "text": "One <i>two</i> three.",
    "num_output_tokens": 41,
    "check": {"agrees": None, "message": SOURCE},
    "window": {"first_token_s": 0.25, "decode_s": 1.5, "decode_tokens": 40},
}
LACKING = ("step with a draft", "step with a draft", "step with a token", "decode step")
HIDDEN = (".dv-block", ".dv-caption", ".dv-time", ".dv-history", ".dv-answer-modes")


def begun(document, lane: str):
    """A lane without steps that has begun to answer."""
    document.on(lane).turn("running").header()
    document.lines[-1]["counts_only"] = WHY
    return document.add("answer", lane=lane, text="One <i>two").add("answer", lane=lane, text="</i>")


def ended(document, lane: str):
    document.add("end", lane=lane, **END)
    values = {"client_speed": "26.7", "al": "3.50"}
    positions = {"unconditional": [0.9, 0.5], "conditional": []}
    document.add("figures", lane=lane, after=0, values=values, positions=positions)
    return document.turn("done").add("finish")


def test_its_text_comes_and_says_why_there_are_no_blocks(open_page, feed, make_document):
    page = open_page(plotly=True)
    document = make_document(lane="plain").define(FIGURES).announce("plain").turn("running")
    feed(page, document)
    charts = page.locator(".dv-chart > .dv-dim")
    expect(charts.last).to_have_text("No decode step yet.")
    feed(page, begun(document, "plain"))
    card = page.locator(".dv-card")
    assert card.locator(".dv-notice").inner_text() == WHY
    assert card.locator(".dv-answer").inner_text() == "One <i>two</i>"
    assert card.locator(".dv-step-number").inner_text() == "counts only"
    for part in HIDDEN:
        assert not card.locator(part).is_visible(), part
    none = [f"Counts only: no {what} to show." for what in LACKING]
    expect(charts).to_have_text([*none[:2], "No step with a draft yet.", *none[2:]])
    feed(page, ended(document, "plain"))
    expect(charts).to_have_text(none)  # acceptance by position is there
    assert card.locator(".dv-answer").inner_text() == END["text"]
    assert card.locator(".dv-check").inner_text() == SOURCE
    assert "41 tokens" in card.locator(".dv-ending").inner_text()
    cells = page.locator(".dv-table .dv-value").all_inner_texts()
    assert cells[:2] == ["26.7", "3.50"]
    assert page.locator(".dv-race-words").inner_text() == "41 tokens in 1.75 s"
    assert page.evaluate("view.deck.cards.get('plain').answer.wholeText()") == END["text"]
    assert page.problems == []


def test_a_chart_of_a_lane_without_drafts_promises_none_once_it_has_ended(open_page, feed, make_document):
    page = open_page(plotly=True)
    document = make_document(lane="none").define().announce("none").turn("running").header()
    feed(page, document.prefill().plain(" a").figures())
    first = page.locator(".dv-chart > .dv-dim").first
    expect(first).to_have_text("No step with a draft yet.")
    feed(page, document.end().turn("done").add("finish"))
    expect(first).to_have_text("No step with a draft.")


@pytest.mark.parametrize("phone", [False, True])
def test_beside_a_lane_with_steps_it_is_replayed_to_its_end(open_page, feed, make_document, phone):
    page = open_page(phone=phone)
    document = make_document(apart=True).define(FIGURES).announce("dflash", "plain").turn("running").header()
    document.prefill().block([" a", " b", " c", " d", " e", " f", " g"], 3, " x").figures().end().turn("done")
    feed(page, ended(begun(document, "plain"), "plain"))
    whole = page.locator('.dv-card[data-lane="plain"] .dv-answer')
    assert whole.inner_text() == END["text"]
    assert page.locator('.dv-card[data-lane="dflash"] .dv-notice').is_hidden()
    assert "Each server answered alone" in page.locator(".dv-race-why").inner_text()
    page.evaluate("view.goTo(0)")
    page.wait_for_function("view.lanes.get('dflash').shown === 1")
    page.wait_for_function("!view.lanes.get('plain').written")
    expect(page.locator('td[data-lane="plain"][data-key="al"]')).to_have_text("–")
    page.evaluate("view.goToEnd()")
    page.wait_for_function("view.lanes.get('plain').written.length > 0")
    expect(page.locator('td[data-lane="plain"][data-key="al"]')).to_have_text("3.50")
    assert page.evaluate("document.documentElement.scrollWidth") <= (390 if phone else 1280)
    assert page.problems == []
