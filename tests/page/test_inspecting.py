"""The inspector as a part of the view: keys, focus and words while steps and runs come and go."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

pytestmark = pytest.mark.browser
INSIDE = "view.inspector.node.contains(document.activeElement)"
FOCUSED = "document.activeElement.className"


def drawn(page) -> None:
    page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")


def press(page, key: str) -> str:
    """Presses a key; returns the step that the inspector names."""
    page.keyboard.press(key)
    drawn(page)
    return page.locator(".dv-inspector-step").inner_text()


def inspect(page, at: int, position: int | None = None, lane: str = "dflash") -> None:
    """Opens the inspector at a step of a finished run."""
    page.evaluate(
        "([lane, at, position]) => { view.active = lane; view.seek(at);"
        " view.inspect(view.lanes.get(lane), at, position); }",
        [lane, at, position],
    )
    drawn(page)


@pytest.mark.parametrize("part", [".dv-list-target", ".dv-terms"])
def test_the_focus_stays_at_its_word(open_page, feed, make_sample, part) -> None:
    page = open_page()
    feed(page, make_sample())
    inspect(page, 2)
    page.locator(f".dv-inspector {part} .dv-term").focus()
    assert press(page, "ArrowRight") == "Step 3 of 10"
    if part == ".dv-terms":
        assert page.evaluate(FOCUSED) == "dv-inspector", "a rejection without probabilities has no words"
    else:
        assert page.evaluate(f"{FOCUSED} === 'dv-term' && document.activeElement.closest('{part}') !== null")
    assert press(page, "ArrowRight") == "Step 4 of 10", "keys still lead on"


def test_before_the_first_step_it_stays_open(open_page, feed, make_sample) -> None:
    page = open_page()
    feed(page, make_sample(pace=3))
    inspect(page, 10)
    page.locator(".dv-inspector").focus()
    assert press(page, " ") == "Before the first step"
    assert page.evaluate("view.player.playing")
    assert page.locator(".dv-sentence").inner_text() == "Before the first step: nothing is shown yet."
    assert page.evaluate(INSIDE)
    assert press(page, "ArrowRight") == "Step 0 of 10"
    assert page.problems == []


def test_a_row_that_goes_leaves_its_focus_inside(open_page, feed, make_sample) -> None:
    page = open_page()
    feed(page, make_sample())
    inspect(page, 3)
    page.locator(".dv-inspector [aria-selected=true]").focus()
    page.evaluate("view.seek(-1)")
    drawn(page)
    assert page.evaluate(INSIDE)


@pytest.mark.parametrize("focused", [".dv-inspector", ".dv-history"])
def test_another_run_leaves_the_keys_here(open_page, feed, make_sample, focused) -> None:
    page = open_page()
    feed(page, make_sample())
    inspect(page, 3)
    page.locator(focused).focus()
    feed(page, make_sample(prompt="Another."))
    assert page.locator(".dv-inspector").is_hidden()
    assert page.evaluate("document.activeElement === view.root")


def test_keys_in_it_lead_through_its_own_lane(open_page, feed, make_race) -> None:
    page = open_page()
    feed(page, make_race())
    inspect(page, 5, lane="eagle3")
    page.locator(".dv-card[data-lane=dflash] .dv-caption").click()
    page.locator(".dv-inspector").focus()
    assert press(page, "ArrowLeft") == "Step 4 of 12"
    assert page.evaluate("view.activeLane.name") == "eagle3"


def test_block_and_table_mark_the_same_position(open_page, feed, make_document) -> None:
    page = open_page()
    words = [" a", " b", " c"]
    document = make_document(k=3).header().prefill().block(words, 1, " x").block(words, 3, " y")
    feed(page, document.block(words, 3, None, emit=2).add("finish"))
    for at in range(4):
        inspect(page, at)
        row = page.locator(".dv-inspector [aria-selected=true]").get_attribute("data-position")
        cells = page.locator(".dv-looked-into")
        assert {cell.get_attribute("data-position") for cell in cells.all()} == {row}, at
        assert page.locator(".dv-cell[aria-expanded=true]").count() == cells.count() > 0


def test_playback_does_not_scroll_to_the_row(open_page, feed, make_sample) -> None:
    page = open_page()
    feed(page, make_sample())
    inspect(page, 2)
    page.set_viewport_size({"width": 1280, "height": 300})
    page.locator(".dv-inspector [aria-selected=true]").focus()
    page.evaluate("scrollTo(0, 0)")
    drawn(page)
    page.evaluate("view.seek(3)")
    drawn(page)
    assert page.evaluate(INSIDE)
    assert page.evaluate("scrollY") == 0
    page.keyboard.press("ArrowDown")
    drawn(page)
    assert page.evaluate("scrollY") > 0, "the reader's own key brings the row into sight"


def test_a_jump_to_nowhere_is_said_each_time(open_page, feed, make_sample) -> None:
    page = open_page()
    feed(page, make_sample())
    inspect(page, 10)
    expect(page.locator("[aria-live]")).to_contain_text("Cut block")
    page.evaluate(
        "() => { window.heard = []; new MutationObserver(() => heard.push(view.live.textContent))"
        ".observe(view.live, { childList: true, characterData: true, subtree: true }); }"
    )
    for _ in range(2):
        page.locator(".dv-move-next-full").click()
        drawn(page)
        assert page.locator(".dv-inspector-step").inner_text() == "No later full block"
        page.wait_for_timeout(200)
    assert page.evaluate("heard") == ["", "There is no full block after this step."] * 2
    assert page.locator(".dv-scrub-words").inner_text() == "DFlash: There is no full block after this step."
    page.locator(".dv-inspector").focus()
    assert press(page, "ArrowLeft") == "Step 9 of 10"
    assert page.locator(".dv-scrub-words").inner_text() == "DFlash: step 9 of 10"


def test_a_jump_to_nowhere_is_seen_in_a_live_run(open_page, feed, make_document) -> None:
    page = open_page()
    feed(page, make_document().announce("dflash").header().prefill())
    page.locator(".dv-root").focus()
    page.keyboard.press("r")
    expect(page.locator(".dv-scrub-words")).to_be_visible()
    assert page.locator(".dv-scrub-words").inner_text() == "DFlash: There is no rejection after this step."


def test_opened_by_touch_it_is_told(open_page, feed, make_sample) -> None:
    page = open_page(phone=True)
    feed(page, make_sample())
    page.locator(".dv-cell").nth(2).tap()
    page.locator(".dv-inspector").wait_for()
    assert page.evaluate(FOCUSED) == "dv-inspector"
    expect(page.locator("[aria-live]")).to_contain_text("DFlash, step inspector: Cut block")
    assert page.locator(".dv-cell[aria-expanded=true]").get_attribute("data-position") == "1"
    page.locator(".dv-inspector-close").tap()
    drawn(page)
    assert page.locator(".dv-cell[aria-expanded=true]").count() == 0
