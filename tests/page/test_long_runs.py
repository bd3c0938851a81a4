"""A run as long as a trace may be: every step is one jump away, and the page stays small."""

from __future__ import annotations

import itertools
import json

import pytest

pytestmark = pytest.mark.browser
STEPS = 200_000
K = 3
BIN = 100  # steps that a chart's point stands for
STRIDE = 2000  # steps between two lines of figures
LANE = "view.lanes.get('dflash')"


def columns() -> dict:
    """Step i accepts i mod 4 of three tokens; step 0 is the prompt's own."""
    accepted = [0, *(index % (K + 1) for index in range(1, STEPS))]
    own = [0, *(index % 50 + 4 for index in range(1, STEPS))]
    return {
        "type": "steps",
        "lane": "dflash",
        "count": STEPS,
        "start": [round(0.01 * index, 6) for index in range(STEPS)],
        "end": [round(0.01 * (index + 1), 6) for index in range(STEPS)],
        "draft_s": [0.002] * STEPS,
        "verify_s": [0.007] * STEPS,
        "drafted": [1, 2, 3] * (STEPS - 1),
        "num_drafted": [0, *[K] * (STEPS - 1)],
        "own": own,
        "cut": {},
        "num_accepted": accepted,
        "last": "p" + "".join("b" if count == K else "r" for count in accepted[1:]),
        "prefill": [0],
        "padded": [],
        "batch_size": [],
        "tokens": {str(index): f" w{index}" for index in range(60)},
        "positions": {"100000": [{"target": [[4, 0.25]], "drafter": []}]},
        "source": {},
    }


def figures(steps: dict) -> list[dict]:
    counts = list(itertools.accumulate(count + 1 for count in steps["num_accepted"]))
    ends = range(BIN - 1, STEPS, BIN)
    return [
        {
            "type": "figures",
            "lane": "dflash",
            "after": after,
            "bin": BIN,
            "values": {"al": str(after)},
            "al": [[i, 2.5, 2.5] for i in ends if after - STRIDE <= i < after],
            "race": [[steps["end"][i], counts[i]] for i in ends if after - STRIDE <= i < after],
            "histogram": [after, 0, 0, 0],
            "positions": {"unconditional": [0.5] * K, "conditional": [0.5] * K},
            "split": {"draft": 1, "verify": 2, "rest": 1},
        }
        for after in range(STRIDE, STEPS + 1, STRIDE)
    ]


@pytest.fixture(scope="module")
def long_run(make_document) -> str:
    document = make_document(k=K, origin="recorded", play=True).define().announce("dflash").header()
    steps = columns()
    document.lines += [steps, *figures(steps)]
    document.end(reason="length").text_line("same", "Compared.").add("finish")
    return "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in document.lines)


def seek(page, at: int) -> None:
    page.evaluate(
        "async (at) => { view.seek(at);"
        " await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))); }",
        at,
    )


def test_any_step_of_200_000_is_one_jump_away(open_page, feed, long_run):
    page = open_page(plotly=True)
    feed(page, long_run)
    assert page.evaluate(f"{LANE}.steps.length") == STEPS
    for at in (100_000, 199_998, 3, 150_001, 0):
        seek(page, at)
        assert page.locator(".dv-slider").get_attribute("aria-valuetext") == f"DFlash: step {at} of 199999"
        assert page.locator(".dv-step-number").inner_text() == f"step {at}"
        row = page.locator(".dv-row").last
        assert row.locator(".dv-row-index").inner_text() == str(at)
        box, history = row.bounding_box(), page.locator(".dv-history").bounding_box()
        assert history["y"] <= box["y"] <= history["y"] + history["height"] - box["height"] / 2
        accepted = at % (K + 1) if at else 0
        own = f" w{at % 50 + 4}" if at else " w0"
        tail = " w1 w2 w3"[: 3 * accepted] + own
        assert page.locator(".dv-answer").evaluate("(node) => node.textContent").endswith(tail)
        shown = (at + 1) // STRIDE * STRIDE
        assert page.locator("td[data-key=al]").inner_text() == (str(shown) if shown else "–")
        assert page.locator("td[data-key=text]").inner_text() == "–"
        assert page.evaluate("document.querySelectorAll('.dv-root :not(.dv-plot *)').length") < 1700
        assert page.locator(".dv-answer").evaluate("(node) => node.textContent.length") < 200_000
    seek(page, STEPS - 1)
    assert page.locator("td[data-key=text]").inner_text() == "= same"
    assert page.locator(".dv-check-true").is_visible()
    assert "the beginning is left out" in page.locator(".dv-limit").inner_text()
    assert page.evaluate("view.deck.cards.get('dflash').answer.wholeText().length") > 1_000_000
    assert not page.problems


def test_a_course_is_drawn_up_to_the_cursor_and_says_what_a_point_is(open_page, feed, long_run):
    page = open_page(plotly=True)
    feed(page, long_run)
    seek(page, 50_049)
    plot = "document.querySelector('.dv-plot[data-key={}]')"
    page.locator(".dv-plot[data-key=al]").scroll_into_view_if_needed()
    page.wait_for_function(f"{plot.format('al')}.data?.[0].x.length === 500", timeout=20_000)
    assert page.locator("[data-key=al] .dv-chart-note").inner_text() == (
        "each point: 100 steps, and their mean AL"
    )
    page.locator(".dv-plot[data-key=race]").scroll_into_view_if_needed()
    page.wait_for_function(f"{plot.format('race')}.data?.[0].x.length === 500", timeout=20_000)


def test_the_list_of_steps_may_be_higher_than_an_element(open_page, feed, long_run):
    """Browsers cut off elements beyond some 16 million pixels: rows are found all the same."""
    page = open_page()
    page.evaluate("window.matchMedia = () => ({ matches: false })")
    feed(page, long_run)
    card = "view.deck.cards.get('dflash').history"
    seek(page, STEPS - 1)
    page.evaluate(f"{card}.rowHeight = 120; {card}.rows.forEach((row) => row.remove()); {card}.rows.clear()")
    page.evaluate(f"{card}.resize({LANE}); {card}.follower.toEnd(); {card}.look()")
    box = page.locator(".dv-history").bounding_box()
    for at in (STEPS - 1, 123_456, 0, 77):
        page.evaluate(f"{card}.select({at})")
        row = page.locator(f".dv-row[aria-posinset='{at + 1}']")
        place = row.bounding_box()
        assert box["y"] - 1 <= place["y"], at
        assert place["y"] + place["height"] <= box["y"] + box["height"] + 1, at
        page.mouse.click(place["x"] + 20, place["y"] + 60)
        assert page.locator(".dv-caption").inner_text().startswith(f"Step {at}:")
