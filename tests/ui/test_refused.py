"""The live tab in a real browser, without any engine: what a refused question leaves, and how it looks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from dflash_viz.bench.record import read_gallery
from dflash_viz.lanes import Fleet, load_preset
from dflash_viz.lanes.server import free_port
from dflash_viz.space import Limits
from dflash_viz.ui import create_app, launch

pytestmark = pytest.mark.browser
SLOW_MS = 20_000
# Whether a node's box lies within its parent's, on the right and below.
INSIDE = """(node) => {
  const [own, whole] = [node, node.parentNode].map((one) => one.getBoundingClientRect());
  return own.right <= whole.right && own.bottom <= whole.bottom + 1;
}"""
COLOUR = "(node) => getComputedStyle(node).color"


@pytest.fixture
def waiting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The address of an app whose engines are never started, and whose questions are short."""
    monkeypatch.setenv("DFLASH_VIZ_CACHE", str(tmp_path))
    fleet = Fleet(load_preset("embedded-cpu").lanes)
    demo = create_app(fleet, read_gallery(), limits=Limits(prompt_characters=20))
    yield launch(demo, "127.0.0.1", free_port(), block=False)
    demo.close()


def test_a_refused_question_leaves_what_is_on_show(waiting: str, page: Page) -> None:
    page.set_default_timeout(SLOW_MS)
    page.goto(waiting)
    stage, box = page.locator("#stage"), page.locator("#question textarea")
    expect(stage.locator(".dv-race")).to_be_visible(timeout=SLOW_MS)
    stage.locator(".dv-latest").click()
    before = stage.locator(".dv-race-words").all_inner_texts()
    box.fill("x" * 21)
    box.press("Enter")
    said = page.get_by_test_id("toast-body")
    expect(said).to_contain_text("The question is longer than 20 characters.", timeout=SLOW_MS)
    assert stage.locator(".dv-race-words").all_inner_texts() == before
    expect(stage.locator(".dv-card").first).to_be_visible()
    expect(box).to_have_value("x" * 21)
    page.locator("#settings .label-wrap").first.click()
    page.locator("#temperature").scroll_into_view_if_needed()
    assert page.locator("#temperature .reset-button").evaluate(INSIDE)
    title = page.locator("#settings .label-wrap").first
    assert title.evaluate("(n) => getComputedStyle(n).textAlign") == "left"
    assert title.locator(".icon").evaluate("(n) => n.offsetHeight") < 30, "not stretched"
    assert page.locator("#chat .placeholder").evaluate("(n) => getComputedStyle(n).paddingLeft") == "16px"
    hint = page.locator("#temperature .info-text").evaluate(COLOUR)
    page.get_by_role("tab", name="Measure").click()
    assert page.locator("#limit .info-text").evaluate(COLOUR) == hint
