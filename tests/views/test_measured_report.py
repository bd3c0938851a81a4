"""The report is one file: it opens without a network, draws its charts, and nothing in it can act."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from dflash_viz.views.measured_report import report_html
from tests.measured import empty_result, made_result, made_settings
from tests.views.made_measured import HOSTILE, busy, hostile_result, verdicts


class Parts(HTMLParser):
    """Collects what a page refers to, its scripts and its styles."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.references: list[str] = []
        self.tags: list[str] = []
        self.handlers: list[str] = []
        self.scripts: list[str] = []
        self.styles: list[str] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.references += [value or "" for name, value in attrs if name in ("src", "href", "srcset", "data")]
        self.handlers += [name for name, _ in attrs if name.startswith("on")]

    def handle_data(self, data: str) -> None:
        held = {"script": self.scripts, "style": self.styles}.get(self.cdata_elem or "")
        if held is not None:
            held.append(data)


def charts(html: str) -> int:
    return html.count('class="plotly-graph-div"')


@pytest.mark.parametrize("hostile", [False, True])
def test_nothing_is_loaded_from_elsewhere(hostile: bool) -> None:
    result = hostile_result() if hostile else busy(5)
    parts = Parts(report_html(result, verdicts(result)))
    assert parts.references == []
    assert not [style for style in parts.styles if "@import" in style or "url(" in style]
    assert not set(parts.tags) & {"link", "iframe", "img", "object", "base"}


def test_the_report_has_its_charts() -> None:
    # AL, positions and prompts; a curve over concurrency for each of five figures; a course a setting.
    assert charts(report_html(made_result(num_questions=3), [])) == 3 + 4
    assert charts(report_html(busy(3), [])) == 3 + 5 + 12
    assert charts(report_html(empty_result(made_settings(), 3), [])) == 3


def test_not_every_course_of_many_is_drawn() -> None:
    some = made_result(made_settings(("dflash",), ks=range(1, 31)), 1)
    html = report_html(some, [])
    assert charts(html) == 3 + 30
    assert "is drawn for the first" not in html
    many = made_result(made_settings(("dflash",), ks=range(1, 33)), 1)
    html = report_html(many, [])
    assert charts(html) == 3 + 30
    assert "The course over time is drawn for the first 30 of 32 settings." in html


def test_hostile_text_ends_no_script() -> None:
    good, bad = busy(6), hostile_result()
    parts = Parts(report_html(bad, verdicts(bad, note=HOSTILE, source=HOSTILE)))
    drawn = [script for script in parts.scripts if "Plotly.newPlot" in script and "dv-chart-" in script]
    assert len(drawn) == 3 + 5 + 8
    assert len(Parts(report_html(good, [])).scripts) == 1 + 3 + 5 + 12
    assert len(parts.scripts) == 1 + len(drawn), "plotly and the charts, no other script"
    assert parts.handlers == []
    for script in drawn:
        assert "<" not in script.replace("<script>", "")
        assert "alert(1)" not in re.sub(r'"(?:[^"\\]|\\.)*"', '""', script), "only within strings"


def test_the_data_of_a_chart_survive_the_escapes() -> None:
    html = report_html(hostile_result(), [])
    (script,) = [s for s in Parts(html).scripts if 'getElementById("dv-chart-2")' in s]
    data, _ = json.JSONDecoder().raw_decode(script, script.index("[{"))
    assert data[0]["name"].startswith('"&gt;&lt;/td&gt;&lt;img src=x')


@pytest.fixture
def opened(browser: Browser, tmp_path: Path) -> Iterator[object]:
    """Opens a report from a file and notes what it complains of and asks for."""
    context = browser.new_context()
    context.set_offline(True)

    def open_(html: str, width: int, scheme: str = "light") -> tuple[Page, list[str]]:
        (tmp_path / "report.html").write_text(html)
        page, troubles = context.new_page(), []
        page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
        page.set_viewport_size({"width": width, "height": 900})
        page.on("console", lambda said: troubles.append(said.text))
        page.on("pageerror", lambda error: troubles.append(str(error)))
        page.on("dialog", lambda dialog: (troubles.append("dialog"), dialog.dismiss()))
        page.on("request", lambda asked: troubles.append(asked.url) if not local(asked.url) else None)
        page.goto(f"file://{tmp_path / 'report.html'}")
        page.wait_for_function(
            """() => [...document.querySelectorAll('.plotly-graph-div')]
                .every(chart => chart.querySelector('.main-svg'))"""
        )
        return page, troubles

    yield open_
    context.close()


def local(url: str) -> bool:
    return url.startswith(("file:", "data:", "blob:"))


@pytest.mark.browser
@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("hostile", [False, True])
def test_it_opens_anywhere(opened: object, width: int, hostile: bool) -> None:
    result = hostile_result() if hostile else busy(6)
    page, troubles = opened(report_html(result, verdicts(result)), width)  # type: ignore[operator]
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    for details in page.locator("details").all():
        details.locator("summary").click()
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    # Every chart is as wide as its box, and has something drawn in it.
    sizes = page.evaluate(
        """() => [...document.querySelectorAll('.dv-chart')].map(box => [
            box.clientWidth, box.querySelector('.main-svg').clientWidth,
            box.querySelectorAll('.point, .boxes path.box, .js-line').length])"""
    )
    assert len(sizes) == (16 if hostile else 20)
    for box, svg, points in sizes:
        assert svg <= box
        assert points > 0
    assert troubles == []


@pytest.mark.browser
def test_hostile_names_are_read_as_they_are(opened: object) -> None:
    name = '<a href="javascript:alert(1)">x</a>&lt;'
    page, troubles = opened(report_html(hostile_result(name), []), 1280)  # type: ignore[operator]
    labels = page.evaluate(
        "[...document.querySelectorAll('#dv-chart-0 .ytick text')].map(t => t.textContent)"
    )
    assert any(label.startswith(name) for label in labels), labels
    assert page.locator("svg a").count() == 0
    assert troubles == []


@pytest.mark.browser
def test_texts_of_charts_follow_the_theme(opened: object) -> None:
    html = report_html(made_result(num_questions=3), [])
    for scheme in ("light", "dark"):
        page, _ = opened(html, 1280, scheme)  # type: ignore[operator]
        wanted = page.evaluate("getComputedStyle(document.body).color")
        fills = page.evaluate(
            """[...new Set([...document.querySelectorAll(
                '.dv-chart :is(.gtitle, .xtick text, .ytick text, .y2tick text, .y3title, .legendtext)')]
                .map(text => getComputedStyle(text).fill))]"""
        )
        assert fills == [wanted]
        page.close()
