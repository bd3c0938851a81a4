"""Serving the app: what the page loads, and gradio's own settings."""

from __future__ import annotations

import re
from pathlib import Path

import gradio as gr
import plotly

from dflash_viz.ui.runs import runs_dir
from dflash_viz.weights.resolver import ROOT

ASSETS = ROOT / "assets"
PLOTLY = Path(plotly.__file__).parent / "package_data" / "plotly.min.js"
QUEUE_POLL_S = 0.02
CONCURRENCY = 32
"""Of events without a limit of their own: those that only look something up."""

# Gradio confines our style sheets to what lies inside its frame; these rules are about the frame, in whose
# hidden overflow nothing could stay in sight while the page scrolls.
FRAME_STYLE = """
.gradio-container { max-width: 1600px !important; margin: 0 auto !important; overflow: clip !important; }
@media (max-width: 800px) { .gradio-container .main.app { padding: 12px !important; } }
"""


def page_script() -> str:
    """The page's scripts, in the order that ``assets/page.js`` names at its top."""
    main = (ASSETS / "page.js").read_text()
    parts = re.findall(r"^//   (page/\w+\.js)$", main, re.MULTILINE)
    return "\n".join([*((ASSETS / part).read_text() for part in parts), main])


def head() -> str:
    """What the page's head loads: plotly from its own package, then our scripts. Nothing remote."""
    return (
        f'<script src="gradio_api/file={PLOTLY}"></script>\n<script>{page_script()}</script>\n'
        f"<style>{FRAME_STYLE}</style>\n"
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
    )


def launch(demo: gr.Blocks, host: str, port: int, block: bool = True) -> str:
    """Serve the app; returns its address. Raises ``OSError`` when the port is taken."""
    gr.set_static_paths([PLOTLY])
    demo.queue(default_concurrency_limit=CONCURRENCY)
    # An idle queue looks for work every millisecond, which costs the engine 4 to 10 % of a core.
    # There is no public setting; a test notices when the attribute goes.
    demo._queue.sleep_when_free = QUEUE_POLL_S
    _, url, _ = demo.launch(
        server_name=host,
        server_port=port,
        prevent_thread_lock=not block,
        quiet=True,
        share=False,
        ssr_mode=False,
        enable_monitoring=False,
        run_history=False,
        max_file_size="50mb",
        allowed_paths=[str(runs_dir())],
        head=head(),
        css_paths=[
            ASSETS / "page.css",
            ASSETS / "inspector.css",
            ASSETS / "app.css",
            ASSETS / "findings.css",
            ASSETS / "measured.css",
        ],
        theme=gr.themes.Default(
            font=["system-ui", "sans-serif"], font_mono=["ui-monospace", "monospace"], primary_hue="blue"
        ),
        footer_links=["api", "settings"],
    )
    return url
