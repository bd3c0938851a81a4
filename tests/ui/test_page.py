"""The whole product in a real browser, with real engines behind it."""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Sequence
from pathlib import Path

import psutil
import pytest
from gradio_client import Client
from playwright.sync_api import Page, expect

from dflash_viz.metrics import chat_values, count, lane_values, length_course, length_histogram, race_values
from dflash_viz.trace import Trace, read_trace
from dflash_viz.views.page_lines import format_value
from tests.ui.conftest import LANES, App, make_cache

pytestmark = [pytest.mark.browser, pytest.mark.engine]
READY_MS = 400_000
# The lane that starts first: what needs no other is tested while the others start.
FIRST = LANES[:1]
RUN_MS = 120_000
# The target keeps at this for hundreds of tokens.
LONG = "Write a long story about a ship, at least 1000 words."
HOSTILE = ["<script>alert(1)</script>", "</textarea><img src=x onerror=alert(2)>"]


def chip(page: Page, title: str):  # type: ignore[no-untyped-def]
    return page.locator("#engine .dv-engine").filter(has_text=title)


def card(page: Page, lane: str = "dflash"):  # type: ignore[no-untyped-def]
    return page.locator(f'.dv-card[data-lane="{lane}"]')


def row(page: Page, lane: str):  # type: ignore[no-untyped-def]
    return page.locator(f'.dv-race-row[data-lane="{lane}"]')


def open_ready(page: Page, app: App, lanes: Sequence[str] = LANES) -> None:
    """Open the page once these lanes, which start before the others, are ready."""
    page.goto(app.url)
    expect(page.locator("#engine .dv-ready").nth(len(lanes) - 1)).to_be_visible(timeout=READY_MS)


def open_settings(page: Page) -> None:
    if not page.locator("#max-tokens input[type=number]").is_visible():
        page.locator("#settings button").first.click()
        expect(page.locator("#max-tokens input[type=number]")).to_be_visible()


def set_up(page: Page, tokens: int = 24, lanes: Sequence[str] = ("dflash",)) -> None:
    """Choose lanes and a token limit under Settings."""
    open_settings(page)
    for name, box in zip(LANES, page.locator("#chosen input[type=checkbox]").all(), strict=True):
        box.set_checked(name in lanes)
    field = page.locator("#max-tokens input[type=number]")
    field.fill(str(tokens))
    field.blur()


def ask(page: Page, text: str) -> None:
    page.fill("#question textarea", text)
    page.press("#question textarea", "Enter")
    expect(page.locator(".dv-prompt")).to_contain_text(text[:60], timeout=10_000)


def await_end(page: Page) -> None:
    expect(page.locator("#send")).to_be_enabled(timeout=RUN_MS)


def ask_to_the_end(page: Page, text: str) -> None:
    ask(page, text)
    await_end(page)


def ask_and_see_blocks(page: Page, text: str = LONG, lanes: Sequence[str] = ("dflash",)) -> None:
    """Ask for a long answer, and wait until blocks of the live run are on the page."""
    set_up(page, 1024, lanes)
    # What is drawn repeats itself less, so that fewer drafts are accepted: 24 s without a stop instead of 6.
    page.fill("#temperature input[type=number]", "1")
    page.locator("#temperature input[type=number]").blur()
    ask(page, text)
    expect(card(page).locator(".dv-step-number")).to_contain_text(
        re.compile("step ([2-9]|..)"), timeout=30_000
    )


def figures_on(page: Page, lane: str) -> dict[str, str]:
    """Key to value, as the table shows them for a lane."""
    cells = page.locator(f'td[data-lane="{lane}"]').all()
    shown = {cell.get_attribute("data-key"): cell.inner_text().strip() for cell in cells}
    return {key: value for key, value in shown.items() if key and key != "text"}


def figures_of(trace: Trace, plain: Trace | None, chat: Sequence[Trace] = ()) -> dict[str, str]:
    """The same from the saved traces; ``chat`` are the lane's earlier answers."""
    values = lane_values(trace.steps) | chat_values([*chat, trace])
    compared = race_values(trace.steps, plain.steps) if plain else dict.fromkeys(race_values([], []))
    return {key: format_value(key, value) for key, value in {**values, **compared}.items()}


@pytest.mark.early
def test_recorded_run_plays_while_the_engines_start(app: App, page: Page) -> None:
    """Runs first: the engines of the app have only just been started."""
    page.goto(app.url)
    assert page.locator("#engine .dv-ready").count() < len(LANES)
    expect(page.locator("#engine [role=progressbar]").first).to_be_visible(timeout=20_000)
    expect(chip(page, "no speculation")).to_contain_text("queued")
    expect(page.locator(".dv-origin")).to_contain_text("Recorded run, not live")
    number = card(page).locator(".dv-step-number")
    expect(number).to_contain_text(re.compile(r"step [1-9]"), timeout=20_000)
    first = number.inner_text()
    expect(number).not_to_have_text(first, timeout=10_000)


@pytest.mark.early
def test_definitions_are_one_key_away(app: App, page: Page) -> None:
    page.goto(app.url)
    figure = page.locator('tr[data-key="al"] .dv-figure')
    expect(figure).to_be_visible(timeout=20_000)
    figure.focus()
    page.keyboard.press("Enter")
    expect(page.locator(".dv-popover")).to_contain_text("1 + accepted tokens")
    page.keyboard.press("Escape")
    expect(page.locator(".dv-popover")).to_be_hidden()


@pytest.mark.early
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_phone_has_no_sideways_scrolling(app: App, page: Page, theme: str) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto(f"{app.url}?__theme={theme}")
    expect(page.locator(".dv-block").first).to_be_visible(timeout=20_000)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


@pytest.mark.early
def test_nothing_is_asked_of_the_outside(app: App, page: Page) -> None:
    hosts = set()
    page.on("request", lambda request: hosts.add(request.url))
    page.goto(app.url)
    expect(page.locator(".dv-block").first).to_be_visible(timeout=20_000)
    assert not [url for url in hosts if not url.startswith((app.url, "data:", "blob:"))]


@pytest.mark.early
def test_an_empty_prompt_and_no_lane_are_answered_in_words(app: App, page: Page) -> None:
    page.goto(app.url)
    page.click("#send")
    said = page.get_by_test_id("toast-body")
    expect(said.filter(has_text="The question is empty").first).to_be_visible(timeout=10_000)
    set_up(page, 8, ())
    page.fill("#question textarea", "Hi")
    page.click("#send")
    expect(said.filter(has_text="No lane is chosen").first).to_be_visible(timeout=10_000)


@pytest.mark.early
def test_a_lane_is_usable_before_the_others_are_ready(app: App, page: Page) -> None:
    page.goto(app.url)
    set_up(page)
    ask(page, "Say hello in one word.")
    expect(page.locator(".dv-origin")).to_contain_text("Live", timeout=10_000)
    expect(card(page).locator(".dv-ending")).to_contain_text("tokens", timeout=READY_MS)
    await_end(page)
    assert page.locator("#engine .dv-ready").count() < len(LANES)


def test_turns_keep_their_traces_and_clear_forgets(app: App, page: Page) -> None:
    open_ready(page, app, FIRST)
    set_up(page, 16)
    first = "Repeat after me: 안녕하세요 😀 and a tab"
    ask_to_the_end(page, first)
    traces = [app.last()]
    ask_to_the_end(page, "What did I say?")
    traces.append(app.last())
    assert [m.role for m in traces[1].header.messages] == ["user", "assistant", "user"]
    assert figures_on(page, "dflash") == figures_of(traces[1], None, traces[:1])
    page.locator("#chat .user").first.click()
    expect(page.locator(".dv-origin")).to_contain_text("Recorded run", timeout=10_000)
    expect(page.locator(".dv-prompt")).to_contain_text(first)
    expect(page.locator(".dv-note:not(.dv-notice)")).to_contain_text("Turn 1 of this chat")
    page.get_by_role("button", name="Speed 4 times").click()
    expect(page.locator(".dv-controls .dv-play")).to_have_text("Replay", timeout=60_000)
    assert figures_on(page, "dflash") == figures_of(traces[0], None)
    page.click("#clear")
    expect(page.locator("#chat .user")).to_have_count(0)
    ask_to_the_end(page, "Hello.")
    assert len(app.last().header.messages) == 1


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_shows_as_text(app: App, page: Page, text: str) -> None:
    open_ready(page, app, FIRST)
    set_up(page, 24)
    ask_to_the_end(page, f"Repeat exactly: {text}")
    expect(page.locator("#chat .user").last).to_contain_text(text)
    expect(page.locator(".dv-prompt")).to_contain_text(text)
    trace = app.last()
    assert trace.end is not None
    assert trace.header.messages[-1].content.endswith(text)
    assert trace.end.text.strip() in card(page).locator(".dv-answer").evaluate("node => node.textContent")
    assert page.locator("img[src=x]").count() == 0


def test_closing_the_tab_stops_its_run(app: App, page: Page) -> None:
    open_ready(page, app, FIRST)
    tab = page.context.new_page()
    open_ready(tab, app, FIRST)
    ask_and_see_blocks(tab)
    tab.close()
    path = app.files()[-1]
    assert read_trace(path).end is None, "it ended by itself before the tab was closed"
    deadline = time.monotonic() + 20
    while (size := path.stat().st_size) != (time.sleep(1.5) or path.stat().st_size):
        assert time.monotonic() < deadline, f"the run goes on: {size} bytes"


def test_the_race(app: App, page: Page) -> None:
    """Four lanes, one prompt: what the page says is what the saved traces say."""
    open_ready(page, app)
    set_up(page, 24, LANES)
    ask_to_the_end(page, "Write a Python function that returns the n-th Fibonacci number.")
    traces = {lane: app.last(lane) for lane in LANES}
    for lane, trace in traces.items():
        assert trace.end is not None
        assert figures_on(page, lane) == figures_of(trace, traces["none"]), lane
        expect(row(page, lane)).to_contain_text(f"{len(trace.output_token_ids)} tokens in")
        expect(card(page, lane).locator(".dv-check")).to_contain_text(
            "agrees with vLLM" if lane != "none" else "Not checked"
        )
        assert trace.end.text.strip() in card(page, lane).locator(".dv-answer").evaluate("n => n.textContent")
        verdict = page.locator(f'td[data-lane="{lane}"][data-key="text"] button')
        expected = r"reference" if lane == "none" else r"same|near-tie"
        assert re.search(expected, verdict.get_attribute("data-verdict") or ""), verdict.inner_text()
    starts = [(t.header.lane, t.header.recorded_at) for t in traces.values()]
    assert starts == sorted(starts, key=lambda item: item[1]), "one after another, in the page's order"
    check_charts(page, traces)
    check_replay(page, traces)
    expect(page.locator("#files a").first).to_be_visible()
    assert page.locator("#files tr, #files .file").count() >= len(LANES)


def plotted(page: Page, key: str, field: str) -> list[list[float]]:
    """A field of every trace of a chart; those out of sight are drawn when nothing new comes."""
    plot = page.locator(f".dv-plot[data-key={key}]")
    plot.scroll_into_view_if_needed()
    page.wait_for_function("node => node.data?.length", arg=plot.element_handle(), timeout=20_000)
    page.wait_for_timeout(600)  # charts follow four times a second
    return plot.evaluate(f"node => Array.from(node.data).map(one => Array.from(one.{field}))")


def check_charts(page: Page, traces: dict[str, Trace]) -> None:
    """No step was dropped on the way to the charts."""
    steps = traces["dflash"].steps
    assert [point[1] for point in length_course(steps)] in plotted(page, "al", "y")
    histogram = length_histogram(steps)
    shares = [n / sum(histogram) for n in histogram]
    bars = plotted(page, "histogram", "y")
    assert any(bar == pytest.approx(shares, abs=1e-3) for bar in bars if len(bar) == len(shares))
    assert len(plotted(page, "race", "y")) >= len(LANES)


def check_replay(page: Page, traces: dict[str, Trace]) -> None:
    """Replayed by time and by token, everything ends as it was."""
    before = {lane: figures_on(page, lane) for lane in LANES}
    page.get_by_role("button", name="Speed 4 times").click()
    for mode in ("by token", "by time"):
        page.get_by_role("button", name=mode).click()
        page.locator(".dv-controls .dv-play").click()
        expect(page.locator(".dv-controls .dv-play")).to_have_text("Pause")
        expect(page.locator(".dv-controls .dv-play")).to_have_text("Replay", timeout=60_000)
        assert {lane: figures_on(page, lane) for lane in LANES} == before
        for lane, trace in traces.items():
            expect(row(page, lane)).to_contain_text(f"{len(trace.output_token_ids)} tokens in")


def test_at_the_same_time_is_labelled(app: App, page: Page) -> None:
    open_ready(page, app)
    set_up(page, 12, ("dflash", "none"))
    page.locator("#contended input").check()
    ask_to_the_end(page, "Count to five.")
    expect(page.locator("#stage")).to_contain_text("at the same time")
    assert app.last("dflash").header.contended_with == ["none"]
    assert figures_on(page, "dflash")["speedup"] == "–"


def test_blocks_arrive_while_the_engine_runs_then_stop(app: App, page: Page) -> None:
    open_ready(page, app)
    count_before = len(app.files())
    ask_and_see_blocks(page, lanes=("dflash", "none"))
    expect(chip(page, "DFlash")).to_contain_text("running", timeout=30_000)
    seen = set()
    while len(seen) < 5:
        seen.add(card(page).locator(".dv-step-number").inner_text())
        assert page.locator("#stop").is_enabled(), "the engine ended before blocks were seen"
    page.click("#stop")
    expect(page.locator("#send")).to_be_enabled(timeout=RUN_MS)
    expect(card(page).locator(".dv-ending")).to_contain_text("Stopped")
    expect(row(page, "none")).to_contain_text("stopped before its turn")
    assert len(app.files()) == count_before + 1
    trace = app.last()
    assert trace.end is not None
    assert trace.end.finish_reason == "abort"
    assert figures_on(page, "dflash") == figures_of(trace, None)
    assert page.locator("#chat .bot").last.inner_text().strip() == trace.end.text.strip()


def test_settings_reach_the_engine_and_regenerate_draws_anew(app: App, page: Page) -> None:
    open_ready(page, app)
    set_up(page, 20, ("dflash", "none"))
    page.fill("#system textarea", "You are a pirate.")
    page.locator("#temperature input[type=number]").fill("1")
    page.locator("#temperature input[type=number]").blur()
    ask_to_the_end(page, "Tell me a joke.")
    one = app.last()
    assert one.header.messages[0].content == "You are a pirate."
    assert (one.header.sampling.temperature, one.header.sampling.seed) == (1.0, 0)
    verdict = page.locator('td[data-lane="dflash"][data-key="text"] button')
    expect(verdict).to_have_attribute("data-verdict", "sampled")
    page.click("#again")
    expect(page.locator("#send")).to_be_disabled()
    await_end(page)
    two = app.last()
    assert two.header.trace_id != one.header.trace_id
    assert two.header.sampling.seed == 1
    assert two.header.messages == one.header.messages
    assert page.locator("#seed input").input_value() == "1"
    expect(page.locator("#chat .user")).to_have_count(1)
    said = page.locator("#chat .bot").inner_text()
    page.fill("#question textarea", "a draft")
    set_up(page, 1024, ("none",))
    page.click("#again")
    expect(page.locator("#stop")).to_be_enabled(timeout=10_000)
    page.click("#stop")
    await_end(page)
    expect(page.locator("#chat .user")).to_have_count(1)
    assert page.locator("#chat .bot").count() == 1, said
    assert page.input_value("#question textarea") == "a draft"


def test_clear_in_mid_answer_forgets(app: App, page: Page) -> None:
    open_ready(page, app)
    ask_and_see_blocks(page)
    page.click("#clear")
    expect(page.locator("#send")).to_be_enabled(timeout=5_000)
    time.sleep(1)
    expect(page.locator("#chat .user")).to_have_count(0)
    set_up(page, 8)
    ask_to_the_end(page, "Hello.")
    assert len(app.last().header.messages) == 1


def test_a_huge_prompt_is_refused_and_kept(app: App, page: Page) -> None:
    open_ready(page, app)
    set_up(page, 24, ("dflash", "none"))
    text = "word " * 3000
    ask(page, text)
    expect(page.get_by_role("alert").filter(has_text="too long").first).to_be_visible(timeout=20_000)
    await_end(page)
    assert page.input_value("#question textarea").strip() == text.strip()


def test_two_tabs_take_turns_on_the_machine(app: App, page: Page) -> None:
    open_ready(page, app)
    other = page.context.new_page()
    open_ready(other, app)
    for tab in (page, other):
        set_up(tab, 32, ("dflash", "none"))
    before = len(app.files())
    ask(page, "Write a story about a red boat.")
    ask(other, "Write a poem about the moon.")
    for tab, word in ((page, "red boat"), (other, "moon")):
        await_end(tab)
        expect(tab.locator(".dv-prompt")).to_contain_text(word)
    traces = [read_trace(path) for path in app.files()[before:]]
    assert len(traces) == 4
    assert all(t.end is not None and t.end.check.agrees is not False for t in traces)
    assert all(step.batch_size == 1 for t in traces for step in t.steps), "each had the machine to itself"


def test_the_same_run_over_the_api(app: App) -> None:
    job = Client(app.url, verbose=False).submit(
        "What is 2 + 2?", lanes=["dflash", "none"], max_tokens=12, top_k=2, api_name="/run"
    )
    lines = list(job)
    trace = app_lines(lines, "dflash")
    assert [line["type"] for line in trace][0 :: len(trace) - 1] == ["header", "end"]
    steps = [line for line in trace if line["type"] == "step"]
    assert sum(len(step["emitted"]) for step in steps) == trace[-1]["num_output_tokens"]
    assert trace[-1]["check"]["agrees"] is True
    assert any(step.get("positions") for step in steps)
    assert {line["lane"] for line in lines} == {"dflash", "none"}
    unknown = Client(app.url, verbose=False).submit("Hi", lanes=["nope"], api_name="/run")
    with pytest.raises(Exception, match="There is no lane 'nope'"):
        unknown.result()


def app_lines(lines: list[dict[str, object]], lane: str) -> list[dict[str, object]]:
    """A lane's trace among what the endpoint streamed."""
    return [line for line in lines if line["lane"] == lane and line["type"] != "turn"]


def test_an_engine_killed_in_mid_answer(app: App, page: Page) -> None:
    """Runs last but one: the lane says so within 5 s, the others go on, and it comes back on retry."""
    open_ready(page, app)
    ask_and_see_blocks(page, lanes=("dflash", "none"))
    engine = [p for p in app.engine_processes("dflash") if "VLLM" in p.name()]
    assert engine
    for process in engine:
        os.kill(process.pid, signal.SIGKILL)
    expect(chip(page, "DFlash")).to_contain_text("failed", timeout=5_000)
    expect(card(page).get_by_role("alert").first).to_be_visible(timeout=5_000)
    expect(row(page, "none")).to_have_attribute("data-state", "running", timeout=10_000)
    expect(chip(page, "no speculation")).not_to_contain_text("failed")
    trace = app.last()
    assert trace.end is not None
    assert trace.end.finish_reason == "error"
    assert count(trace.steps).num_drafts, "what had come was lost"
    page.click("#stop")
    await_end(page)
    page.click("#retry-0")
    expect(chip(page, "DFlash")).to_contain_text("ready", timeout=READY_MS)
    set_up(page, 8)
    ask_to_the_end(page, "Hello again.")
    assert app.last().end.finish_reason in ("stop", "length")  # type: ignore[union-attr]


def test_nothing_is_left_running(app: App) -> None:
    """Runs last: the app is killed outright, and every process of it ends."""
    processes = app.descendants()
    assert len(processes) >= 3 * len(LANES)
    app.process.kill()
    app.process.wait()
    _, alive = psutil.wait_procs(processes, timeout=20)
    assert not alive


def test_wrong_drafter_says_what_to_do(tmp_path: Path, page: Page) -> None:
    """A preset whose drafter does not exist: the page tells, and offers to try again."""
    preset = tmp_path / "broken.yaml"
    preset.write_text(
        "title: x\nlanes:\n"
        "  - {name: dflash, method: dflash, drafter: assets/none, num_speculative_tokens: 7}\n"
    )
    app = App(make_cache(tmp_path / "cache"), "--preset", str(preset))
    try:
        page.goto(app.url)
        expect(page.locator("#engine")).to_contain_text("There is no model 'assets/none'", timeout=30_000)
        expect(page.locator("#retry-0")).to_be_visible()
        page.fill("#question textarea", "Hello?")
        page.click("#send")
        expect(page.get_by_role("alert").first).to_contain_text("There is no model", timeout=10_000)
        expect(page.locator("#send")).to_be_enabled()
        assert page.input_value("#question textarea") == "Hello?"
    finally:
        app.close()
