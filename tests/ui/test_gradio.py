"""What we rely on in gradio and could lose with an upgrade."""

from __future__ import annotations

import asyncio

import gradio as gr
import pytest

from dflash_viz.lanes import Fleet, load_preset
from dflash_viz.ui.page import create_app
from dflash_viz.ui.serve import PLOTLY, head, page_script


def test_the_queues_polling_interval_can_be_set() -> None:
    with gr.Blocks() as demo:
        pass
    demo.queue()
    assert demo._queue.sleep_when_free == 0.001


def test_scripts_are_whole_and_in_order() -> None:
    script = page_script()
    assert script.index("DFlashViz.Card") < script.rindex("class View")
    assert "</script" not in script
    assert head().count("<script") == 2
    assert PLOTLY.is_file()


def test_the_run_endpoint_has_a_name() -> None:
    fleet = Fleet(load_preset("embedded-cpu").lanes)
    public = {
        e["api_name"] for e in create_app(fleet, []).config["dependencies"] if e["api_visibility"] == "public"
    }
    assert public == {"run"}


def test_without_an_engine_a_question_gets_an_answer_in_words() -> None:
    from dflash_viz.ui.page import Page

    page = Page(None, [])
    page.build()

    async def first() -> dict[object, object]:
        values = {page.box: "Hi", page.conversation: [], page.chosen: []}
        return await anext(page.ask(values, gr.Request(session_hash="s")))

    with pytest.warns(UserWarning, match="shows recorded runs only"):
        asyncio.run(first())
    assert not page.send.interactive, "nobody is invited to ask"
    assert not page.box.interactive
