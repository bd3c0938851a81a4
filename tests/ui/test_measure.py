"""The tab of benchmarks in a real browser, without any engine: results opened, examined, compared, saved."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from dflash_viz.bench.places import new_result
from dflash_viz.bench.record import GALLERY
from dflash_viz.lanes import Fleet, load_preset
from dflash_viz.lanes.server import free_port
from dflash_viz.metrics.measured.figures import setting_values
from dflash_viz.results import FILE_NAME, DatasetPrint, Result, labels, read_result, write_result
from dflash_viz.trace import ModelPrint, read_trace
from dflash_viz.ui import create_app, launch, measure_runner
from dflash_viz.views.measured_files import FORMATS
from tests.measured import made_engine, made_result, made_settings
from tests.ui.conftest import App

pytestmark = pytest.mark.browser
HOSTILE = "</textarea><script>alert(1)</script><img src=x onerror=alert(2)>"
SLOW_MS = 20_000


@pytest.fixture(autouse=True)
def patience() -> Iterator[None]:
    """Charts and files take longer than five seconds where much else runs."""
    expect.set_options(timeout=SLOW_MS)
    yield
    expect.set_options(timeout=5_000)


@pytest.fixture
def page(page: Page) -> Page:
    page.set_default_timeout(SLOW_MS)
    return page


@pytest.fixture
def own(viewer: App, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of the viewer's own results, empty again afterwards."""
    monkeypatch.setenv("DFLASH_VIZ_CACHE", str(viewer.cache))
    yield viewer.cache / "results"
    shutil.rmtree(viewer.cache / "results", ignore_errors=True)


def keep(result: Result) -> Path:
    """The result among the app's own, with a run of the gallery for the traces of its every prompt."""
    folder, places = new_result(), {name: number for number, name in enumerate(result.questions)}
    runs = sorted((GALLERY / "chat").iterdir())
    kept = []
    for answer in result.answers:
        trace = f"traces/{places[answer.question]:05}-{answer.turn}/{runs[answer.setting % len(runs)].name}"
        kept.append(msgspec.structs.replace(answer, trace=trace))
    for number in places.values():
        shutil.copytree(GALLERY / "chat", folder / f"traces/{number:05}-0")
    write_result(msgspec.structs.replace(result, answers=kept), folder / FILE_NAME)
    return folder


def enter(page: Page, url: str) -> None:
    page.goto(url)
    page.get_by_role("tab", name="Measure").click()
    expect(page.locator("#bench-result")).to_be_visible(timeout=SLOW_MS)


def unfold(page: Page, elem_id: str) -> None:
    page.locator(f"#{elem_id} > button, #{elem_id} .label-wrap").first.click()


def upload(page: Page, result: Result | bytes, folder: Path, name: str = "result.jsonl") -> None:
    if isinstance(result, bytes):
        (folder / name).write_bytes(result)
    else:
        write_result(result, folder / name)
    page.locator("#bench-upload input[type=file]").set_input_files(str(folder / name))


def again(page: Page) -> None:
    """Take the uploaded file away, so that another can be uploaded."""
    page.locator(
        "#bench-upload button[aria-label*=lear], #bench-upload button[aria-label*=emove]"
    ).first.click()


def shown(page: Page) -> Locator:
    return page.locator("#bench-result")


def choose(page: Page, elem_id: str, name: str | re.Pattern[str]) -> None:
    page.locator(f"#{elem_id} input").click()
    page.get_by_role("option", name=name).first.click()


def test_without_an_engine_the_tab_says_so_and_opens_results(viewer: App, page: Page, tmp_path: Path) -> None:
    enter(page, viewer.url)
    expect(page.locator("#not-here")).to_contain_text("no engine runs")
    expect(page.locator("#bench-run")).to_be_hidden()
    expect(shown(page)).to_contain_text("No result is open")
    result = made_result()
    upload(page, result, tmp_path)
    for number, name in enumerate(labels(result.plan.settings)):
        row = shown(page).locator("tr").filter(has=page.locator(f'th[scope="row"]:text-is("{name}")')).first
        expect(row).to_be_visible()
        if (al := setting_values(result, number)["al"]) is not None:
            expect(row).to_contain_text(f"{al.value:.2f} [{al.low:.2f}, {al.high:.2f}]")
    expect(shown(page)).to_contain_text("48 of 48 answers agree")
    for chart in ("bench-al", "bench-positions", "bench-prompts", "bench-course"):
        expect(
            page.locator(f"#{chart} .js-plotly-plot .trace, #{chart} .boxlayer .trace").first
        ).to_be_visible()
    expect(page.locator("#bench-curve")).to_be_hidden()
    expect(shown(page).locator("a[href*='run=']")).to_have_count(0)


def test_what_is_drawn_can_be_chosen(viewer: App, page: Page, tmp_path: Path) -> None:
    enter(page, viewer.url)
    upload(page, made_result(made_settings(concurrencies=(1, 4))), tmp_path)
    expect(page.locator("#bench-curve .gtitle")).to_contain_text("throughput by concurrency")
    choose(page, "curve-key", "latency, s")
    expect(page.locator("#bench-curve .gtitle")).to_contain_text("latency by concurrency")
    expect(page.locator("#bench-course .gtitle")).to_contain_text("dflash, 1 at once")
    choose(page, "bench-setting", "none, 4 at once")
    expect(page.locator("#bench-course .gtitle")).to_contain_text("none, 4 at once")


def test_a_result_is_judged_by_what_is_expected(viewer: App, page: Page, tmp_path: Path) -> None:
    dataset = DatasetPrint("humaneval", "a file", 12, 164)
    result = made_result(made_settings(("dflash", "none"), ks=(16,)), dataset=dataset, max_tokens=2048)
    for number, asked in enumerate(result.plan.settings):
        result.engines[number] = made_engine(number, asked, target=ModelPrint("Qwen/Qwen3-8B"))
    enter(page, viewer.url)
    upload(page, result, tmp_path)
    expect(shown(page)).to_contain_text("not comparable")
    expect(shown(page)).to_contain_text("6.5")


def test_bad_files_are_explained_and_nothing_is_lost(viewer: App, page: Page, tmp_path: Path) -> None:
    enter(page, viewer.url)
    upload(page, made_result(), tmp_path)
    expect(shown(page)).to_contain_text("Complete")
    whole = (tmp_path / "result.jsonl").read_bytes()
    bad = {
        "nothing.jsonl": (b"hello", "no result of a benchmark"),
        "later.jsonl": (whole.replace(b'"schema":"1.', b'"schema":"9.', 1), "this program reads 1"),
        "trace.jsonl": ((b'{"type":"step"}\n'), "no result of a benchmark"),
    }
    for name, (content, words) in bad.items():
        again(page)
        upload(page, content, tmp_path, name)
        expect(page.locator("#bench-message")).to_contain_text(words)
        expect(shown(page)).to_contain_text("Complete")
    again(page)
    upload(page, whole[:-9], tmp_path, "cut.jsonl")
    expect(shown(page)).to_contain_text("is cut short and was left out")
    expect(page.locator("#bench-message")).to_be_hidden()


def test_hostile_text_stays_text(viewer: App, page: Page, tmp_path: Path) -> None:
    result = made_result(num_questions=3)
    settings = [msgspec.structs.replace(one, lane=f"{one.lane}{HOSTILE}") for one in result.plan.settings]
    dataset = msgspec.structs.replace(result.plan.dataset, name=HOSTILE, source=HOSTILE, skipped=[HOSTILE])
    plan = msgspec.structs.replace(result.plan, settings=settings, pair=HOSTILE, dataset=dataset)
    result.head = msgspec.structs.replace(result.head, plan=plan, created_at=HOSTILE, program=HOSTILE)
    result.questions = {
        name: msgspec.structs.replace(one, turns=[HOSTILE], kind=HOSTILE)
        for name, one in result.questions.items()
    }
    result.answers = [msgspec.structs.replace(one, text=HOSTILE, kind=HOSTILE) for one in result.answers]
    enter(page, viewer.url)
    upload(page, result, tmp_path)
    expect(shown(page)).to_contain_text("</textarea><script>")
    expect(page.locator("#bench-prompts .js-plotly-plot")).to_be_visible()
    unfold(page, "bench-compare")
    again(page)
    upload(page, made_result(num_questions=3), tmp_path, "other.jsonl")
    expect(shown(page)).to_contain_text("embedded-cpu")
    choose(page, "bench-second", re.compile("textarea"))
    expect(page.locator("#bench-comparison")).to_contain_text("</textarea>")
    assert page.locator("#bench-result img, #bench-charts img, #bench-comparison img").count() == 0


def test_ones_own_results_are_listed_opened_and_deleted(viewer: App, page: Page, own: Path) -> None:
    half = made_result(num_questions=3)
    half.stretches.pop()
    folder = keep(half)
    enter(page, viewer.url)
    expect(shown(page)).to_contain_text("embedded-cpu")
    unfold(page, "bench-mine")
    label = page.locator("#my-results label")
    expect(label).to_have_count(1)
    expect(label).to_contain_text("unfinished: 3 of 4 settings")
    expect(page.locator("#bench-resume")).to_be_hidden()
    page.click("#bench-delete")
    page.click("#bench-keep")
    expect(page.locator("#bench-really")).to_be_hidden()
    assert folder.is_dir()
    page.click("#bench-delete")
    page.click("#bench-really")
    expect(page.locator("#bench-message")).to_contain_text("deleted")
    expect(shown(page)).to_contain_text("No result is open")
    expect(label).to_have_count(0)
    assert not folder.exists()


def test_a_prompt_leads_to_its_traces(viewer: App, page: Page, own: Path) -> None:
    keep(made_result(num_questions=6))
    enter(page, viewer.url)
    link = shown(page).locator("a[href*='run=result']").first
    for summary in shown(page).locator("details > summary").all():
        summary.click()
    link.click()
    stage = page.locator("#recorded-stage")
    expect(stage.locator(".dv-card")).to_have_count(len(list((GALLERY / "chat").iterdir())))
    prompt = read_trace(next((GALLERY / "chat").iterdir())).header.question
    expect(stage.locator(".dv-prompt")).to_contain_text(prompt[:60])
    expect(page).to_have_url(re.compile(r"run=result(%2F|/)\d{8}-"))


def test_links_out_of_a_result_lead_nowhere(viewer: App, page: Page, own: Path) -> None:
    name = keep(made_result(num_questions=1)).name
    for inner in ("..", "../result.jsonl", "none", "%2e%2e%2f%2e%2e"):
        page.goto(f"{viewer.url}?run=result/{name}/{inner}")
        expect(page.locator("#shelf-message")).to_contain_text("no trace of a result")


def test_paths_open_results_and_two_compare(viewer: App, page: Page, own: Path, tmp_path: Path) -> None:
    folder = keep(made_result(num_questions=6))
    write_result(made_result(num_questions=9), tmp_path / "other.jsonl")
    enter(page, viewer.url)
    for path, words in ((folder, "6 of 60 questions"), (tmp_path / "other.jsonl", "9 of 60 questions")):
        page.fill("#bench-path textarea, #bench-path input", str(path))
        page.keyboard.press("Enter")
        expect(shown(page)).to_contain_text(words)
    page.fill("#bench-path textarea, #bench-path input", "/no/such/file")
    page.keyboard.press("Enter")
    expect(page.locator("#bench-message")).to_contain_text("No such file")
    unfold(page, "bench-compare")
    page.locator("#bench-second input").click()
    expect(page.get_by_role("option")).to_have_count(1)
    page.get_by_role("option").first.click()
    comparison = page.locator("#bench-comparison")
    expect(comparison).to_contain_text("Two results beside each other")
    expect(comparison).to_contain_text("A: embedded-cpu on builtin")
    expect(comparison).to_contain_text("9 of 60 questions")
    expect(comparison).to_contain_text("6 of 60 questions")


def test_every_format_can_be_had_and_the_result_opens_again(viewer: App, page: Page, tmp_path: Path) -> None:
    result = made_result(num_questions=6)
    enter(page, viewer.url)
    unfold(page, "bench-save")
    page.locator("#bench-formats label").first.click()
    expect(page.locator("#bench-message")).to_contain_text("Open a result first")
    upload(page, result, tmp_path)
    expect(shown(page)).to_contain_text("Complete")
    names = ("settings.csv", "answers.parquet", "result.json", "result.md", "report.html")
    for label, name in zip(FORMATS.values(), names, strict=True):
        page.locator("#bench-formats label").filter(has_text=label).click()
        expect(page.locator(f"#bench-saved a[href$='{name}']").first).to_be_visible()
    page.locator("#bench-formats label").filter(has_text="opens here again").click()
    link = page.locator("#bench-saved a[href$='result.jsonl']").first
    with page.expect_download() as download:
        link.click()
    download.value.save_as(tmp_path / "saved.jsonl")
    assert read_result(tmp_path / "saved.jsonl") == result


@pytest.mark.parametrize("width", [1280, 390])
def test_it_fits_and_everything_has_a_name(viewer: App, browser: Browser, own: Path, width: int) -> None:
    keep(made_result(made_settings(concurrencies=(1, 8)), 6))
    context = browser.new_context(viewport={"width": width, "height": 844})
    page = context.new_page()
    enter(page, viewer.url)
    expect(page.locator("#bench-course .js-plotly-plot")).to_be_visible(timeout=SLOW_MS)
    for part in ("bench-mine", "bench-compare", "bench-save"):
        unfold(page, part)
    expect(page.locator("#bench-formats")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    nameless = page.evaluate(NAMELESS)
    assert nameless == []
    context.close()


def test_the_keyboard_opens_and_chooses(viewer: App, page: Page, own: Path) -> None:
    keep(made_result(num_questions=6))
    enter(page, viewer.url)
    expect(shown(page)).to_contain_text("Complete")
    page.locator("#bench-save > button, #bench-save .label-wrap").first.focus()
    page.keyboard.press("Enter")
    expect(page.locator("#bench-formats")).to_be_visible()
    page.keyboard.press("Tab")
    expect(page.locator("#bench-formats input").first).to_be_focused()
    page.keyboard.press("Space")
    expect(page.locator("#bench-saved a[href$='settings.csv']").first).to_be_visible()


# What can be operated in the tab, is in sight, and has neither text nor a label.
NAMELESS = """() => [...document.querySelectorAll('.dv-measure :is(input, textarea, select, button, a)')]
  .filter(node => node.offsetParent && !node.closest('.modebar'))
  .filter(node => !node.textContent.trim() && !node.getAttribute('aria-label') && !node.title
    && !node.getAttribute('aria-labelledby')
    && ![...(node.labels || [])].some(label => label.innerText.trim()))
  .map(node => node.outerHTML.slice(0, 200))"""


@pytest.fixture
def waiting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The address of an app whose engines are never started: whoever needs one waits."""
    monkeypatch.setenv("DFLASH_VIZ_CACHE", str(tmp_path))
    monkeypatch.setattr(measure_runner, "STOP_S", 0.2)
    demo = create_app(Fleet(load_preset("embedded-cpu").lanes), [])
    yield launch(demo, "127.0.0.1", free_port(), block=False)
    demo.close()


def field(page: Page, elem_id: str) -> Locator:
    return page.locator(f"#{elem_id} input, #{elem_id} textarea").first


def test_wrong_input_is_explained_before_the_start_and_nothing_is_lost(waiting: str, page: Page) -> None:
    enter(page, waiting)
    expect(page.locator("#outlook")).to_contain_text("80 answers at most: 20 questions × 4 settings")
    field(page, "limit").fill("3")
    field(page, "ks").fill("3, x")
    field(page, "ks").blur()
    expect(page.locator("#outlook")).to_contain_text("K: “x”")
    page.click("#bench-run")
    expect(page.locator("#bench-message")).to_contain_text("K: “x”")
    expect(field(page, "ks")).to_have_value("3, x")
    expect(field(page, "limit")).to_have_value("3")
    field(page, "ks").fill("3, 5")
    field(page, "ks").blur()
    expect(page.locator("#outlook")).to_contain_text("21 answers at most: 3 questions × 7 settings. 3 engine")
    choose(page, "dataset", "GSM8K")
    field(page, "dataset-path").fill("/no/such/folder")
    page.click("#bench-run")
    expect(page.locator("#bench-progress")).to_contain_text("/no/such/folder")
    expect(page.locator("#bench-run")).to_be_enabled()


def test_a_benchmark_outlives_its_tab_and_is_stopped_and_gone_on_with(
    waiting: str, browser: Browser, page: Page
) -> None:
    enter(page, waiting)
    page.locator("#bench-lanes label").filter(has_text="EAGLE-3").click()
    page.click("#bench-run")
    progress = page.locator("#bench-progress")
    expect(progress).to_contain_text("0 of 60 answers · dflash (setting 1 of 3) · waits until the app's")
    expect(page.locator("#bench-run")).to_be_disabled()
    page.goto("about:blank")
    enter(page, waiting)
    expect(progress).to_contain_text("0 of 60 answers")
    expect(page.locator("#bench-run")).to_be_disabled()
    page.click("#bench-stop")
    expect(progress).to_contain_text("Ended with 0 of 60 answers")
    expect(shown(page)).to_contain_text("20 of 60 questions")
    page.click("#bench-resume")
    expect(progress).to_contain_text("waits until the app's engines have started")
    expect(page.locator("#bench-resume")).to_be_hidden()
    page.click("#bench-stop")
    expect(progress).to_contain_text("Ended with 0 of 60 answers")
    assert len(list(Path(os.environ["DFLASH_VIZ_CACHE"]).glob("results/*"))) == 1
