"""A benchmark run from the tab, on the app's own engines."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from dflash_viz.metrics.measured.figures import setting_values
from dflash_viz.results import read_result
from tests.ui.conftest import App
from tests.ui.test_page import open_ready

pytestmark = pytest.mark.browser
RUN_MS = 120_000


def test_a_benchmark_runs_and_its_prompts_lead_to_their_traces(app: App, page: Page) -> None:
    open_ready(page, app)
    page.get_by_role("tab", name="Measure").click()
    for number, box in enumerate(page.locator("#bench-lanes input[type=checkbox]").all()):
        box.set_checked(number == 0)
    page.fill("#limit input", "5")
    page.fill("#bench-max-tokens input", "12")
    page.locator("#bench-max-tokens input").blur()
    expect(page.locator("#outlook")).to_contain_text("5 answers at most: 5 questions × 1 setting")
    page.click("#bench-run")
    expect(page.locator("#bench-progress")).to_contain_text("all 5 answers are there", timeout=RUN_MS)
    folders = list((app.cache / "results").iterdir())
    assert len(folders) == 1
    result = read_result(folders[0])
    assert all(answer.check.agrees for answer in result.answers)
    al = setting_values(result, 0)["al"]
    assert al is not None
    expect(page.locator("#bench-result table").first).to_contain_text(f"{al.value:.2f} [{al.low:.2f}, ")
    page.locator("#bench-result a").first.click()
    expect(page.locator("#recorded-stage .dv-prompt")).to_contain_text("Prompt:", timeout=20_000)
    expect(page.locator("#recorded-stage")).to_contain_text("Recorded run, not live")
