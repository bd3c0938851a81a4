"""Who may do what in the tab of benchmarks: what is hidden on the page is refused behind it too."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from dflash_viz.bench.job import BenchError
from dflash_viz.bench.places import new_result
from dflash_viz.lanes import Fleet, Server, load_preset
from dflash_viz.results import FILE_NAME, write_result
from dflash_viz.ui.measure import Measure
from dflash_viz.ui.measure_look import Look, Source
from dflash_viz.ui.page import Page
from tests.measured import made_result


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DFLASH_VIZ_CACHE", str(tmp_path))


def tab(engines: bool, local: bool) -> Measure:
    page = Page(Fleet(load_preset("embedded-cpu").lanes) if engines else None, [], local)
    page.build()
    return page.measure


def kept(complete: bool = True, pair: str = "embedded-cpu") -> Path:
    result = made_result(num_questions=2, pair=pair)
    if not complete:
        result.stretches.pop()
    folder = new_result()
    folder.mkdir(parents=True)
    write_result(result, folder / FILE_NAME)
    return folder


def words(updates: dict[Any, Any], measure: Measure) -> str:
    return str(updates[measure.message]["value"])


def test_a_visitor_from_elsewhere_reaches_no_file_and_deletes_nothing() -> None:
    measure, folder = tab(engines=True, local=False), kept()
    opened = measure.open_path(None, str(folder))
    assert "Paths are for whoever runs this app" in words(opened, measure)
    assert measure.look not in opened
    assert "deleted by whoever runs" in words(measure.remove(Look(), folder.name), measure)
    assert folder.is_dir()
    assert measure.own_choices() == []
    assert measure.enter(None)[measure.mine]["choices"] == []


def test_on_servers_elsewhere_it_is_said_once_that_results_can_be_opened() -> None:
    page = Page(Fleet([], [Server("there", "http://127.0.0.1:1")]), [])
    shown = [str(block.value) for block in page.build().blocks.values() if hasattr(block, "value")]
    assert "these servers were started by somebody else" in page.measure.why_not
    assert sum(words.count("opened and compared") for words in shown) == 1


@pytest.mark.parametrize(
    ("engines", "local", "why"),
    [
        (False, True, "no engine runs. Start the app where vLLM is installed"),
        (False, False, "no engine runs."),
        (True, False, "whoever sits"),
    ],
)
def test_benchmarks_run_only_where_there_is_an_engine_and_its_owner(
    engines: bool, local: bool, why: str
) -> None:
    measure, name = tab(engines, local), kept(complete=False).name
    assert why in measure.why_not
    assert local or "Start" not in measure.why_not, "a visitor cannot"
    assert "No result is open. Open the result" in measure.result.value
    assert measure.outlook.parent.visible is False
    shown = measure.show(None, Source(name))
    assert shown[measure.resume]["visible"] is False
    updates = asyncio.run(measure.go_on(shown[measure.look]))
    assert "whoever sits at this machine" in words(updates, measure)
    with pytest.raises(BenchError):
        asyncio.run(measure.halt())


def test_an_unfinished_result_of_ones_own_lanes_can_be_gone_on_with() -> None:
    measure = tab(engines=True, local=True)
    whole, half, other = (kept(), kept(complete=False), kept(complete=False, pair="another"))
    offered = [
        measure.show(None, Source(one.name))[measure.resume]["visible"] for one in (whole, half, other)
    ]
    assert offered == [False, True, True]
    assert measure.show(None, Source(file=half))[measure.resume]["visible"] is False
    updates = asyncio.run(measure.go_on(Look(Source(other.name))))
    assert "--preset another" in words(updates, measure)
    assert "Open one of your own" in words(asyncio.run(measure.go_on(None)), measure)


def test_what_a_browser_may_not_choose_is_no_result(tmp_path: Path) -> None:
    measure, folder = tab(engines=False, local=True), kept()
    shown = measure.show(None, Source(folder.name))
    look = shown[measure.look]
    for key in ("7", "-1", "../..", str(tmp_path), None):
        updates = measure.compare(look, key)
        assert updates.get(measure.comparison, {"visible": False})["visible"] is False
    assert "no such result" in words(measure.remove(look, "../.."), measure)
