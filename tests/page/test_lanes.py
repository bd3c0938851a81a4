"""Several lanes of one prompt: the race and its replay, the table, the cards and the charts."""

from __future__ import annotations

import pytest

from tests.page.conftest import plotly_script

pytestmark = pytest.mark.browser
LANES = ["dflash", "eagle3", "ngram", "none"]

# All that the page says about a run, in words. The playback's clock and the live region are no part of it.
STATE = """() => Object.fromEntries(
  ['.dv-race-words', '.dv-race-tokens', '.dv-value', '.dv-verdict-message', '.dv-turn', '.dv-step-number',
   '.dv-block', '.dv-caption', '.dv-answer', '.dv-ending', '.dv-check', '.dv-different', '.dv-history-space']
  .map((name) => [name, [...document.querySelectorAll(name)].map((node) => node.textContent)])
  .concat([['bars', [...document.querySelectorAll('.dv-race-bar')].map((node) => node.style.width)]]))"""


def cell(page, lane: str, key: str) -> str:
    return page.locator(f"td[data-lane={lane}][data-key={key}]").inner_text()


def words(page, lane: str) -> str:
    return page.locator(f".dv-race-row[data-lane={lane}] .dv-race-words").inner_text()


def bar(page, lane: str) -> float:
    width = f"document.querySelector('.dv-race-row[data-lane={lane}] .dv-race-bar').style.width"
    return float(page.evaluate(width).rstrip("%"))


def button(page, name: str):
    return page.get_by_role("button", name=name, exact=True)


def wait_for_end(page):
    page.wait_for_function("view.player.finished && document.querySelector('.dv-verdict')", timeout=20_000)
    page.wait_for_function("[...view.deck.cards.values()].every((card) => !card.stale)")


def test_lanes_stand_in_the_documents_order_before_they_run(open_page, feed, make_race):
    page = open_page()
    document = make_race(finish=False)
    first_step = next(i for i, line in enumerate(document.lines) if line["type"] == "step")
    document.lines = document.lines[:first_step]
    feed(page, document)
    names = ["● DFlash", "■ EAGLE-3", "▲ n-gram", "◆ no speculation"]
    assert page.locator(".dv-lane-name").all_inner_texts() == names
    assert page.locator(".dv-race-name").all_inner_texts() == names
    assert page.locator(".dv-table thead th .dv-lane-title").all_inner_texts() == [n[2:] for n in names]
    assert page.locator(".dv-turn").all_inner_texts() == ["running", "waiting", "waiting", "waiting"]
    assert set(page.locator(".dv-value").all_inner_texts()) == {"–"}
    assert page.locator(".dv-controls").is_hidden(), "nothing to replay yet"


def test_nothing_moves_when_the_values_come(open_page, feed, make_race):
    page = open_page()
    places = (
        "[...document.querySelectorAll('.dv-card, .dv-table, .dv-controls, .dv-chart-part')]"
        ".map((node) => node.getBoundingClientRect()).map(({ x, y, width, height }) => [x, y, width, height])"
    )
    document = make_race(finish=False)
    lines = list(document.lines)
    seen = []
    for count in (8, 20, 60, len(lines)):
        document.lines = lines[:count]
        feed(page, document)
        seen.append(page.evaluate(places))
    assert seen == [seen[0]] * 4


def test_race_on_a_common_clock(open_page, feed, make_race):
    page = open_page()
    feed(page, make_race(steps=12))
    seconds = [0.1 + 12 * (0.04 + 0.01 * place) for place in range(4)]
    for lane, own in zip(LANES, seconds, strict=True):
        assert bar(page, lane) == pytest.approx(100 * own / seconds[-1])
    assert words(page, "none") == "13 tokens in 0.94 s"
    assert page.locator(".dv-race-why").inner_text().startswith("Lanes share this machine")
    assert page.locator(".dv-clock").inner_text() == "0.9 of 0.9 s"


# Halts a replay at a moment of its clock and tells what each lane shows then.
HALT = """async ([mode, clock]) => {
  view.setMode(mode); view.restart(); view.player.playing = false; view.player.clock = clock; view.schedule();
  await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
  const shown = ([name, lane]) => [name, [lane.tokens, lane.seconds]];
  return Object.fromEntries([...view.lanes].map(shown));
}"""


@pytest.mark.parametrize("mode", ["by time", "by token"])
def test_a_replay_ends_as_the_run_ended(open_page, feed, make_race, mode):
    page = open_page()
    feed(page, make_race())
    before = page.evaluate(STATE)
    assert not page.evaluate("view.player.playing"), "a live run never plays by itself"
    button(page, mode).click()
    page.get_by_role("button", name="Speed 4 times").click()
    button(page, "Replay").click()
    page.evaluate(HALT, [mode.removeprefix("by "), 0.2])
    assert page.locator("td.dv-value[data-key=speedup]").all_inner_texts() == ["–"] * 4
    button(page, "Play").click()
    wait_for_end(page)
    assert page.evaluate(STATE) == before
    assert cell(page, "dflash", "speedup") == "2.50"


def test_by_time_every_lane_has_its_own_clock_from_zero(open_page, feed, make_race):
    page = open_page()
    feed(page, make_race())
    shown = page.evaluate(HALT, ["time", 0.4])
    for place, lane in enumerate(LANES):
        pace = 0.04 + 0.01 * place
        assert 0.4 - pace < shown[lane][1] <= 0.4 + 1e-9
    assert shown["dflash"][0] > shown["none"][0]
    assert words(page, "none") == f"running · {shown['none'][1]:.2f} s"
    assert bar(page, "dflash") > bar(page, "none") > 0, "on the way the bars are tokens: the faster is ahead"
    assert page.locator(".dv-race-axis").inner_text().startswith("0 tokens")
    assert page.locator(".dv-clock").inner_text() == "0.4 of 0.9 s"


def test_by_token_all_lanes_are_at_the_same_token(open_page, feed, make_race):
    page = open_page()
    feed(page, make_race())
    shown = page.evaluate(HALT, ["token", 13])
    assert shown["none"] == [13, pytest.approx(0.94)]
    for lane in LANES[:3]:
        tokens = page.evaluate(
            "(lane) => view.lanes.get(lane).steps.map((step) => step.from + step.emitted.length)", lane
        )
        assert shown[lane][0] == max(count for count in tokens if count <= 13)
        assert shown[lane][1] < shown["none"][1]
    assert page.locator(".dv-clock").inner_text().startswith("token 13 of ")


def test_a_replay_keeps_the_page_where_it_is(open_page, feed, make_race):
    page = open_page(plotly=True)
    feed(page, make_race(steps=40))
    page.evaluate("window.scrollTo(0, 700)")
    page.wait_for_timeout(200)
    page.evaluate("view.restart()")
    page.wait_for_timeout(200)
    assert page.evaluate("window.scrollY") == 700
    assert page.evaluate("view.player.playing")


def test_a_recorded_race_plays_by_itself_unless_motion_is_unwanted(open_page, feed, make_race):
    page = open_page()
    feed(page, make_race(origin="recorded", play=True))
    assert page.evaluate("view.player.playing")
    assert button(page, "Pause").is_visible()
    still = open_page(motion=False)
    feed(still, make_race(origin="recorded", play=True))
    assert cell(still, "dflash", "speedup") == "2.50"
    assert not still.evaluate("view.player.playing")


def test_a_recorded_race_without_autoplay_is_shown_whole(open_page, feed, make_race):
    page = open_page()
    feed(page, make_race(origin="recorded"))
    assert button(page, "Replay").is_visible()
    assert cell(page, "dflash", "speedup") == "2.50"


def test_lines_after_the_end_are_shown_during_no_replay_and_after_one(open_page, feed, make_race):
    page = open_page()
    document = make_race()
    feed(page, document)
    page.evaluate("view.setSpeed(4); view.restart()")
    wait_for_end(page)
    feed(page, document.on("ngram").text_line("same", "Looked at again."))
    page.wait_for_function(
        "document.querySelector('td[data-lane=ngram][data-key=text]').textContent === '= same'"
    )


def test_contended_runs_say_so(open_page, feed, make_race):
    page = open_page()
    feed(page, make_race(contended=True))
    assert "Contended" in page.locator(".dv-contended").inner_text()
    assert page.locator(".dv-race-why").inner_text().startswith("All lanes ran at the same time")
    feed(page, make_race())
    assert page.locator(".dv-contended").is_hidden()


def test_table_of_figures(open_page, feed, make_race):
    page = open_page()
    feed(page, make_race())
    rows = page.locator(".dv-table tbody th[scope=row] .dv-figure-label").all_inner_texts()
    assert rows == ["AL", "acceptance rate", "speed", "speedup", "text"]
    assert page.locator(".dv-table thead th[scope=col]").count() == 5
    assert [cell(page, lane, "al") for lane in LANES] == ["5.11", "4.11", "3.11", "2.11"]
    assert [cell(page, lane, "speedup") for lane in LANES] == ["2.50", "2.00", "1.50", "1.00"]


def test_verdicts_and_where_the_texts_part(open_page, feed, make_race):
    page = open_page()
    feed(page, make_race())
    assert [cell(page, lane, "text") for lane in LANES] == [
        "= same",
        "≈ near-tie",
        "≠ differs",
        "◆ reference",
    ]
    page.locator("td[data-lane=eagle3] .dv-verdict").click()
    assert page.locator(".dv-popover").inner_text() == "This text: near-tie."
    assert page.locator(".dv-verdict-message").all_inner_texts() == [
        "■ EAGLE-3 ≈ This text: near-tie.",
        "▲ n-gram ≠ This text: differs.",
    ]
    marks = page.evaluate(
        "[...document.querySelectorAll('.dv-different')]"
        ".map((node) => [node.closest('.dv-card').dataset.lane,"
        " [...node.parentNode.querySelectorAll('.dv-said')].indexOf(node), node.dataset.sign, node.title,"
        " getComputedStyle(node).textDecorationLine])"
    )
    assert marks == [
        ["eagle3", 9, "≈", "This text: near-tie.", "underline"],
        ["ngram", 4, "≠", "This text: differs.", "underline"],
    ]


def test_question_mark_explains_what_has_the_focus(open_page, feed, make_race):
    page = open_page()
    feed(page, make_race())
    tip = page.locator(".dv-popover")
    page.keyboard.press("?")
    assert tip.inner_text() == "AL: defined."
    page.keyboard.press("Escape")
    page.locator(".dv-chart-title").first.focus()
    page.wait_for_timeout(100)  # focus may scroll, and a scroll closes the definition
    page.keyboard.press("?")
    assert tip.inner_text() == "Chart al: defined."


def test_a_problem_of_one_lane_leaves_the_others(open_page, feed, make_race):
    page = open_page()
    document = make_race(finish=False)
    document.on("ngram").turn("failed", "the engine ended")
    document.add("problem", lane="ngram", message="The engine ended.", action="See its log.")
    feed(page, document.compare())
    alert = page.get_by_role("alert")
    assert alert.inner_text() == "⚠ The engine ended. See its log."
    assert alert.evaluate("(node) => node.closest('.dv-card').dataset.lane") == "ngram"
    assert words(page, "ngram") == "failed: the engine ended"
    assert page.locator(".dv-turn").all_inner_texts() == ["done", "done", "failed", "done"]
    assert cell(page, "none", "al") == "2.11"


PLOT = "document.querySelector('.dv-plot[data-key={}]')"


def wait_for_charts(page):
    page.wait_for_function(
        "view.charts.charts.every((chart) => chart.made && !chart.isStale(view.charts.lanes))"
    )


HOSTILE = ['<img src=x onerror="window.hacked=1">', "a b\"c'd]", "${alert(1)} & <b>bold</b>", "--x; }"]


def test_names_of_lanes_are_text(open_page, feed, make_race):
    page = open_page(plotly=True)
    feed(page, make_race(lanes=HOSTILE))
    assert page.locator(".dv-lane-name .dv-lane-title").all_inner_texts() == HOSTILE
    assert page.evaluate("[...document.querySelectorAll('.dv-card')].map((n) => n.dataset.lane)") == HOSTILE
    wait_for_charts(page)
    legend = page.evaluate(
        "[...document.querySelectorAll('.dv-plot[data-key=race] .legendtext')].map((n) => n.textContent)"
    )
    assert legend == HOSTILE
    assert page.locator(".dv-root img, .dv-root a").count() == 0
    assert page.evaluate("window.hacked === undefined")
    assert not page.problems


def test_charts_are_made_once_and_updated_in_place(open_page, feed, make_race):
    page = open_page(plotly=True)
    document = make_race(finish=False)
    lines = list(document.lines)
    document.lines = lines[: len(lines) // 2]
    feed(page, document)
    wait_for_charts(page)
    keys = ["al", "histogram", "positions", "race", "split"]
    plots = page.evaluate("[...document.querySelectorAll('.dv-plot')].map((node) => node.dataset.key)")
    assert plots == keys
    page.evaluate("window.made = [...document.querySelectorAll('.dv-plot, .dv-plot .main-svg')]")
    page.evaluate(f"Plotly.relayout({PLOT.format('race')}, {{'xaxis.range': [0, 0.3]}})")
    page.locator(".dv-plot[data-key=al]").scroll_into_view_if_needed()
    box = page.locator(".dv-plot[data-key=al] .nsewdrag").bounding_box()
    page.mouse.move(box["x"] + 40, box["y"] + 40)
    page.mouse.down()
    page.mouse.move(box["x"] + 200, box["y"] + 45, steps=4)
    page.mouse.up()
    page.wait_for_function(f"{PLOT.format('al')}.layout.xaxis.autorange === false")
    zoom = page.evaluate(f"{PLOT.format('al')}.layout.xaxis.range")
    document.lines = lines
    feed(page, document)
    wait_for_charts(page)
    page.evaluate("view.setSpeed(4); view.replayable = true; view.restart()")
    page.wait_for_function("view.player.finished")
    wait_for_charts(page)
    assert page.evaluate(f"{PLOT.format('al')}.layout.xaxis.range") == zoom
    assert page.evaluate(f"{PLOT.format('race')}.layout.xaxis.range") == [0, 0.3]
    now = "[...document.querySelectorAll('.dv-plot, .dv-plot .main-svg')]"
    assert page.evaluate(f"{now}.length === made.length && {now}.every((node, i) => node === made[i])")
    assert not page.problems


def test_charts_show_the_lanes_that_drafted(open_page, feed, make_race):
    page = open_page(plotly=True)
    feed(page, make_race())
    wait_for_charts(page)
    shown = {
        key: page.evaluate(f"[...new Set({PLOT.format(key)}.data.map((trace) => trace.name))]")
        for key in ("al", "histogram", "positions", "race", "split")
    }
    drafting = ["DFlash", "EAGLE-3", "n-gram"]
    assert shown["al"] == shown["histogram"] == drafting
    assert shown["positions"] == [*drafting, "open: conditional"]
    assert shown["race"] == [*drafting, "no speculation"]
    assert shown["split"] == ["draft", "verify", "rest"]
    assert page.evaluate(f"{PLOT.format('al')}.data[0].x.length") == 12
    shares = page.evaluate(f"{PLOT.format('histogram')}.data[0].y")
    assert sum(shares) == pytest.approx(1)
    label = page.locator(".dv-plot[data-key=race]").get_attribute("aria-label")
    assert "no speculation 13 tokens in 0.94 s" in label
    assert page.locator(".dv-plot[role=img]").count() == 5


def test_charts_can_be_read_without_colour(open_page, feed, make_race):
    page = open_page(plotly=True)
    feed(page, make_race())
    wait_for_charts(page)

    def distinct(key: str, of: str, count: int) -> bool:
        found = page.evaluate(f"{PLOT.format(key)}.data.map((trace) => JSON.stringify({of}))")
        return len(set(found)) == count

    assert distinct("race", "[trace.line.dash, trace.marker.symbol]", 4)
    assert distinct("histogram", "trace.marker.pattern.shape", 3)
    assert distinct("positions", "[trace.line.dash, trace.marker.symbol]", 6)
    assert distinct("split", "trace.marker.pattern.shape", 3)
    borders = page.evaluate(
        "[...document.querySelectorAll('.dv-card')]"
        ".map((node) => getComputedStyle(node, '::before').borderLeftStyle)"
    )
    assert borders == ["solid", "dashed", "dotted", "double"]
    assert len(set(page.locator(".dv-race-tip").all_inner_texts())) == 4


def test_theme_reaches_lanes_and_charts(open_page, feed, make_race):
    page = open_page(plotly=True)
    feed(page, make_race())
    wait_for_charts(page)
    colour = f"{PLOT.format('race')}.data[0].line.color"
    sign = "getComputedStyle(document.querySelector('.dv-race-tip')).color"
    assert [page.evaluate(colour), page.evaluate(sign)] == ["#0072b2", "rgb(0, 114, 178)"]
    page.evaluate("document.body.classList.add('dark')")
    page.wait_for_function(f"{colour} === '#4aa8e0'")
    assert page.evaluate(sign) == "rgb(74, 168, 224)"
    page.wait_for_function(f"{PLOT.format('race')}.layout.font.color === '#e6e9ee'")
    fresh = open_page(dark=True, plotly=True)
    feed(fresh, make_race())
    wait_for_charts(fresh)
    assert fresh.evaluate(colour) == "#4aa8e0"


def test_cards_are_swiped_on_a_phone(open_page, feed, make_race):
    page = open_page(phone=True)
    feed(page, make_race())
    dots = page.locator(".dv-dot")
    assert dots.count() == 4
    assert all(
        box["height"] >= 44 and box["width"] >= 44 for box in (dot.bounding_box() for dot in dots.all())
    )
    first, second = page.locator(".dv-card").nth(0), page.locator(".dv-card").nth(1)
    assert first.bounding_box()["width"] < 370, "the next card peeks in"
    assert second.bounding_box()["x"] < 390
    dots.nth(2).tap()
    page.wait_for_function(
        "Math.abs(document.querySelectorAll('.dv-card')[2].getBoundingClientRect().x) < 10"
    )
    assert page.evaluate("scrollX") == 0
    page.wait_for_function("document.querySelectorAll('.dv-dot')[2].getAttribute('aria-pressed') === 'true'")
    page.evaluate("view.restart()")
    page.wait_for_timeout(150)
    assert abs(page.locator(".dv-card").nth(2).bounding_box()["x"]) < 10, "a replay stays at the card"
    dots.nth(3).tap()
    page.wait_for_function("document.querySelectorAll('.dv-dot')[3].getAttribute('aria-pressed') === 'true'")


@pytest.mark.parametrize("phone", [True, False])
@pytest.mark.parametrize("lanes", [LANES, ["dflash"], ["w" * 60, "x y " * 20]])
def test_no_width_overflows(open_page, feed, make_race, phone, lanes):
    page = open_page(phone=phone)
    feed(page, make_race(lanes=lanes, prompt="x" * 500))
    assert page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
    table = page.locator(".dv-table").bounding_box()
    assert table["x"] + table["width"] <= (390 if phone else 1280)
    small = page.evaluate(
        "[...document.querySelectorAll('.dv-root button')].filter((node) => node.offsetParent)"
        ".map((node) => node.getBoundingClientRect()).filter((box) => box.height < 44).length"
    )
    assert not phone or small == 0, "targets for a finger"


@pytest.mark.parametrize("width", [320, 481, 680, 899, 900, 960])
def test_columns_of_any_width(open_page, feed, make_race, width):
    page = open_page()
    page.set_viewport_size({"width": width, "height": 900})
    feed(page, make_race(steps=3))
    outside = page.evaluate(
        "[...document.querySelectorAll('.dv-root *')].filter((node) => !node.closest('.dv-deck, .dv-hidden')"
        " && node.getBoundingClientRect().right > innerWidth + 0.5).map((node) => node.className)"
    )
    assert not outside
    columns = page.evaluate(
        "new Set([...document.querySelectorAll('.dv-card')]"
        ".map((node) => node.getBoundingClientRect().x)).size"
    )
    assert columns == (4 if width <= 480 else 2 if width >= 900 else 1)


def test_one_lane_has_one_wide_card(open_page, feed, make_race):
    page = open_page()
    feed(page, make_race(lanes=["dflash"]))
    assert page.locator(".dv-card").bounding_box()["width"] > 1200
    assert page.locator(".dv-race-why").inner_text() == ""
    assert page.locator(".dv-dots").is_hidden()


def test_the_live_region_names_the_lane(open_page, feed, make_race):
    page = open_page()
    feed(page, make_race())
    page.wait_for_function(
        "document.querySelector('[aria-live]').textContent === 'no speculation, step 12: no draft'",
        timeout=5000,
    )


def test_charts_out_of_sight_wait_until_nothing_new_comes(open_page, feed, make_race):
    page = open_page(plotly=True)
    document = make_race(steps=30)
    made, longest = page.evaluate(
        "async (lines) => { let text = '', longest = 0; for (let at = 0; at < lines.length; at += 6) {"
        " const began = performance.now(); text += lines.slice(at, at + 6).join(''); view.feed(text);"
        " await new Promise((done) => setTimeout(done, 20));"
        " longest = Math.max(longest, performance.now() - began); }"
        " return [view.charts.charts.filter((chart) => chart.made).length, longest]; }",
        document.text.splitlines(keepends=True),
    )
    # On a busy machine nothing new may come for longer than the charts wait (QUIET_MS).
    assert made == 0 or longest > 400
    wait_for_charts(page)
    page.locator(".dv-plot[data-key=al]").scroll_into_view_if_needed()
    page.wait_for_function("view.charts.charts[0].inSight")
    page.evaluate("view.restart()")
    page.wait_for_function(f"({PLOT.format('al')}.data?.[0]?.x.length ?? 0) > 3 && view.player.playing")


def test_a_chart_says_loading_until_plotly_is_there_or_failed(open_page, feed, make_race):
    page = open_page()
    tag = "window.tag = document.createElement('script'); tag.src = 'plotly.min.js'; tag.type = 'text/later';"
    page.evaluate(f"() => {{ {tag} document.head.append(tag); }}")  # asked for, not there yet
    feed(page, make_race())
    messages = page.locator(".dv-chart > .dv-dim")
    assert messages.all_inner_texts() == ["The chart is loading."] * 5
    page.evaluate("tag.dispatchEvent(new Event('error'))")
    assert "needs Plotly" in messages.first.inner_text()
    page.evaluate("tag.dispatchEvent(new Event('load'))")
    assert messages.first.inner_text() == "The chart is loading."
    page.add_script_tag(path=plotly_script())
    page.evaluate("tag.dispatchEvent(new Event('load'))")
    wait_for_charts(page)
    assert messages.count() == 0
