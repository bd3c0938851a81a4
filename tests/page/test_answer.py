"""The answer's text: its marks, its copies, and its way back."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.browser
WORDS = [" a", " b", " c", " d", " e", " f", " g"]
SELECTED = """() => {
  getSelection().selectAllChildren(document.querySelector('.dv-answer'));
  return getSelection().toString();
}"""
SAID = "[...document.querySelectorAll('.dv-answer .dv-said')]"
LEVELS = f"{SAID}.map((node) => [node.dataset.level, node.title])"


def choose(page, mode: str) -> None:
    page.get_by_role("button", name=mode, exact=True).click()


def position(own: int, p: float, p_drafted: float | None = None) -> dict:
    drafted = {} if p_drafted is None else {"p_target_drafted": p_drafted}
    return {"target": [[own, p], [1, 0.001]], "drafter": [], **drafted}


def believed(make_document):
    """A prefill without probabilities, then a block with them: three accepted, one recovered."""
    document = make_document(k=4).announce("dflash").header().prefill()
    document.block([" a", " b", " c", " d"], 3, " x")
    own = document.lines[-1]["emitted"][-1]
    document.lines[-1]["positions"] = [
        position(2, 0.5, 0.95),
        position(2, 0.5, 0.71),
        position(2, 0.5, 0.5),
        position(own, 0.234, 0.1),
        position(2, 0.9),
    ]
    return document


def test_confidence_is_the_targets_probability_of_what_was_emitted(open_page, feed, make_document):
    page = open_page()
    feed(page, believed(make_document))
    choose(page, "Confidence")
    assert page.evaluate(LEVELS) == [
        ["0", "plain, target's probability not recorded"],
        ["5", "accepted, target's probability 0.95"],
        ["4", "accepted, target's probability 0.71"],
        ["3", "accepted, target's probability 0.50"],
        ["2", "recovered, target's probability 0.23"],
    ]
    forms = page.evaluate(
        f"{SAID}.map((node) => {{ const style = getComputedStyle(node);"
        " return style.textDecorationLine + style.textDecorationStyle + style.textDecorationThickness; })"
    )
    assert len(set(forms)) == 5, "levels are told apart by their form"
    legend = page.locator(".dv-legend .dv-said")
    assert legend.all_inner_texts() == [
        "0.9 or more",
        "0.7 to 0.9",
        "0.5 to 0.7",
        "0.2 to 0.5",
        "less than 0.2",
        "not recorded",
    ]
    assert "target's probability" in page.locator(".dv-legend").get_attribute("title")


def test_a_plain_token_has_the_targets_probability(open_page, feed, make_document):
    page = open_page()
    document = make_document(lane="none", k=0).announce("none").header().prefill().plain(" a")
    document.lines[-1]["positions"] = [position(document.lines[-1]["emitted"][0], 0.834)]
    feed(page, document)
    assert page.evaluate(LEVELS)[1] == ["4", "plain, target's probability 0.83"]


@pytest.mark.parametrize("mode", ["Origin", "Step", "Confidence", "Plain"])
def test_a_copy_is_the_plain_text_in_every_mode(open_page, feed, make_document, mode):
    emoji = "😀".encode()
    page = open_page()
    document = make_document().announce("dflash").header().prefill("One\n")
    document.block([emoji[:2], emoji[2:], "\t<b>", " &", "  two", "\n", "x"], 6, "한")
    document.block([*WORDS[:3], "<|im_end|>", *WORDS[4:]], 4, None).end()
    feed(page, document)
    choose(page, mode)
    text = "One\n😀\t<b> &  two\n한 a b c"
    assert page.evaluate(SELECTED) == text
    assert page.evaluate("view.deck.cards.get('dflash').answer.wholeText()") == text
    page.get_by_role("button", name="Copy text", exact=True).click()
    page.get_by_role("button", name="Copied", exact=True).wait_for()
    page.evaluate("document.body.insertAdjacentHTML('beforeend', '<textarea id=paste></textarea>')")
    page.locator("#paste").focus()
    page.keyboard.press("Control+v")
    assert page.locator("#paste").input_value() == text


def test_steps_are_told_apart(open_page, feed, make_document):
    page = open_page()
    document = make_document().announce("dflash").header().prefill().block(WORDS, 2, " x")
    feed(page, document.block(WORDS, 0, " y"))
    choose(page, "Step")
    bands = page.evaluate(
        f"{SAID}.map((node) => [node.dataset.band, getComputedStyle(node, '::before').content !== 'none'])"
    )
    assert bands == [["0", True], ["1", True], ["1", False], ["1", False], ["0", True]]
    assert page.locator(".dv-toggle[aria-pressed=true]").all_inner_texts() == ["Step"]
    choose(page, "Plain")
    assert page.locator(".dv-legend").inner_text() == "The text without marks."


def test_a_character_over_tokens_survives_the_way_back(open_page, feed, make_document):
    hangul, emoji = "한".encode(), "😀".encode()
    page = open_page()
    document = make_document(k=2, origin="recorded").announce("dflash").header().prefill(hangul[:2])
    document.block([hangul[2:], emoji[:1]], 2, emoji[1:3]).block([emoji[3:], " a"], 0, emoji[3:])
    feed(page, document.block([" b", " c"], 1, " d").add("finish"))
    seen = []
    for at in (0, 1, 2, 3, 2, 1, 0, 1, 2, 3, 1, 2):
        page.evaluate("(at) => { view.seek(at); view.draw(performance.now()); }", at)
        seen.append(page.locator(".dv-answer").evaluate("(node) => node.textContent"))
    texts = ["", "한", "한😀", "한😀 b d"]
    assert seen == [texts[at] for at in (0, 1, 2, 3, 2, 1, 0, 1, 2, 3, 1, 2)]


def test_whatever_way_leads_there_the_answer_is_the_same(open_page, feed, make_document):
    page = open_page()
    document = make_document(origin="recorded").announce("dflash").header().prefill()
    for index in range(600):
        document.block(WORDS, index % 8, " x")
    feed(page, document.end().add("finish"))
    go = "(at) => { view.seek(at); view.draw(performance.now()); }"
    lane = "view.lanes.get('dflash')"
    for at in (600, 599, 580, 50, 400, 390, 120, 600):
        page.evaluate(go, at)
        steps = page.evaluate(f"{lane}.steps.slice(0, {lane}.shown).flatMap((step) => step.emitted)")
        names = {number: raw.decode() for raw, number in document.ids.items()}
        text = page.locator(".dv-answer").evaluate("(node) => node.textContent")
        assert text == "".join(names[token] for token in steps), at
        assert page.locator(".dv-answer .dv-said").count() <= 1000
        assert page.locator(".dv-limit").is_visible() == (len(steps) > 1000)
