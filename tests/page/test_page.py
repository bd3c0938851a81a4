"""What the page shows of a run, looked at through a browser."""

from __future__ import annotations

import random
import re

import pytest

pytestmark = pytest.mark.browser
WORDS = [" a", " b", " c", " d", " e", " f", " g"]

CELLS = """() => [...document.querySelectorAll('.dv-block .dv-cell:not(.dv-empty)')].map((cell) => ({
  kind: cell.className.match(/dv-cell dv-(\\w+)/)[1],
  sign: cell.querySelector('.dv-mark').textContent,
  text: cell.querySelector('.dv-token').textContent,
  position: cell.querySelector('.dv-position').textContent,
}))"""


def cells(page) -> list[tuple[str, str, str]]:
    return [(cell["kind"], cell["sign"], cell["text"]) for cell in page.evaluate(CELLS)]


def caption(page) -> str:
    return page.locator(".dv-caption").inner_text()


def answer(page) -> str:
    return page.evaluate("document.querySelector('.dv-answer').textContent")


def sentence(words: list[str], kind: str, sign: str) -> list[tuple[str, str, str]]:
    return [(kind, sign, word.replace(" ", "␣")) for word in words]


def test_empty_state_in_words(open_page):
    page = open_page()
    assert (
        page.locator(".dv-empty-state").inner_text() == "Ask something: every drafted block will appear here."
    )


def test_step_with_rejection(open_page, feed, make_document):
    page = open_page()
    feed(page, make_document().header().prefill().block(WORDS, 4, " even"))
    expected = [("anchor", "⚓", "The"), *sentence(WORDS[:4], "accepted", "✓")]
    expected += [("rejected", "✗", "␣e"), *sentence(WORDS[5:], "discarded", "·"), ("recovered", "↻", "␣even")]
    assert cells(page) == expected
    assert (
        caption(page)
        == "Step 1: drafted 7 in one pass, 4 accepted, then ↻ “ even” from the target; 2 discarded."
    )
    assert [cell["position"] for cell in page.evaluate(CELLS)] == [*"01234567", "→ 5"]
    assert answer(page) == "The a b c d even"


def test_full_block(open_page, feed, make_document):
    page = open_page()
    feed(page, make_document().header().prefill().block(WORDS, 7, " more"))
    assert [kind for kind, _, _ in cells(page)] == ["anchor", *["accepted"] * 7, "bonus"]
    assert cells(page)[-1] == ("bonus", "★", "␣more")
    assert (
        caption(page)
        == "Step 1: drafted 7 in one pass, all 7 accepted, then ★ “ more”, the bonus token from the target."
    )


def test_cut_step_says_so(open_page, feed, make_document):
    page = open_page()
    feed(page, make_document().header().prefill().block(WORDS, 5, None, emit=3))
    assert "a stop condition or the token limit cut the step after 3 emitted tokens" in caption(page)
    assert [kind for kind, _, _ in cells(page)] == ["anchor", *["accepted"] * 5, "rejected", "discarded"]
    assert page.locator(".dv-cut").count() == 2, "accepted, but not part of the answer"
    assert answer(page) == "The a b c"


def test_prefill_is_one_plain_cell(open_page, feed, make_document):
    page = open_page()
    feed(page, make_document().header().prefill())
    assert cells(page) == [("plain", "", "The")]
    assert caption(page) == "Step 0: prefill: the target read the prompt and emitted the first token “The”."


def test_only_dflash_drafts_in_one_pass(open_page, feed, make_document):
    page = open_page()
    feed(page, make_document(lane="eagle3").header().prefill().block(WORDS, 4, " even"))
    assert "one pass" not in caption(page)


def test_placeholders_are_never_tokens(open_page, feed, make_document):
    page = open_page()
    document = make_document().header().prefill().block(WORDS, 2, " x")
    document.lines[-1]["drafted"][5:] = [-1, -1]
    feed(page, document)
    assert "-1" not in page.locator(".dv-block").inner_text()
    assert len(cells(page)) == 7


def test_the_block_keeps_its_height(open_page, feed, make_document):
    page = open_page(phone=True)
    document = make_document().header().prefill()
    heights = set()
    for accepted, own in ((0, " x"), (7, " y"), (3, None)):
        feed(page, document)
        heights.add(page.locator(".dv-caption").bounding_box()["y"])
        document.block(WORDS, accepted, own)
    assert len(heights) == 1


def test_characters_over_several_tokens(open_page, feed, make_document):
    hangul, emoji = "한".encode(), "😀".encode()
    page = open_page()
    document = make_document().header().prefill(hangul[:2])
    drafted = [hangul[2:], emoji[:1], emoji[1:3], emoji[3:], emoji[:2], " x", " y"]
    feed(page, document.block(drafted, 4, emoji[:2]))
    texts = [text for _, _, text in cells(page)]
    assert texts[:5] == ["한1/2", "한2/2", "😀1/3", "😀2/3", "😀3/3"]
    assert texts[5] == "⟨F0 9F⟩", "what nothing completes is shown as bytes"
    assert answer(page) == "한😀"
    assert "�" not in page.content()
    feed(page, document.block([emoji[2:], *WORDS[:6]], 1, " end"))
    assert answer(page) == "한😀😀 end"


def test_recovered_token_completes_an_accepted_piece(open_page, feed, make_document):
    hangul = "한".encode()
    page = open_page()
    feed(page, make_document(k=2).header().prefill().block([hangul[:2], b"\x9d"], 1, hangul[2:]))
    assert cells(page)[1][2] == "한1/2"
    assert cells(page)[-1] == ("recovered", "↻", "한2/2")


def test_unfinished_character_ends_as_bytes(open_page, feed, make_document):
    page = open_page()
    feed(page, make_document().header().prefill("Hi").block(WORDS, 0, b"\xf0\x9f").end(reason="length"))
    assert answer(page) == "Hi⟨F0 9F⟩"


def test_whitespace_is_visible(open_page):
    page = open_page()
    shown = page.evaluate("['  a b ', '\\n\\t', ' ', '\\u202e', '\\u0007'].map(DFlashViz.tokens.visible)")
    assert shown == ["␣␣a b␣", "↵⇥", "␣", "⟨U+202E⟩", "␇"]


def test_hostile_text_is_text(open_page, feed, make_document):
    hostile = "<script>window.hacked=1</script></textarea><img src=x onerror=window.hacked=2>"
    page = open_page()
    document = make_document(lane=hostile, prompt=hostile, note=hostile).announce(hostile)
    document.header().prefill(hostile)
    document.block([hostile, *WORDS[:6]], 1, hostile).add("problem", message=hostile, action=hostile)
    document.turn("failed", hostile).define([("al", hostile, hostile)], charts=["al"]).figures(hostile)
    document.text_line("differs", hostile, at=1)
    feed(page, document.end(agrees=False, message=hostile, error=hostile))
    page.locator(".dv-figure").first.click()
    assert answer(page) == hostile * 3
    assert page.locator(".dv-root img, .dv-root script").count() == 0
    assert page.evaluate("window.hacked === undefined")
    assert not page.problems


def long_document(make_document, steps: int):
    rng = random.Random(7)
    document = make_document().header().prefill()
    for _ in range(steps):
        accepted = rng.randrange(8)
        document.block(WORDS, accepted, " z")
    return document


def cuts(text: str, count: int) -> list[int]:
    return [*sorted(random.Random(3).sample(range(1, len(text)), count - 1)), len(text)]


def test_skipped_values_lose_no_step(open_page, make_document):
    document = long_document(make_document, 2000)
    page = open_page()
    page.evaluate(
        "async ([text, cuts]) => { for (const cut of cuts) { view.feed(text.slice(0, cut)); "
        "await new Promise((done) => requestAnimationFrame(done)); } "
        "await new Promise((done) => requestAnimationFrame(done)); }",
        [document.text, cuts(document.text, 50)],
    )
    lane = "view.lanes.get('dflash')"
    assert page.evaluate(f"{lane}.steps.map((step) => step.index)") == list(range(2001))
    emitted = [token for line in document.lines if line["type"] == "step" for token in line["emitted"]]
    assert page.evaluate(f"{lane}.output") == emitted
    names = {number: raw.decode() for raw, number in document.ids.items()}
    assert answer(page) == "".join(names[token] for token in emitted)
    assert page.evaluate("document.querySelectorAll('.dv-history *').length") < 250
    assert page.evaluate("document.querySelectorAll('.dv-root *').length") < 1700
    assert page.evaluate("view.problems.length") == 0


def test_another_document_starts_over(open_page, feed, make_document):
    page = open_page()
    feed(page, make_document(prompt="first").header().prefill().block(WORDS, 3, " x").end())
    feed(page, make_document(prompt="second").header().prefill("Now"))
    assert answer(page) == "Now"
    assert page.locator(".dv-prompt").inner_text() == "Prompt: second"
    feed(page, "")
    assert page.locator(".dv-empty-state").is_visible()
    assert page.locator(".dv-card").count() == 0


def test_definitions_open_and_close(open_page, feed, make_document):
    page = open_page()
    feed(page, make_document().define().header().prefill().figures())
    figure, tip = page.locator(".dv-figure").first, page.locator(".dv-popover")
    figure.click()
    assert tip.inner_text() == "AL: defined."
    assert figure.get_attribute("aria-expanded") == "true"
    assert figure.get_attribute("aria-describedby") == tip.get_attribute("id")
    page.keyboard.press("Escape")
    assert tip.is_hidden()
    assert figure.get_attribute("aria-expanded") == "false"
    figure.focus()
    for key in ("Enter", "?"):
        page.keyboard.press(key)
        assert tip.is_visible()
        page.keyboard.press("Escape")
        assert tip.is_hidden()
    figure.click()
    page.mouse.click(700, 3)
    assert tip.is_hidden()


def test_definition_by_hover_stays_inside_the_window(open_page, feed, make_document):
    page = open_page()
    feed(page, make_document().define().header().prefill().figures())
    title = page.locator(".dv-chart-title").nth(1)
    title.scroll_into_view_if_needed()
    page.wait_for_timeout(100)  # a scroll closes the definition
    title.hover()
    box = page.locator(".dv-popover").bounding_box()
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= 1280


def test_figures_update_in_place(open_page, feed, make_document):
    page = open_page()
    document = make_document().define().header().prefill().figures("1.00")
    feed(page, document)
    cell = page.locator("td[data-lane=dflash][data-key=al]")
    page.evaluate("window.first = document.querySelector('td[data-key=al]')")
    before = cell.bounding_box()
    feed(page, document.figures("7.25"))
    assert page.evaluate("window.first === document.querySelector('td[data-key=al]')")
    assert cell.inner_text() == "7.25"
    assert cell.bounding_box() == before


def test_steps_by_keyboard(open_page, feed, make_document):
    page = open_page()
    document = make_document().header().prefill()
    for accepted in range(1, 7):
        document.block(WORDS, accepted, " x")
    feed(page, document)
    page.locator(".dv-history").focus()
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowUp")
    assert caption(page).startswith("Step 5:")
    assert page.locator(".dv-block-label").inner_text() == "Selected step"
    active = page.locator(".dv-history").get_attribute("aria-activedescendant")
    assert page.locator(f"#{active}").get_attribute("aria-selected") == "true"
    page.keyboard.press("Home")
    assert caption(page).startswith("Step 0:")
    feed(page, document.block(WORDS, 0, " y"))
    assert caption(page).startswith("Step 0:"), "a selected step stays while new ones arrive"
    page.keyboard.press("Escape")
    assert caption(page).startswith("Step 7:")
    assert page.locator(".dv-follow").is_hidden()


def test_steps_by_tap_and_follow(open_page, feed, make_document):
    page = open_page(phone=True)
    document = make_document().header().prefill()
    for _ in range(30):
        document.block(WORDS, 3, " x")
    feed(page, document)
    rows = page.locator(".dv-row")
    assert rows.last.bounding_box()["height"] >= 44
    rows.last.tap()
    assert page.locator(".dv-block-label").inner_text() == "Selected step"
    page.locator(".dv-follow").tap()
    assert page.locator(".dv-block-label").inner_text() == "Latest step"


def test_reading_above_the_end_is_not_disturbed(open_page, feed, make_document):
    page = open_page()
    document = long_document(make_document, 100)
    feed(page, document)
    page.wait_for_timeout(400)
    page.locator(".dv-history").hover()
    page.mouse.wheel(0, -600)
    page.wait_for_timeout(200)
    top = page.evaluate("document.querySelector('.dv-history').scrollTop")
    feed(page, document.block(WORDS, 1, " x"))
    assert page.evaluate("document.querySelector('.dv-history').scrollTop") == top
    assert page.locator(".dv-follow").is_visible()


def test_recorded_playback_pauses_and_finishes(open_page, feed, make_sample):
    page = open_page()
    feed(page, make_sample(origin="recorded", play=True, pace=0.5))
    assert page.locator(".dv-origin").inner_text() == "Recorded run, not live"
    page.locator(".dv-play", has_text="Pause").click()
    steps = page.evaluate("view.lanes.get('dflash').shown")
    page.wait_for_timeout(100)
    assert page.evaluate("view.lanes.get('dflash').shown") == steps < 11
    page.get_by_role("button", name="Speed 4 times").click()
    page.locator(".dv-play", has_text="Play").click()
    page.locator(".dv-check-true").wait_for(timeout=9000)
    assert page.evaluate("view.lanes.get('dflash').shown") == 11
    assert page.locator(".dv-play").inner_text() == "Replay"
    page.locator(".dv-restart").click()
    page.wait_for_timeout(60)
    assert page.evaluate("view.lanes.get('dflash').shown") < 11


def test_reduced_motion_shows_the_finished_run(open_page, feed, make_sample):
    page = open_page(motion=False)
    feed(page, make_sample(origin="recorded", play=True))
    assert page.evaluate("view.lanes.get('dflash').shown") == 11
    assert page.locator(".dv-play").inner_text() == "Replay"


@pytest.mark.parametrize("agrees", [True, False, None])
def test_check_in_words(open_page, feed, make_document, agrees):
    page = open_page()
    feed(page, make_document().header().prefill().end(agrees=agrees, message="the message", reason="length"))
    check = page.locator(".dv-check")
    assert "the message" in check.inner_text()
    assert (check.get_attribute("role") == "alert") == (agrees is False)
    assert "Ended at the token limit. 20 tokens." in page.locator(".dv-ending").inner_text()


def test_turns_and_problems(open_page, feed, make_document):
    page = open_page()
    document = make_document().announce("dflash", "ngram").turn("loading", "loading the weights", 0.6, 42)
    document.on("ngram").turn("waiting", "waits for its turn")
    feed(page, document)
    words = page.locator(".dv-race-words").all_inner_texts()
    assert words == ["loading the weights · 60 % · about 42 s left", "waits for its turn"]
    bar = page.get_by_role("progressbar")
    assert bar.get_attribute("aria-valuenow") == "60"
    assert page.locator(".dv-turn").all_inner_texts() == ["loading", "waiting"]
    assert page.locator(".dv-caption").last.inner_text() == "Waits for its turn."
    document.on("dflash").turn("failed", "no memory.").add(
        "problem", message="No memory.", action="Free some."
    )
    feed(page, document)
    assert page.get_by_role("alert").inner_text() == "⚠ No memory. Free some."
    assert page.get_by_role("progressbar").count() == 0
    assert page.locator(".dv-race-words").first.inner_text() == "failed: no memory."
    assert page.locator(".dv-caption").first.inner_text() == "Failed: no memory."


def test_unknown_lines_are_ignored_and_broken_ones_are_told(open_page, feed, make_document):
    page = open_page()
    document = make_document().add("weather", lane="dflash").header().prefill(unknown=1)
    feed(page, document.text + "{broken\n")
    assert answer(page) == "The"
    assert "could not be read" in page.get_by_role("alert").inner_text()


def test_a_document_without_lanes_and_definitions_is_drawn(open_page, feed, make_document):
    page = open_page()
    document = make_document().header().prefill().figures().on("ngram", k=5).header().prefill().figures()
    feed(page, document)
    assert page.locator(".dv-lane-name").all_inner_texts() == ["● dflash", "■ ngram"]
    assert page.locator(".dv-figure-label").all_inner_texts()[:4] == ["al", "rate", "speed", "text"]
    assert page.locator("td[data-lane=ngram][data-key=rate]").inner_text() == "49 %"


@pytest.mark.parametrize("phone", [True, False])
def test_nothing_overflows_the_page(open_page, feed, make_document, phone):
    page = open_page(phone=phone)
    document = make_document(k=15, prompt="x" * 500, note="z" * 300).header().prefill("w" * 300)
    document.block([*WORDS, *WORDS, "v" * 90], 9, "u" * 200).figures("123456789.00").end(message="m" * 300)
    feed(page, document)
    assert page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")


CONTRAST = """() => {
  const rgb = (text) => text.match(/[\\d.]+/g).map(Number);
  const channel = (c) => (c / 255 <= 0.04045 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4);
  const light = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
  const background = (node) => {
    for (; node; node = node.parentElement) {
      const colour = rgb(getComputedStyle(node).backgroundColor);
      if (colour.length === 3 || colour[3] > 0) return colour;
    }
    return [255, 255, 255];
  };
  const ratio = (node) => {
    const pair = [light(rgb(getComputedStyle(node).color)), light(background(node))].sort((a, b) => b - a);
    return (pair[0] + 0.05) / (pair[1] + 0.05);
  };
  const walker = document.createTreeWalker(document.querySelector('.dv-root'), NodeFilter.SHOW_TEXT);
  const found = [];
  while (walker.nextNode()) {
    const node = walker.currentNode.parentElement;
    const drawn = walker.currentNode.data.trim() && !node.closest('.dv-plot');
    if (drawn) found.push([node.className, ratio(node)]);
  }
  return found;
}"""


@pytest.mark.parametrize("dark", [True, False])
def test_contrast_of_every_text(open_page, feed, make_sample, dark):
    page = open_page(dark=dark)
    document = make_sample()
    feed(page, document)
    page.locator(".dv-history").focus()
    for _ in range(11):
        page.keyboard.press("ArrowUp")
        low = [(name, round(ratio, 2)) for name, ratio in page.evaluate(CONTRAST) if ratio < 4.5]
        assert not low
    page.keyboard.press("Escape")
    for at in range(11):
        page.evaluate("(at) => { view.seek(at); view.inspect(view.lanes.get('dflash'), at, null); }", at)
        page.wait_for_function("(at) => view.inspector.at === at && view.inspector.drawn", arg=at)
        low = [(name, round(ratio, 2)) for name, ratio in page.evaluate(CONTRAST) if ratio < 4.5]
        assert not low, "of the inspector"


def test_live_region_speaks_in_words(open_page, feed, make_document):
    page = open_page()
    feed(page, make_document().header().prefill().block(WORDS, 5, " x"))
    page.wait_for_function(
        "document.querySelector('[aria-live]').textContent === 'dflash, step 1: 5 of 7 accepted'",
        timeout=3000,
    )


def test_marks_can_be_switched_off_and_copy_is_plain(open_page, feed, make_document):
    page = open_page()
    feed(page, make_document().header().prefill().block(WORDS, 7, " x"))
    said = "document.querySelector('.dv-answer .dv-said[data-kind=accepted]')"
    line = f"getComputedStyle({said}).textDecorationLine"
    assert page.evaluate(line) == "underline"
    page.get_by_role("button", name="Plain", exact=True).click()
    pressed = page.locator(".dv-toggle[aria-pressed=true]")
    assert pressed.all_inner_texts() == ["Plain"]
    assert page.evaluate(line) == "none"
    copied = page.evaluate(
        "() => { getSelection().selectAllChildren(document.querySelector('.dv-answer'));"
        " return getSelection().toString(); }"
    )
    assert copied == "The a b c d e f g x"


def test_without_plotly_the_charts_say_so(open_page, feed, make_race):
    page = open_page()
    feed(page, make_race())
    assert page.locator(".dv-chart", has_text="needs Plotly").count() == 5
    assert not page.problems


def test_destroy_leaves_nothing(open_page, feed, make_sample):
    page = open_page()
    feed(page, make_sample())
    page.evaluate("view.destroy()")
    assert page.evaluate("document.querySelector('.dv-root').childNodes.length") == 0
    assert not page.problems


def test_every_script_is_in_the_stated_order(scripts):
    assets = scripts[-1].parent
    assert set(scripts) == {*(assets / "page").glob("*.js"), assets / "page.js"}
    assert not re.search(r"https?://", "".join(path.read_text() for path in scripts)), "nothing is fetched"


HOST = """() => {
  const rules = [...document.styleSheets].flatMap((sheet) => [...sheet.cssRules]);
  document.head.querySelectorAll('style').forEach((node) => node.remove());
  const style = document.createElement('style');
  style.textContent = rules.map((rule) => rule.cssText).join('\\n') + `
    :root { --body-text-color: #1f2937 } .dark { --body-text-color: #f4f4f5 }
    .host .prose * { color: var(--body-text-color) }
    .host .prose :last-child { margin-bottom: 0 !important }
    .host .prose table, .host .prose tr, .host .prose td, .host .prose th { border: 1px solid }
    .host .prose th, .host .prose td { padding: 8px 12px; text-align: left }
    .host .prose table { margin-bottom: 24px } .host .prose button { margin-bottom: 16px }`;
  document.head.append(style);
  document.body.classList.add('host');
  document.querySelector('main').className = 'prose';
}"""


@pytest.mark.parametrize("dark", [True, False])
def test_the_look_survives_a_host_that_rewrites_styles(open_page, feed, make_sample, dark):
    page = open_page(dark=dark)
    page.evaluate(HOST)
    feed(page, make_sample())
    assert not [(name, ratio) for name, ratio in page.evaluate(CONTRAST) if ratio < 4.5]
    sides = "['Top', 'Right', 'Bottom', 'Left'].map((side) => style['border' + side + 'Width'])"
    widths = page.evaluate(
        f"() => {{ const style = getComputedStyle(document.querySelector('.dv-card')); return {sides} }}"
    )
    assert widths == ["1px"] * 4
    loose = page.evaluate(
        "[...document.querySelectorAll('.dv-table :is(td, th), .dv-root button')].map(getComputedStyle)"
        ".filter((style) => style.borderLeftWidth !== '0px' && style.display === 'table-cell'"
        " || style.marginBottom !== '0px').length"
    )
    assert loose == 0, "the host's tables and buttons look otherwise"


def test_width_of_the_column_decides(open_page, feed, make_sample):
    page = open_page()
    feed(page, make_sample())
    side_by_side = (
        "getComputedStyle(document.querySelector('.dv-halves')).gridTemplateColumns.split(' ').length"
    )
    assert page.evaluate(side_by_side) == 2
    page.evaluate("document.querySelector('main').style.width = '500px'")
    page.wait_for_function(f"{side_by_side} === 1")


def test_playback_keeps_the_figures_place(open_page, feed, make_document):
    page = open_page()
    document = make_document(origin="recorded", play=True).define().announce("dflash").header()
    feed(page, document.prefill(seconds=5).figures())
    assert page.locator(".dv-value").all_inner_texts() == ["–"] * 4


def test_selected_step_is_shown_in_the_answer(open_page, feed, make_document):
    page = open_page()
    feed(page, long_document(make_document, 150))
    page.locator(".dv-history").focus()
    page.keyboard.press("Home")
    assert page.locator(".dv-chosen").all_inner_texts() == ["The"]
    box = "document.querySelector('.dv-answer')"
    assert page.evaluate(f"{box}.scrollTop") == 0
    assert page.evaluate("scrollY") == 0
    page.keyboard.press("Escape")
    assert page.locator(".dv-chosen").count() == 0
    assert page.evaluate(f"{box}.scrollTop + {box}.clientHeight >= {box}.scrollHeight - 8")
