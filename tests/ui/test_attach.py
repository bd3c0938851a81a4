"""``python app.py --server``: an engine of another app's, with its token and without, in a real browser."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from dflash_viz.hooks.wire import TOKEN_ENV
from tests.lanes.proxy import Proxy
from tests.ui.conftest import LANES, App
from tests.ui.test_page import RUN_MS, open_ready

pytestmark = [pytest.mark.browser, pytest.mark.engine]


def engine_of(app: App, lane: str) -> tuple[int, str]:
    """The port and the token of an engine that an app has started."""
    for process in app.engine_processes(lane):
        words = process.cmdline()
        if "--port" in words:
            return int(words[words.index("--port") + 1]), process.environ()[TOKEN_ENV]
    raise AssertionError(f"{lane} does not run")


def ask(page: Page, text: str) -> None:
    page.locator("#question textarea").fill(text)
    page.locator("#send").click()
    expect(page.locator("#stop")).to_be_enabled(timeout=RUN_MS)
    expect(page.locator("#stop")).to_be_disabled(timeout=RUN_MS)


def test_a_server_with_its_token_and_without(app: App, page: Page, tmp_path: Path) -> None:
    open_ready(page, app, LANES[:1])
    port, token = engine_of(app, LANES[0])
    file = tmp_path / "token"
    file.write_text(token)
    door = Proxy(port)
    try:
        for given, steps in ((["--token-file", str(file)], True), ([], False)):
            folder = tmp_path / ("steps" if steps else "counts")
            folder.mkdir()
            attached = App(folder, "--server", f"mine={door.url}", *given)
            try:
                page.goto(attached.url)
                expect(page.locator("#engine .dv-ready")).to_be_visible(timeout=RUN_MS)
                ask(page, "What is 2 plus 2?")
                card = page.locator('.dv-card[data-lane="mine"]')
                expect(card.locator(".dv-answer")).not_to_be_empty()
                expect(card.locator(".dv-notice")).to_be_visible(visible=not steps)
                expect(card.locator(".dv-history")).to_be_visible(visible=steps)
                trace = attached.last("mine")
                assert trace.end is not None
                assert (trace.end.check.agrees is True) == bool(trace.steps) == steps
                assert token not in attached.log.read_text()
                if not steps:
                    assert "without their token" in card.locator(".dv-notice").inner_text()
                    door.shut()
                    chip = page.locator("#engine .dv-engine")
                    expect(chip).to_contain_text("does not answer any more", timeout=10_000)
                    door.open()
                    expect(chip).to_contain_text("ready", timeout=30_000)
            finally:
                attached.close()
    finally:
        door.shut()
