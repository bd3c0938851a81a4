"""The stage: the component in which the page's script draws a document."""

from __future__ import annotations

import gradio as gr

_SCRIPT = """
const view = DFlashViz.mount(element.querySelector('.dv-root'));
const show = () => view.feed(props.value || '');
watch('value', show);
show();
"""


def make_stage(elem_id: str) -> gr.HTML:
    """A stage; its value is a document (see ``dflash_viz.views.page_lines``)."""
    return gr.HTML(value="", html_template='<div class="dv-root"></div>', js_on_load=_SCRIPT, elem_id=elem_id)
