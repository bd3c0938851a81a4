"""Any step of a run: the slider, the keys, the jumps, and the address that leads there."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

pytestmark = pytest.mark.browser
WORDS = [" a", " b", " c", " d", " e", " f", " g"]
ADDRESS = "http://page.test/"
# Accepted drafts of the steps after the prompt's own, of seven drafted.
ACCEPTED = [3, 7, 0, 5, 7, 1]


def run(make_document, id_: str | None = "r1", **fields):
    """A run of seven steps, as it stands after its end."""
    document = make_document(**({"id": id_} if id_ else {}), **fields).define().announce("dflash")
    document.turn("running").header().prefill()
    for accepted in ACCEPTED:
        document.block(WORDS, accepted, " x").figures(f"{accepted}.00")
    return document.end().turn("done").add("finish")


def slider(page):
    return page.locator(".dv-slider")


def where(page) -> str:
    return slider(page).get_attribute("aria-valuetext")


def drawn(page) -> None:
    page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")


def press(page, *keys: str) -> str:
    for key in keys:
        page.keyboard.press(key)
    drawn(page)
    return where(page)


def test_only_a_finished_run_is_scrubbed(open_page, feed, make_document):
    page = open_page()
    document = run(make_document, None)
    lines, document.lines = document.lines, document.lines[:-1]
    feed(page, document)
    assert slider(page).is_hidden()
    document.lines = lines
    feed(page, document)
    assert slider(page).is_visible()
    assert where(page) == "DFlash: step 6 of 6"
    assert page.locator(".dv-copy-link").is_hidden(), "a run without an address has no link"
    page.locator(".dv-keys").click()
    assert "previous, next step" in page.locator(".dv-popover").inner_text()


def test_the_slider_shows_the_run_up_to_a_step(open_page, feed, make_document):
    page = open_page()
    feed(page, run(make_document))
    slider(page).fill("3")
    drawn(page)
    assert where(page) == "DFlash: step 2 of 6"
    assert page.locator(".dv-step-number").inner_text() == "step 2"
    assert page.locator(".dv-answer").evaluate("(node) => node.textContent") == "The a b c x a b c d e f g x"
    assert page.locator("td[data-key=al]").inner_text() == "7.00"
    assert page.locator(".dv-race-words").inner_text() == "running · 0.15 s"
    assert page.locator(".dv-row").count() == 3
    assert page.locator(".dv-ending").inner_text() == "More steps follow."
    slider(page).fill("0")
    drawn(page)
    assert where(page) == "DFlash: before the first of 7 steps"
    assert page.locator(".dv-cell:not(.dv-empty)").count() == 0
    assert page.locator(".dv-answer").inner_text() == ""
    slider(page).fill("7")
    drawn(page)
    assert page.locator(".dv-check-true").is_visible()


def test_keys_lead_through_the_run(open_page, feed, make_document):
    page = open_page()
    feed(page, run(make_document))
    page.locator(".dv-race .dv-heading").click()  # the focus comes with a click anywhere in the stage
    assert press(page, "Home") == "DFlash: step 0 of 6"
    assert press(page, "ArrowRight", "ArrowRight") == "DFlash: step 2 of 6"
    assert press(page, "ArrowLeft") == "DFlash: step 1 of 6"
    assert press(page, "r") == "DFlash: step 3 of 6"
    assert press(page, "R") == "DFlash: step 1 of 6"
    assert press(page, "f") == "DFlash: step 2 of 6"
    assert press(page, "f") == "DFlash: step 5 of 6"
    assert press(page, "f") == "DFlash: step 5 of 6"
    expect(page.locator("[aria-live]")).to_have_text("There is no full block after this step.")
    assert page.locator(".dv-scrub-words").inner_text() == "DFlash: There is no full block after this step."
    assert press(page, "F") == "DFlash: step 2 of 6"
    assert press(page, "End") == "DFlash: step 6 of 6"
    assert press(page, "Home", "ArrowLeft") == "DFlash: step 0 of 6"
    page.keyboard.press(" ")
    assert page.evaluate("view.player.playing")
    page.keyboard.press(" ")
    assert not page.evaluate("view.player.playing")


def test_keys_are_left_to_those_who_use_them(open_page, feed, make_document):
    page = open_page()
    feed(page, run(make_document))
    page.evaluate("document.querySelector('main').insertAdjacentHTML('afterbegin', '<input id=outside>')")
    page.evaluate("document.querySelector('.dv-root').insertAdjacentHTML('beforeend', '<input id=inside>')")
    for name in ("outside", "inside"):
        page.locator(f"#{name}").fill("")
        page.locator(f"#{name}").press_sequentially("f r")
        page.keyboard.press("Home")
        assert page.locator(f"#{name}").input_value() == "f r"
    assert where(page) == "DFlash: step 6 of 6"
    page.locator(".dv-history").focus()
    page.keyboard.press("Home")
    assert where(page) == "DFlash: step 6 of 6", "in the list of steps it selects the first"
    assert page.locator(".dv-block-label").inner_text() == "Selected step"
    page.locator(".dv-latest").focus()
    page.keyboard.press(" ")
    assert not page.evaluate("view.player.playing"), "a button is pressed by the space bar"
    page.locator(".dv-answer").focus()
    assert not page.evaluate(PREVENTED, " "), "it scrolls the answer"
    assert page.locator(".dv-play").inner_text() == "Replay"


PREVENTED = """(key) => !document.activeElement.dispatchEvent(
  new KeyboardEvent('keydown', { key, bubbles: true, cancelable: true }))"""


def test_keys_without_use_are_left_alone(open_page, feed, make_document):
    page = open_page()
    document = make_document().announce("dflash").header()
    feed(page, document)
    page.locator(".dv-root").focus()
    for key in ("ArrowLeft", "ArrowRight", "Home", "End", " "):
        assert not page.evaluate(PREVENTED, key), "there are no steps"
    feed(page, document.prefill())
    assert not page.evaluate(PREVENTED, " "), "a run on the way cannot be played"
    assert page.evaluate(PREVENTED, "Home")


def test_home_and_end_mean_the_same_on_the_slider(open_page, feed, make_document):
    page = open_page()
    feed(page, run(make_document))
    slider(page).focus()
    assert press(page, "Home") == "DFlash: step 0 of 6"
    assert press(page, "End") == "DFlash: step 6 of 6"


def test_buttons_do_the_same(open_page, feed, make_document):
    page = open_page(phone=True)
    feed(page, run(make_document))
    for name, step in [
        ("First step", 0),
        ("Next step", 1),
        ("Next full block", 2),
        ("Next rejection", 3),
        ("Previous full block", 2),
        ("Previous rejection", 1),
        ("Last step", 6),
        ("Previous step", 5),
    ]:
        button = page.locator(".dv-controls").get_by_role("button", name=name, exact=True)
        assert button.bounding_box()["height"] >= 44
        button.tap()
        drawn(page)
        assert where(page) == f"DFlash: step {step} of 6", name
    assert slider(page).bounding_box()["height"] >= 44
    speeds = page.locator(".dv-speed").all_inner_texts()
    assert speeds == ["0.25×", "0.5×", "1×", "2×", "4×"]
    assert page.locator(".dv-keys").is_hidden(), "a phone has no keys"


def test_steps_without_a_token_do_not_hold_the_way_back(open_page, feed, make_document):
    page = open_page()
    document = make_document().announce("dflash").header()
    document.prefill().block(WORDS, 2, " x")._step([], seconds=0.05)._step([], seconds=0.05)
    feed(page, document.block(WORDS, 1, " y").add("finish"))
    page.get_by_role("button", name="by token").click()
    page.locator(".dv-root").focus()
    assert press(page, "ArrowLeft") == "DFlash: step 3 of 4"
    assert press(page, "ArrowLeft") == "DFlash: step 0 of 4"


def test_the_lane_touched_last_is_scrubbed(open_page, feed, make_race):
    page = open_page()
    feed(page, make_race())
    assert page.locator(".dv-card[data-active]").get_attribute("data-lane") == "dflash"
    page.locator(".dv-card[data-lane=ngram] .dv-caption").click()
    drawn(page)
    assert page.locator(".dv-card[data-active]").get_attribute("data-lane") == "ngram"
    assert page.locator(".dv-card[aria-current=true]").count() == 1
    assert press(page, "Home") == "n-gram: step 0 of 12"
    assert press(page, "ArrowRight") == "n-gram: step 1 of 12"
    shown = page.evaluate("[...view.lanes.values()].map((lane) => [lane.shown, lane.seconds])")
    assert all(seconds <= shown[2][1] for _, seconds in shown), "the others stand at the same moment"
    assert [cell.inner_text() for cell in page.locator("td[data-key=speedup]").all()] == ["–"] * 4
    page.get_by_role("button", name="by token").click()
    drawn(page)
    assert where(page) == "n-gram: step 1 of 12", "another clock, the same step"


def test_scrubbed_to_the_end_it_is_the_run_that_was(open_page, feed, make_race):
    page = open_page()
    feed(page, make_race())
    state = """() => ['.dv-card', '.dv-table', '.dv-race-rows', '.dv-verdicts'].map((name) =>
      [...document.querySelectorAll(name)].map((node) => node.textContent)).concat(
      [[...document.querySelectorAll('.dv-said')].map((node) => node.outerHTML)])"""
    before = page.evaluate(state)
    page.locator(".dv-card[data-lane=none] .dv-caption").click()
    for key in ("Home", *["ArrowRight"] * 7, *["ArrowLeft"] * 3, "r", "End", *["ArrowLeft"] * 2, "End"):
        page.keyboard.press(key)
        drawn(page)
    page.wait_for_function("[...view.deck.cards.values()].every((card) => !card.stale)")
    assert page.evaluate(state) == before


def open_at(open_page, query: str = "", **options):
    """A page with an address: the view is mounted anew there."""
    page = open_page(**options)
    html = page.content()
    page.route("**/*", lambda route: route.fulfill(body=html, content_type="text/html; charset=utf-8"))
    page.goto(ADDRESS + query)
    page.evaluate("window.view = DFlashViz.mount(document.querySelector('.dv-root'))")
    return page


def test_the_address_follows_the_reader(open_page, feed, make_document):
    page = open_at(open_page, "?theme=dark#top")
    feed(page, run(make_document))
    page.wait_for_url("**/?theme=dark&run=r1#top")
    slider(page).fill("3")
    page.wait_for_url("**/?theme=dark&run=r1&lane=dflash&step=2#top")
    page.locator(".dv-cell").nth(4).click()
    page.wait_for_url("**/?theme=dark&run=r1&lane=dflash&step=2&position=3#top")
    page.keyboard.press("Escape")
    page.wait_for_url("**/?theme=dark&run=r1&lane=dflash&step=2#top")


def test_a_step_chosen_in_the_list_is_the_readers_place(open_page, feed, make_document):
    page = open_at(open_page)
    feed(page, run(make_document))
    page.locator(".dv-row").first.click()
    page.wait_for_url("**/?run=r1&lane=dflash&step=0", timeout=5000)


def test_the_address_is_written_three_times_a_second_at_most(open_page, feed, make_document):
    page = open_at(open_page)
    feed(page, run(make_document))
    writes = page.evaluate(
        """async () => {
          const times = []; const real = history.replaceState.bind(history);
          history.replaceState = (...all) => { times.push(performance.now()); real(...all); };
          const begin = performance.now();
          for (let at = 0; performance.now() - begin < 1500; at = (at + 1) % 7) {
            view.seek(at); await new Promise((done) => setTimeout(done, 10));
          }
          return times.slice(1).map((time, i) => time - times[i]);
        }"""
    )
    assert writes
    assert min(writes) >= 330
    page.wait_for_url(f"**/*&step={page.evaluate('view.at')}")  # the last of them is not lost


def test_an_address_leads_to_its_step(open_page, feed, make_document):
    page = open_at(open_page, "?run=r1&lane=dflash&step=3&position=5")
    other = run(make_document, "other", prompt="Another.", origin="recorded")
    feed(page, other)
    assert where(page) == "DFlash: step 6 of 6"
    assert "run=r1" in page.url, "the run may still come"
    feed(page, run(make_document, origin="recorded", play=True))
    assert where(page) == "DFlash: step 3 of 6"
    assert not page.evaluate("view.player.playing")
    assert page.locator(".dv-inspector").is_visible()
    assert page.locator(".dv-looked-into").get_attribute("data-position") == "5"
    feed(page, other)
    feed(page, run(make_document, origin="recorded"))
    assert where(page) == "DFlash: step 6 of 6", "it leads there once"


def test_a_link_to_the_break_opens_the_inspector_there(open_page, feed, make_document):
    page = open_at(open_page)
    feed(page, run(make_document, origin="recorded"))
    page.locator(".dv-cell").nth(3).click()
    page.locator(".dv-move-previous-step").click()
    page.wait_for_url("**/?run=r1&lane=dflash&step=5&position=7")
    page.goto(page.url)
    page.evaluate("window.view = DFlashViz.mount(document.querySelector('.dv-root'))")
    feed(page, run(make_document, origin="recorded"))
    assert page.locator(".dv-inspector-step").inner_text() == "Step 5 of 6"


def test_of_two_views_one_takes_the_address(open_page, feed, make_document):
    page = open_at(open_page, "?run=r1&lane=dflash&step=3")
    two = "<div class=dv-root id=two></div>"
    page.evaluate("(two) => document.querySelector('main').insertAdjacentHTML('beforeend', two)", two)
    page.evaluate("window.other = DFlashViz.mount(document.querySelector('#two'))")
    recorded = run(make_document, origin="recorded")
    feed(page, recorded)
    page.evaluate("(text) => other.feed(text)", recorded.text)
    drawn(page)
    shown = "[view, other].map((one) => one.lanes.get('dflash').shown)"
    assert page.evaluate(shown) == [4, 7], "the first that has the run"


def test_a_live_run_makes_the_link_old(open_page, feed, make_document):
    page = open_at(open_page, "?run=r1&lane=dflash&step=3")
    feed(page, run(make_document, "live"))
    page.wait_for_url("**/?run=live")
    feed(page, run(make_document, origin="recorded"))
    assert where(page) == "DFlash: step 6 of 6"


def test_with_its_run_the_address_goes(open_page, feed, make_document):
    page = open_at(open_page, "?theme=dark")
    feed(page, run(make_document))
    slider(page).fill("3")
    page.wait_for_url("**/?theme=dark&run=r1&lane=dflash&step=2")
    feed(page, "")
    page.wait_for_url("**/?theme=dark")
    feed(page, run(make_document))
    page.wait_for_url("**/?theme=dark&run=r1")
    page.evaluate("history.replaceState(null, '', '?run=theirs')")
    feed(page, "")
    page.wait_for_timeout(500)
    assert page.url == ADDRESS + "?run=theirs", "another's address is none of its own"


@pytest.mark.parametrize("query", ["lane=nope&step=3", "lane=dflash&step=-1", "step=x"])
def test_a_wrong_address_shows_the_run(open_page, feed, make_document, query):
    page = open_at(open_page, f"?run=r1&{query}")
    feed(page, run(make_document))
    assert where(page) == "DFlash: step 6 of 6"
    assert not page.problems


def test_the_link_is_copied(open_page, feed, make_document):
    page = open_at(open_page, "?theme=dark")
    feed(page, run(make_document))
    slider(page).fill("5")
    link = page.locator(".dv-copy-link")
    width = link.bounding_box()["width"]
    link.click()
    page.wait_for_function("document.querySelector('.dv-copy-link').textContent === 'Copied'")
    assert link.bounding_box()["width"] == width
    page.evaluate("document.body.insertAdjacentHTML('beforeend', '<textarea id=paste></textarea>')")
    page.locator("#paste").focus()
    page.keyboard.press("Control+v")
    assert page.locator("#paste").input_value() == ADDRESS + "?theme=dark&run=r1&lane=dflash&step=4"


def test_a_view_out_of_sight_leaves_keys_and_address_alone(open_page, feed, make_document):
    page = open_at(open_page)
    tab = "<div id=tab><div class=dv-root></div></div>"
    page.evaluate("(tab) => document.querySelector('main').insertAdjacentHTML('beforeend', tab)", tab)
    page.evaluate("window.other = DFlashViz.mount(document.querySelector('#tab .dv-root'))")
    page.evaluate("document.getElementById('tab').style.display = 'none'")
    feed(page, run(make_document))
    page.evaluate("(text) => other.feed(text)", run(make_document, "r2").text)
    page.wait_for_timeout(800)
    assert page.url == ADDRESS + "?run=r1"
    page.evaluate("document.activeElement.blur()")
    page.keyboard.press("?")
    assert page.evaluate("[view, other].map((one) => one.popover.owner !== null)") == [True, False]


def test_a_cell_opens_the_inspector(open_page, feed, make_document):
    page = open_page()
    feed(page, run(make_document))
    cells = page.locator(".dv-cell[role=button]")
    assert cells.count() == 9
    assert page.locator(".dv-cell[tabindex='0']").count() == 1, "one cell at a time is in the tab order"
    cells.first.focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    drawn(page)
    looked = "[view.inspected.lane.name, view.inspected.at, view.inspected.position]"
    assert page.evaluate(looked) == ["dflash", 6, 1]
    assert where(page) == "DFlash: step 6 of 6", "the arrows went from cell to cell"
    assert page.locator(".dv-inspector").is_visible()
    assert page.locator(".dv-looked-into .dv-position").all_inner_texts() == ["2", "→ 2"]
    page.keyboard.press("Escape")
    assert page.locator(".dv-inspector").is_hidden()
    cells.last.click()
    assert page.evaluate(looked) == ["dflash", 6, 1], "the recovered token stands at the break"
    slider(page).fill("3")
    drawn(page)
    assert page.evaluate(looked) == ["dflash", 2, None], "it goes along"


def test_while_a_run_is_on_the_way_its_steps_can_be_looked_into(open_page, feed, make_document):
    page = open_page()
    document = make_document().announce("dflash").header().prefill().block(WORDS, 2, " x")
    feed(page, document)
    page.locator(".dv-cell").nth(2).click()
    feed(page, document.block(WORDS, 7, " y"))
    assert page.evaluate("[view.inspected.at, view.inspected.position]") == [1, 1], "it stays at its step"
    assert page.locator(".dv-caption").inner_text().startswith("Step 1:")
    page.evaluate("view.step(1)")
    drawn(page)
    assert page.evaluate("view.inspected.at") == 2
