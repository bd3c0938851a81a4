"""A live run is examined as it stands, and again from its link and from the list of runs."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from tests.ui.conftest import App
from tests.ui.test_page import ask_to_the_end, card, open_ready, set_up

pytestmark = [pytest.mark.browser, pytest.mark.engine]
COPY = "Repeat this list three times, word for word: apples, oranges, bananas, grapes, lemons."


def test_a_live_run_can_be_examined_and_found_again(app: App, page: Page) -> None:
    open_ready(page, app)
    set_up(page, 40, ("dflash", "ngram"))
    ask_to_the_end(page, COPY)
    inspector = page.locator("#stage .dv-inspector")
    card(page).locator(".dv-cell[tabindex]").first.click()
    expect(inspector.locator(".dv-pass")).to_be_visible()
    expect(inspector.locator(".dv-list-drafter .dv-entry").first).to_be_visible()
    assert inspector.locator(".dv-list-target .dv-entry").count() >= 5
    step = inspector.locator(".dv-inspector-step").inner_text()
    expect(page).to_have_url(re.compile(r"run=\d{8}-\d{6}-.*lane=dflash.*step=\d+"))
    link = page.url
    copied = next(s.index for s in app.last("ngram").steps if s.drafted)
    page.goto(link)
    again = page.locator("#recorded-stage .dv-inspector")
    expect(again.locator(".dv-inspector-step")).to_have_text(step, timeout=20_000)
    run = app.files()[-1].parent.name
    page.goto(f"{app.url}?run={run}&lane=ngram&step={copied}&position=0")
    expect(again.locator(".dv-quote-copied").first).to_be_visible(timeout=20_000)
    expect(again.locator(".dv-quote-matched").first).to_be_visible()
    page.locator("#mine .label-wrap").click()
    assert page.locator("#my-runs label").filter(has_text=COPY[:30]).count()
