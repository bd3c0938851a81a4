"""The tab of recorded runs in a real browser, without any engine: open, examine, share, save, delete."""

from __future__ import annotations

import gzip
import re
from io import BytesIO
from pathlib import Path

import pytest
from PIL import Image, ImageChops
from playwright.sync_api import Browser, Locator, Page, expect

from dflash_viz.bench.record import GALLERY, read_gallery
from dflash_viz.metrics import diff
from dflash_viz.trace import Trace, read_trace, write_trace
from dflash_viz.ui.runs import new_run
from tests.conftest import make_header
from tests.ui.conftest import App

pytestmark = pytest.mark.browser
HOSTILE = "</textarea><script>alert(1)</script><img src=x onerror=alert(2)>"
CHAT = GALLERY / "chat"


def stage(page: Page) -> Locator:
    return page.locator("#recorded-stage")


def card(page: Page, lane: str = "dflash") -> Locator:
    return stage(page).locator(f'.dv-card[data-lane="{lane}"]')


def enter(page: Page, viewer: App) -> None:
    page.goto(viewer.url)
    page.get_by_role("tab", name="Recorded").click()
    expect(card(page)).to_be_visible(timeout=20_000)


def unfold(page: Page, elem_id: str) -> None:
    page.locator(f"#{elem_id} > button, #{elem_id} .label-wrap").first.click()


def upload(page: Page, *files: Path) -> None:
    if not page.locator("#upload").is_visible():
        unfold(page, "open")
    page.locator("#upload input[type=file]").set_input_files([str(file) for file in files])


def go_to(page: Page, step: int) -> None:
    """To a step of the active lane, paused, by the slider."""
    if stage(page).locator(".dv-play").inner_text() == "Pause":
        stage(page).locator(".dv-play").click()
    stage(page).locator(".dv-slider").evaluate(
        "(node, value) => { node.value = value; node.dispatchEvent(new Event('input')); }", str(step + 1)
    )
    expect(stage(page).locator(".dv-scrub-words")).to_contain_text(f"step {step} of")


def test_the_gallery_is_there_at_once_and_labelled(viewer: App, page: Page) -> None:
    page.goto(viewer.url)
    expect(page.locator("#stage .dv-origin")).to_contain_text("Recorded run, not live")
    enter(page, viewer)
    assert page.locator("#gallery-runs label").count() == len(read_gallery()) == 10
    for run in read_gallery()[1:3]:
        page.locator("#gallery-runs label").filter(has_text=run.title).click()
        expect(stage(page).locator(".dv-prompt")).to_contain_text(run.prompt[:60])
        expect(stage(page).locator(".dv-note").first).to_contain_text(run.note)
        expect(stage(page).locator(".dv-origin")).to_contain_text("Recorded run, not live")


def test_a_link_leads_to_a_position_of_a_step(viewer: App, page: Page) -> None:
    page.goto(f"{viewer.url}?run=gallery/chat&lane=dflash&step=7&position=1")
    inspector = stage(page).locator(".dv-inspector")
    expect(inspector).to_be_visible(timeout=20_000)
    expect(inspector.locator(".dv-inspector-step")).to_contain_text("Step 7 of")
    expect(inspector.locator('.dv-position-row[data-position="1"]')).to_have_attribute(
        "aria-selected", "true"
    )
    inspector.locator(".dv-move-next-step").click()
    expect(inspector.locator(".dv-inspector-step")).to_contain_text("Step 8 of")
    expect(page).to_have_url(re.compile(r"run=gallery(%2F|/)chat.*step=8"))


def test_a_link_to_nowhere_says_so(viewer: App, page: Page) -> None:
    for address in ("20200101-000000-aaaaaaaaaaaaaaaaaaaaaa", "../../etc/passwd", "gallery/none", HOSTILE):
        page.goto(f"{viewer.url}?run={address}")
        expect(page.locator("#shelf-message")).to_contain_text(
            re.compile("no run|no such run"), timeout=20_000
        )


@pytest.mark.parametrize("size", [(1280, 900), (390, 844)])
def test_keys_scrub_and_the_inspector_follows(viewer: App, browser: Browser, size: tuple[int, int]) -> None:
    width, height = size
    context = browser.new_context(viewport={"width": width, "height": height}, has_touch=width < 500)
    page = context.new_page()
    enter(page, viewer)
    go_to(page, 5)
    card(page).locator('.dv-cell[tabindex="0"]').first.click()
    inspector = stage(page).locator(".dv-inspector")
    expect(inspector.locator(".dv-inspector-step")).to_contain_text("Step 5 of")
    page.keyboard.press("Escape")
    expect(inspector).to_be_hidden()
    stage(page).locator(".dv-slider").focus()
    trace = read_trace(next(CHAT.glob("1-*")))
    for key, step in (("Home", 0), ("ArrowRight", 1), ("End", trace.steps[-1].index)):
        page.keyboard.press(key)
        expect(stage(page).locator(".dv-scrub-words")).to_contain_text(f"step {step} of")
    page.keyboard.press("Home")
    card(page).locator(".dv-history").click(position={"x": 5, "y": 5})
    full = next(s.index for s in trace.steps if s.drafted and s.num_accepted == s.num_drafted)
    page.keyboard.press("f")
    expect(stage(page).locator(".dv-scrub-words")).to_contain_text(f"step {full} of")
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    context.close()


def test_save_and_open_again_gives_the_same_pixels(viewer: App, page: Page, tmp_path: Path) -> None:
    enter(page, viewer)
    expect(stage(page).locator(".dv-origin")).to_be_visible()
    before = picture(page)
    unfold(page, "save")
    page.locator("#formats label").filter(has_text="Traces").click()
    links = page.locator("#saved a[href*=jsonl]")
    expect(links.first).to_be_visible(timeout=20_000)
    files = []
    for link in links.all():
        with page.expect_download() as download:
            link.click()
        files.append(tmp_path / download.value.suggested_filename)
        download.value.save_as(files[-1])
    recorded = read_gallery()[0].traces
    saved = [read_trace(file) for file in files]
    assert [t.lines() for t in sorted(saved, key=lambda t: t.header.recorded_at)] == [
        t.lines() for t in recorded
    ]
    upload(page, *files)
    expect(stage(page).locator(".dv-note").first).to_contain_text("From 1-dflash", timeout=20_000)
    for drawn, expected in zip(picture(page), before, strict=True):
        difference = ImageChops.difference(
            *(Image.open(BytesIO(one)).convert("L") for one in (drawn, expected))
        )
        # A rounded corner at a fraction of a pixel is smoothed differently after scrolling, and some more
        # pixels by a level or two of 255, which nobody sees.
        assert sum(difference.histogram()[3:]) <= 4


def picture(page: Page) -> list[bytes]:
    """What is drawn of a run at one of its steps: cards, table, charts, inspector."""
    go_to(page, 12)
    card(page).locator('.dv-cell[tabindex="0"]').first.click()
    page.mouse.move(1, 1)  # nothing is to be drawn as pointed at
    page.wait_for_timeout(500)
    parts = [".dv-inspector", ".dv-table", *(f'.dv-card[data-lane="{lane}"]' for lane in ("dflash", "none"))]
    return [stage(page).locator(part).screenshot(animations="disabled") for part in parts]


def test_bad_files_are_explained_and_nothing_is_lost(viewer: App, page: Page, tmp_path: Path) -> None:
    enter(page, viewer)
    whole = gzip.decompress(next(CHAT.glob("1-*")).read_bytes())
    lines = whole.splitlines(keepends=True)
    bad = {
        "nothing.jsonl": (b"hello", "no trace"),
        "later.jsonl": (whole.replace(b'"schema":"1.', b'"schema":"9.', 1), "schema version 9"),
    }
    for name, (content, words) in bad.items():
        (tmp_path / name).write_bytes(content)
        upload(page, tmp_path / name)
        expect(page.locator("#shelf-message")).to_contain_text(words, timeout=20_000)
        expect(stage(page).locator(".dv-prompt")).to_contain_text("photosynthesis")
        page.locator("#upload button[aria-label*=lear], #upload button[aria-label*=emove]").first.click()
    (tmp_path / "cut.jsonl").write_bytes(b"".join(lines[:9]) + lines[9][:40])
    upload(page, tmp_path / "cut.jsonl")
    expect(stage(page).locator(".dv-problem").first).to_contain_text("8 steps", timeout=20_000)


def test_hostile_text_stays_text(viewer: App, page: Page, trace: Trace, tmp_path: Path) -> None:
    from dflash_viz.trace import Message

    header = make_header(lane=HOSTILE, messages=[Message("user", HOSTILE)], tokens={5: HOSTILE, 6: "<b>"})
    write_trace(Trace(header, trace.steps, trace.end), tmp_path / "hostile.jsonl")
    enter(page, viewer)
    upload(page, tmp_path / "hostile.jsonl")
    expect(stage(page).locator(".dv-prompt")).to_contain_text("<script>", timeout=20_000)
    for part in ("diagnosis", "k", "compare"):
        unfold(page, part)
    expect(page.locator("#difference")).to_contain_text("</textarea>")
    assert page.locator("#recorded-stage img, #difference img, #findings img").count() == 0


def test_a_comparison_shows_what_is_computed(viewer: App, page: Page) -> None:
    enter(page, viewer)
    unfold(page, "compare")
    traces = read_gallery()[0].traces
    total = diff(traces[-1], traces[0]).total
    assert total is not None
    expect(page.locator("#difference")).to_contain_text(f"{total.end - total.start} tokens")
    page.locator("#first input").click()
    page.get_by_role("option", name=re.compile("eagle3")).first.click()
    expect(page.locator("#difference")).to_contain_text("eagle3 (eagle3, K = 5)")
    unfold(page, "diagnosis")
    expect(page.locator("#findings")).to_contain_text("What was asked")
    page.locator("#scope label").filter(has_text="whole gallery").click()
    unfold(page, "k")
    expect(page.locator("#calibration svg").first).to_be_visible()


def test_ones_own_runs_are_listed_opened_and_deleted(
    viewer: App, page: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DFLASH_VIZ_CACHE", str(viewer.cache))
    run = new_run()
    for trace in read_gallery()[1].traces[:2]:
        recorder = run.recorder(trace.header.lane)
        recorder.write(trace.lines()[:-3])  # the app that wrote it died
        recorder.close()
    enter(page, viewer)
    unfold(page, "mine")
    label = page.locator("#my-runs label")
    expect(label).to_have_count(1, timeout=20_000)
    expect(label).to_contain_text("cut short")
    label.click()
    expect(stage(page).locator(".dv-problem").first).to_contain_text("end is missing", timeout=20_000)
    page.click("#delete")
    page.click("#keep")
    expect(page.locator("#really")).to_be_hidden()
    assert run.path.is_dir()
    page.click("#delete")
    page.click("#really")
    expect(page.locator("#shelf-message")).to_contain_text("deleted")
    expect(label).to_have_count(0)
    assert not run.path.exists()


def test_paths_open_files_and_folders(viewer: App, page: Page) -> None:
    enter(page, viewer)
    unfold(page, "open")
    for path, words in ((CHAT.parent / "code", "palindrome"), (CHAT / "1-dflash.jsonl.gz", "photosynthesis")):
        page.fill("#path textarea, #path input", str(path))
        page.keyboard.press("Enter")
        expect(stage(page).locator(".dv-prompt")).to_contain_text(words, timeout=20_000)
    page.fill("#path textarea, #path input", "/no/such/file")
    page.keyboard.press("Enter")
    expect(page.locator("#shelf-message")).to_contain_text("No such file")


def test_every_format_can_be_had(viewer: App, page: Page) -> None:
    enter(page, viewer)
    unfold(page, "save")
    for label, name in (("CSV", "steps.csv"), ("Parquet", "steps.parquet"), ("Chrome", "run.trace.json")):
        page.locator("#formats label").filter(has_text=label).click()
        expect(page.locator(f"#saved a[href*='{name}']").first).to_be_visible(timeout=20_000)


@pytest.fixture
def page(page: Page) -> Page:
    page.set_default_timeout(20_000)
    return page
