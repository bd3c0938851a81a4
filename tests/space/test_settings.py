"""What a Spacefile makes of the app: how it starts, and what a visitor may ask for."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import threading
import urllib.request
from pathlib import Path
from typing import Any

import gradio as gr
import pytest

import app
from dflash_viz.lanes import Fleet, load_preset
from dflash_viz.lanes.server import free_port
from dflash_viz.space import Limits
from dflash_viz.space.render import render
from dflash_viz.ui import create_app
from dflash_viz.ui.api import make_stream
from dflash_viz.ui.page import Page
from dflash_viz.ui.visitors import Visitors
from tests.space.made import VIEWER, spacefile

STRICT = Limits(runs_and_waiting=3, max_tokens=64, prompt_characters=10)


def settled(*arguments: object) -> app.Settings:
    return app.settle(app.parse_arguments([str(one) for one in arguments]))


def fleet() -> Fleet:
    """The shipped lanes, none of which is started."""
    return Fleet(load_preset("embedded-cpu").lanes)


@pytest.fixture(autouse=True)
def _at_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPACE_ID", raising=False)


def test_at_home_the_app_is_local() -> None:
    assert settled() == app.Settings("embedded-cpu", "127.0.0.1", 7860, True, True, Limits())
    assert not settled("--host", "0.0.0.0").local
    assert not settled("--no-engine").engine


def test_a_spacefile_sets_preset_port_kind_and_limits(tmp_path: Path) -> None:
    path = spacefile(tmp_path, app_port=7999, limits={"max_tokens": 64})
    settings = settled("--spacefile", path)
    assert (settings.port, settings.engine, settings.limits) == (7999, True, Limits(max_tokens=64))
    assert (settings.host, settings.local) == ("127.0.0.1", False)
    assert not settled("--spacefile", spacefile(tmp_path, **VIEWER)).engine


def test_the_command_line_counts_more(tmp_path: Path) -> None:
    path = spacefile(tmp_path)
    settings = settled("--spacefile", path, "--port", 1, "--host", "::1", "--preset", "mine", "--no-engine")
    assert settings == app.Settings("mine", "::1", 1, False, False, Limits())


def test_in_a_space_the_file_beside_the_app_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPACE_ID", "someone/blocks")
    settings = settled()
    assert (settings.host, settings.port, settings.local) == ("0.0.0.0", 7860, False)


def test_an_invalid_spacefile_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert app.main(["--spacefile", str(spacefile(tmp_path, emoji="x"))]) == 2
    assert "emoji must be one emoji" in capsys.readouterr().err


def test_a_rendered_viewer_starts_from_its_own_files_and_answers(tmp_path: Path) -> None:
    render(spacefile(tmp_path, **VIEWER), tmp_path / "out")
    port = free_port()
    process = subprocess.Popen(
        [sys.executable, "app.py", "--port", str(port)],
        cwd=tmp_path / "out",
        env={**os.environ, "SPACE_ID": "someone/blocks", "DFLASH_VIZ_CACHE": str(tmp_path / "cache")},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    watch = threading.Timer(120, process.kill)
    watch.start()
    try:
        assert process.stdout is not None
        lines = iter(process.stdout.readline, "")
        assert any("DFlash Viz is at" in line for line in lines)
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/config", timeout=30) as response:
            config = json.load(response)
    finally:
        watch.cancel()
        process.terminate()
        process.communicate(timeout=60)
    shown = {one["props"].get("elem_id"): one["props"] for one in config["components"]}
    assert shown["path"]["visible"] is False  # visitors do not open this machine's files
    assert not any(one["api_name"] == "run" for one in config["dependencies"])


def test_the_page_offers_no_more_than_the_limits() -> None:
    config = create_app(fleet(), [], limits=STRICT).config
    slider = next(c["props"] for c in config["components"] if c["props"].get("elem_id") == "max-tokens")
    assert (slider["maximum"], slider["value"]) == (64, 64)


def test_gradio_does_not_hold_back_who_is_to_be_told_that_the_queue_is_full() -> None:
    demo = create_app(fleet(), [], limits=STRICT)
    free = {fn.name for fn in demo.fns.values() if fn.queue and fn.concurrency_limit is None}
    assert {"ask", "regenerate", "run"} <= free


def test_who_comes_later_sees_at_once_where_the_engines_stand() -> None:
    fns = create_app(fleet(), []).fns.values()
    loads = [fn.name for fn in fns if any(event == "load" for _, event in fn.targets)]
    assert {"greet", "poll"} <= set(loads)


def test_the_endpoint_asks_for_no_more_than_it_gives_by_default() -> None:
    async def first() -> dict[str, Any]:
        events = make_stream(fleet(), Visitors(STRICT))(gr.Request(session_hash="a"), "Hi")
        try:
            return await anext(events)
        finally:
            await events.aclose()  # type: ignore[attr-defined]

    assert asyncio.run(first())["type"] == "turn"


def first_update(page: Page, key: str, **written: str) -> dict[object, Any]:
    """The first thing that the page does about a question, which is then dropped."""
    values = {
        page.box: written.get("box", "Hi"), page.system: written.get("system", ""), page.conversation: [],
        page.chosen: ["none"],
    }  # fmt: skip

    async def ask() -> dict[object, Any]:
        updates = page.ask(values, gr.Request(session_hash=key))
        update = await anext(updates)
        await updates.aclose()
        return update

    return asyncio.run(ask())


@pytest.mark.parametrize("name", ["box", "system"])
def test_what_is_too_long_is_refused(name: str) -> None:
    page = Page(fleet(), [], limits=STRICT)
    page.build()
    with pytest.warns(UserWarning, match="is longer than 10 characters. Shorten it"):
        assert first_update(page, "a", **{name: "x" * 11}) == {page.stage: gr.skip()}
    assert page.stage not in first_update(page, "a", **{name: "x" * 10})


def test_a_second_question_of_a_visitor_waits_for_the_first() -> None:
    page = Page(fleet(), [], limits=STRICT)
    page.build()
    page._running["a"] = object()  # type: ignore[assignment]
    with pytest.warns(UserWarning, match="still being answered"):
        assert first_update(page, "a") == {page.stage: gr.skip()}
    assert page.box in first_update(page, "b")  # another visitor's goes on
    page._running.clear()
    assert page.box in first_update(page, "a")


def test_with_its_last_update_a_question_no_longer_runs() -> None:
    page = Page(fleet(), [], limits=STRICT)
    page.build()
    values = {
        page.box: "Hi", page.system: "", page.conversation: [], page.chosen: ["none"], page.asked: (),
        page.seed: 0, page.temperature: 0.0, page.top_p: 1.0, page.max_tokens: 8, page.top_k: 0,
        page.contended: False,
    }  # fmt: skip

    stops: list[asyncio.Task[None]] = []

    async def ask() -> list[bool]:
        visitor, running = gr.Request(session_hash="a"), []
        async for update in page.ask(values, visitor):
            running.append("a" in page._running)
            if page.asked in update:  # it waits for its lane, which nobody starts
                asyncio.get_running_loop().call_later(
                    0, lambda: stops.append(asyncio.create_task(page.halt(visitor)))
                )
        return running

    running = asyncio.run(ask())
    assert running[1]
    assert not running[-1]


def test_several_questions_of_a_visitor_where_they_are_allowed() -> None:
    page = Page(fleet(), [], limits=Limits(one_run_per_visitor=False))
    page.build()
    page._running["a"] = object()  # type: ignore[assignment]
    assert page.box in first_update(page, "a")


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"prompt": "Hi", "max_tokens": 65}, "max_tokens is 64 at most here"),
        ({"prompt": "x" * 11, "max_tokens": 8}, "a prompt has 10 characters at most here"),
        ({"prompt": "Hi", "system": "x" * 11, "max_tokens": 8}, "a prompt has 10 characters at most here"),
    ],
)
def test_the_endpoint_keeps_the_limits_too(asked: dict[str, Any], words: str) -> None:
    async def first(limits: Limits | None) -> object:
        visitors = None if limits is None else Visitors(limits)
        events = make_stream(fleet(), visitors)(gr.Request(session_hash="a"), **asked)
        try:
            return await anext(events)
        finally:
            await events.aclose()  # type: ignore[attr-defined]

    with pytest.raises(gr.Error, match=words):
        asyncio.run(first(STRICT))
    assert asyncio.run(first(None)) is not None  # at home it goes on, to say that no lane is ready


def test_who_comes_when_the_queue_is_full_is_told_so() -> None:
    page = Page(fleet(), [], limits=Limits(runs_and_waiting=2))
    page.build()
    full = pytest.warns(UserWarning, match="The queue is full: 2 at most run or wait here. Try again")
    with page.visitors.asks("a"), page.visitors.asks("b"), full:
        assert first_update(page, "c") == {page.stage: gr.skip()}, "what is on show stays"
    assert page.stage not in first_update(page, "c")
    assert not page.visitors.full()  # a question that was dropped no longer counts


@pytest.mark.parametrize(
    ("limits", "session", "words"),
    [
        (Limits(), "a", "Your last request is still being answered"),
        (Limits(runs_and_waiting=1), "b", "The queue is full: 1 at most run or wait here. Try again"),
    ],
)
def test_the_endpoint_keeps_the_limits_on_questions_at_once(limits: Limits, session: str, words: str) -> None:
    """The page's questions count too."""
    visitors = Visitors(limits)

    async def first() -> dict[str, Any]:
        events = make_stream(fleet(), visitors)(gr.Request(session_hash=session), "Hi")
        try:
            return await anext(events)
        finally:
            await events.aclose()  # type: ignore[attr-defined]

    with visitors.asks("a"), pytest.raises(gr.Error, match=words):
        asyncio.run(first())
    assert asyncio.run(first())["type"] == "turn"
