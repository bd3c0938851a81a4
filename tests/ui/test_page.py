"""The whole product in a real browser, with a real engine behind it."""

from __future__ import annotations

import os
import re
import signal
import time
from pathlib import Path

import psutil
import pytest
from playwright.sync_api import Page, expect

from dflash_viz.metrics import running_figures
from dflash_viz.trace import Trace, read_trace
from dflash_viz.views.page_lines import format_figure
from tests.ui.conftest import App, make_cache

pytestmark = [pytest.mark.browser, pytest.mark.engine]
READY_MS = 150_000
# The target keeps at this for hundreds of tokens.
LONG = "Write a long story about a ship, at least 1000 words."
HOSTILE = ["<script>alert(1)</script>", "</textarea><img src=x onerror=alert(2)>"]


def open_ready(page: Page, app: App) -> None:
    page.goto(app.url)
    expect(page.locator("#engine")).to_contain_text("ready", timeout=READY_MS)


def ask(page: Page, text: str) -> None:
    page.fill("#question textarea", text)
    page.click("#send")


def set_max_tokens(page: Page, limit: int) -> None:
    field = page.locator("#max-tokens input[type=number]")
    if not field.is_visible():
        page.locator("#settings button").first.click()
    field.fill(str(limit))
    field.blur()


def ask_to_the_end(page: Page, text: str) -> None:
    """Ask, and wait until the answer has ended."""
    ask(page, text)
    expect(page.locator(".dv-prompt")).to_contain_text(text, timeout=10_000)
    expect(page.locator("#send")).to_be_enabled(timeout=60_000)
    expect(page.locator(".dv-ending")).not_to_contain_text("being written")


def ask_and_see_blocks(page: Page, text: str) -> None:
    """Ask for a long answer, and wait until blocks of the live run are on the page."""
    set_max_tokens(page, 1024)
    ask(page, text)
    expect(page.locator(".dv-prompt")).to_contain_text(text, timeout=10_000)
    expect(page.locator(".dv-step-number")).to_contain_text(re.compile(r"step [1-9]"), timeout=20_000)


def figures_on(page: Page) -> dict[str, str]:
    """Label to value, as the page shows them."""
    shown = {}
    for figure in page.locator(".dv-figure").all():
        label = figure.locator(".dv-figure-label").inner_text()
        shown[label] = figure.locator(".dv-figure-value").inner_text().strip()
    return shown


def figures_of(trace: Trace) -> dict[str, str]:
    return {f.label: format_figure(f) for f in running_figures(trace.steps)}


def last_trace(app: App) -> Trace:
    return read_trace(app.traces()[-1])


def test_recorded_run_plays_while_the_engine_starts(app: App, page: Page) -> None:
    """Runs first: the engine of this module's app has only just been started."""
    page.goto(app.url)
    assert "ready" not in page.locator("#engine").inner_text()
    expect(page.locator("#engine [role=progressbar]")).to_be_visible(timeout=20_000)
    expect(page.locator(".dv-origin")).to_contain_text("Recorded run, not live")
    expect(page.locator(".dv-step-number")).to_contain_text(re.compile(r"step [1-9]"), timeout=20_000)
    first = page.locator(".dv-step-number").inner_text()
    expect(page.locator(".dv-step-number")).not_to_have_text(first, timeout=10_000)


def test_question_while_the_engine_starts_waits_and_is_answered(app: App, page: Page) -> None:
    page.goto(app.url)
    ask(page, "Say hello in one word.")
    expect(page.locator(".dv-origin")).to_contain_text("Live", timeout=10_000)
    expect(page.locator(".dv-ending")).to_contain_text("tokens", timeout=READY_MS)
    expect(page.locator("#send")).to_be_enabled()


def test_blocks_arrive_while_the_engine_runs_then_stop(app: App, page: Page) -> None:
    open_ready(page, app)
    count = len(app.traces())
    ask_and_see_blocks(page, LONG)
    seen = set()
    while len(seen) < 5:
        seen.add(page.locator(".dv-step-number").inner_text())
        assert page.locator("#stop").is_enabled(), "the engine ended before blocks were seen"
    started = time.monotonic()
    page.click("#stop")
    expect(page.locator("#send")).to_be_enabled(timeout=5_000)
    assert time.monotonic() - started < 3
    expect(page.locator(".dv-ending")).to_contain_text("Stopped")
    assert len(app.traces()) == count + 1
    trace = last_trace(app)
    assert trace.end is not None
    assert trace.end.finish_reason == "abort"
    assert figures_on(page) == figures_of(trace)
    assert page.locator("#chat .bot").last.inner_text().strip() == trace.end.text.strip()


def test_finished_run_agrees_with_the_engine(app: App, page: Page) -> None:
    open_ready(page, app)
    set_max_tokens(page, 40)
    ask(page, "Repeat after me: 안녕하세요 😀 and a tab")
    expect(page.locator(".dv-check")).to_contain_text("agree", timeout=60_000)
    expect(page.locator("#send")).to_be_enabled()
    trace = last_trace(app)
    assert trace.end is not None
    assert trace.end.check.agrees is True
    assert trace.header.sampling.max_tokens == 40
    assert figures_on(page) == figures_of(trace)
    answer = page.locator(".dv-answer").evaluate("node => node.textContent")
    assert trace.end.text.strip() in answer
    expect(page.locator(".dv-step-number")).to_contain_text(f"step {len(trace.decode_steps)}")
    # No step was dropped on the way: the chart holds the AL of each of them.
    lengths = page.locator(".dv-plot").evaluate("node => Array.from(node.data[0].y)")
    assert lengths == [step.num_accepted + 1 for step in trace.decode_steps]


def test_a_second_turn_continues_and_clear_forgets(app: App, page: Page) -> None:
    open_ready(page, app)
    for text in ("My name is Ada.", "What did I say?"):
        ask_to_the_end(page, text)
    messages = last_trace(app).header.messages
    assert [m.role for m in messages] == ["user", "assistant", "user"]
    page.click("#clear")
    expect(page.locator("#chat .user")).to_have_count(0)
    ask_to_the_end(page, "Hello.")
    assert len(last_trace(app).header.messages) == 1


def test_clear_in_mid_answer_forgets(app: App, page: Page) -> None:
    open_ready(page, app)
    ask_and_see_blocks(page, LONG)
    page.click("#clear")
    expect(page.locator("#send")).to_be_enabled(timeout=5_000)
    time.sleep(1)
    expect(page.locator("#chat .user")).to_have_count(0)
    ask_to_the_end(page, "Hello.")
    assert len(last_trace(app).header.messages) == 1


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_shows_as_text(app: App, page: Page, text: str) -> None:
    open_ready(page, app)
    ask_to_the_end(page, f"Repeat exactly: {text}")
    expect(page.locator("#chat .user").last).to_contain_text(text)
    expect(page.locator(".dv-prompt")).to_contain_text(text)
    trace = last_trace(app)
    assert trace.end is not None
    assert trace.header.messages[-1].content.endswith(text)
    assert trace.end.text.strip() in page.locator(".dv-answer").evaluate("node => node.textContent")
    assert page.locator("img[src=x]").count() == 0


def test_a_huge_prompt_is_refused_and_kept(app: App, page: Page) -> None:
    open_ready(page, app)
    text = "word " * 3000
    ask(page, text)
    expect(page.get_by_role("alert").filter(has_text="too long")).to_be_visible(timeout=20_000)
    assert page.input_value("#question textarea").strip() == text.strip()
    expect(page.locator("#send")).to_be_enabled()


def test_definitions_are_one_key_away(app: App, page: Page) -> None:
    page.goto(app.url)
    figure = page.locator(".dv-figure").first
    expect(figure).to_be_visible(timeout=20_000)
    figure.locator("button").or_(figure).first.focus()
    page.keyboard.press("Enter")
    expect(page.locator(".dv-popover")).to_contain_text("1 + accepted tokens")
    page.keyboard.press("Escape")
    expect(page.locator(".dv-popover")).to_be_hidden()


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_phone_has_no_sideways_scrolling(app: App, page: Page, theme: str) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto(f"{app.url}?__theme={theme}")
    expect(page.locator(".dv-block")).to_be_visible(timeout=20_000)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_nothing_is_asked_of_the_outside(app: App, page: Page) -> None:
    hosts = set()
    page.on("request", lambda request: hosts.add(request.url))
    page.goto(app.url)
    expect(page.locator(".dv-block")).to_be_visible(timeout=20_000)
    assert not [url for url in hosts if not url.startswith((app.url, "data:", "blob:"))]


def test_two_tabs_are_kept_apart(app: App, page: Page) -> None:
    open_ready(page, app)
    other = page.context.new_page()
    open_ready(other, app)
    ask(page, "Write a story about a red boat.")
    ask(other, "Write a poem about the moon.")
    for tab, word in ((page, "red boat"), (other, "moon")):
        expect(tab.locator(".dv-ending")).to_contain_text("tokens", timeout=90_000)
        expect(tab.locator(".dv-prompt")).to_contain_text(word)
    traces = [read_trace(path) for path in app.traces()[-2:]]
    assert all(t.end is not None and t.end.check.agrees for t in traces)
    assert any(step.batch_size == 2 for t in traces for step in t.steps)


def test_closing_the_tab_stops_its_run(app: App, page: Page) -> None:
    open_ready(page, app)
    tab = page.context.new_page()
    open_ready(tab, app)
    ask_and_see_blocks(tab, LONG)
    tab.close()
    path = app.traces()[-1]
    assert read_trace(path).end is None, "it ended by itself before the tab was closed"
    deadline = time.monotonic() + 20
    while (size := path.stat().st_size) != (time.sleep(1.5) or path.stat().st_size):
        assert time.monotonic() < deadline, f"the run goes on: {size} bytes"


def test_engine_killed_in_mid_answer(app: App, page: Page) -> None:
    """Runs last but one: message, restart button, and the page goes on."""
    open_ready(page, app)
    ask_and_see_blocks(page, LONG)
    engine = [p for p in app.engine_processes() if "VLLM" in p.name()]
    assert engine
    for process in engine:
        os.kill(process.pid, signal.SIGKILL)
    expect(page.get_by_role("alert").first).to_be_visible(timeout=10_000)
    expect(page.locator("#engine")).to_contain_text("failed", timeout=10_000)
    expect(page.locator("#send")).to_be_enabled(timeout=10_000)
    trace = last_trace(app)
    assert trace.end is not None
    assert trace.end.finish_reason == "error"
    assert trace.steps, "what had come was lost"
    page.click("#restart")
    expect(page.locator("#engine")).to_contain_text("ready", timeout=READY_MS)
    ask_to_the_end(page, "Hello again.")
    assert last_trace(app).end.finish_reason in ("stop", "length")  # type: ignore[union-attr]


def test_nothing_is_left_running(app: App) -> None:
    """Runs last: the app is killed outright, and every process of it ends."""
    processes = app.descendants()
    assert len(processes) >= 3
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
        expect(page.locator("#restart")).to_be_visible()
        ask(page, "Hello?")
        expect(page.get_by_role("alert").first).to_contain_text("There is no model", timeout=10_000)
        assert page.input_value("#question textarea") == "Hello?"
    finally:
        app.close()
