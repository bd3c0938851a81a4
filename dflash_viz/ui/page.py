"""The page: its layout, and what happens when somebody uses it."""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import AsyncIterator
from html import escape
from pathlib import Path
from typing import Any

# Before gradio is imported: the page asks nothing of anybody outside.
os.environ.setdefault("GRADIO_ANALYTICS_ENABLED", "False")

import gradio as gr
import plotly

from dflash_viz.lanes import Lane
from dflash_viz.trace import Message, Sampling, Trace
from dflash_viz.ui.chat import Frame, Question
from dflash_viz.ui.recorder import runs_dir
from dflash_viz.views.engine_status import LANE_NAMES, engine_status
from dflash_viz.views.page_lines import problem_line, recorded_document
from dflash_viz.weights.resolver import ROOT

ASSETS = ROOT / "assets"
PLOTLY = Path(plotly.__file__).parent / "package_data" / "plotly.min.js"
MAX_PROMPT_CHARACTERS = 20_000
# An engine that is used by several people at once answers them side by side, up to this many.
MAX_RUNS = 4
QUEUE_POLL_S = 0.02
CHAT_EVERY_S = 0.25
TITLE = "DFlash Viz"

EXAMPLES = [
    ["A farmer has 17 sheep and buys 3 times as many. How many sheep does he have now? Think step by step."],
    ["Write a Python function that checks whether a word is a palindrome, with two examples."],
    ["Explain to a ten-year-old why the sky is blue."],
    ["Repeat this list three times: apples, oranges, bananas, grapes, lemons."],
]

STAGE_SCRIPT = """
const view = DFlashViz.mount(element.querySelector('.dv-root'));
const show = () => view.feed(props.value || '');
watch('value', show);
show();
"""

INTRO = (
    "A small **drafter** guesses a block of tokens in one pass; the **target** checks the whole block in "
    "one pass and keeps the longest correct beginning. The text is the target's own; drafting is there to "
    "make it faster. Every block below is one real engine step."
)

PLACEHOLDER = (
    "Ask the target something. The default one has only 135 million parameters and is often wrong: "
    "watch the blocks, not the facts."
)

# Gradio confines our style sheets to what lies inside its frame; these rules are about the frame.
FRAME_STYLE = """
.gradio-container { max-width: 1600px !important; margin: 0 auto !important; }
@media (max-width: 800px) { .gradio-container .main.app { padding: 12px !important; } }
"""

WELCOME_NOTE = "A real run, recorded earlier. Ask something to see a live one."


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


class Page:
    """Wires one lane to the components; holds the questions that run, by browser session."""

    def __init__(self, lane: Lane | None, recorded: Trace | None) -> None:
        self.lane = lane
        self.recorded = recorded
        self._running: dict[str, Question] = {}

    def build(self) -> gr.Blocks:
        """Create the components and their events."""
        demo = gr.Blocks(title=TITLE, fill_width=True, analytics_enabled=False)
        with demo:
            self._header()
            with gr.Row(elem_classes="dv-columns"):
                with gr.Column(scale=4, min_width=320, elem_classes="dv-chat"):
                    self._chat()
                with gr.Column(scale=7, min_width=320, elem_classes="dv-stage"):
                    self.stage = gr.HTML(
                        value="",
                        html_template='<div class="dv-root"></div>',
                        js_on_load=STAGE_SCRIPT,
                        elem_id="stage",
                    )
                with gr.Column(scale=4, min_width=320, elem_classes="dv-extras"):
                    self._extras()
            self._events(demo)
        return demo

    def _header(self) -> None:
        with gr.Row(elem_classes="dv-header"):
            gr.Markdown(f"# {TITLE}\n{INTRO}", elem_classes="dv-intro")
        with gr.Row(elem_classes="dv-lanes"):
            self.status = gr.HTML(self._status_html(), elem_id="engine")
            self.restart = gr.Button(
                "Restart the engine", visible=False, elem_id="restart", scale=0, min_width=180
            )

    def _chat(self) -> None:
        self.conversation = gr.State([])
        self.chatbot = gr.Chatbot(
            label="Chat",
            show_label=False,
            height=420,
            latex_delimiters=[],
            render_markdown=False,  # a model's answer is text, whatever it looks like
            buttons=[],
            feedback_options=None,
            placeholder=PLACEHOLDER,
            elem_id="chat",
        )
        self.box = gr.Textbox(
            label="Your question",
            placeholder="Ask something, then press Enter",
            lines=2,
            max_lines=6,
            elem_id="question",
            submit_btn=False,
        )
        with gr.Row(elem_classes="dv-buttons"):
            self.send = gr.Button("Send", variant="primary", elem_id="send", min_width=80)
            self.stop = gr.Button("Stop", variant="stop", interactive=False, elem_id="stop", min_width=80)
            self.clear = gr.Button("Clear", elem_id="clear", min_width=80)
        with gr.Column(elem_classes="dv-examples"):
            gr.Examples(EXAMPLES, inputs=self.box, label="Examples: maths, code, chat, copying")

    def _extras(self) -> None:
        with gr.Accordion("Settings", open=False, elem_id="settings"):
            self.temperature = gr.Slider(
                0.0, 1.5, value=0.0, step=0.1, label="Temperature",
                info="0: always the target's most probable token. Above: a draw, so texts differ.",
            )  # fmt: skip
            self.max_tokens = gr.Slider(
                1,
                1024,
                value=256,
                step=1,
                label="Max tokens",
                elem_id="max-tokens",
                info="The answer ends after this many tokens.",
            )
            self.seed = gr.Number(
                value=0,
                minimum=0,
                maximum=2**31 - 1,
                precision=0,
                label="Seed",
                info="Above temperature 0 the same seed gives the same draws.",
            )
        self.download = gr.DownloadButton("Download this run's trace", visible=False, elem_id="download")

    def _events(self, demo: gr.Blocks) -> None:
        outputs = [self.conversation, self.chatbot, self.box, self.stage, self.send, self.stop, self.download]
        inputs = [self.box, self.conversation, self.temperature, self.max_tokens, self.seed]
        gr.on(
            [self.box.submit, self.send.click], self.ask, inputs, outputs,
            concurrency_limit=MAX_RUNS, show_progress="hidden", trigger_mode="once", api_name="chat",
        )  # fmt: skip
        self.stop.click(self.halt, None, None, queue=False, show_progress="hidden", api_visibility="private")
        self.clear.click(
            self.reset, None, outputs, queue=False, show_progress="hidden", api_visibility="private"
        )
        self.restart.click(
            self.revive, None, [self.status, self.restart], queue=False, show_progress="hidden",
            api_visibility="private",
        )  # fmt: skip
        timer = gr.Timer(1.0)
        timer.tick(
            self.poll, None, [self.status, self.restart], queue=False, show_progress="hidden",
            api_visibility="private",
        )  # fmt: skip
        demo.load(self.greet, None, self.stage, queue=False, show_progress="hidden", api_visibility="private")
        demo.unload(self.leave)

    async def ask(
        self,
        text: str,
        conversation: list[dict[str, str]],
        temperature: float,
        max_tokens: float,
        seed: float | None,
        request: gr.Request,
    ) -> AsyncIterator[dict[Any, Any]]:
        """Answer one question; yields updates of the components until the answer has ended."""
        text = (text or "").strip()
        if not text or len(text) > MAX_PROMPT_CHARACTERS or self.lane is None:
            yield self._refuse(text)
            return
        turns = [*conversation, {"role": "user", "content": text}]
        question = Question(
            self.lane,
            [Message(**turn) for turn in turns],  # type: ignore[arg-type]
            Sampling(temperature, int(max_tokens), None if seed is None else int(seed)),
        )
        key = str(request.session_hash)
        self._running[key] = question
        yield {
            self.box: "", self.chatbot: _shown(turns), self.send: _off(), self.stop: _on(),
            self.download: _hidden(),
        }  # fmt: skip
        try:
            said = 0.0
            async with contextlib.aclosing(question.frames()) as frames:
                async for frame in frames:
                    if self._running.get(key) is not question:
                        return  # cleared: what still comes belongs to nobody
                    # The chat draws a message anew each time: it follows the stage in larger strides.
                    speak = frame.finished or time.monotonic() - said > CHAT_EVERY_S
                    said = time.monotonic() if speak else said
                    yield self._update(frame, turns, text, speak)
        finally:
            if self._running.get(key) is question:
                del self._running[key]

    def _refuse(self, text: str) -> dict[Any, Any]:
        if not text:
            return {self.stage: gr.skip()}
        if len(text) > MAX_PROMPT_CHARACTERS:
            limit = f"{MAX_PROMPT_CHARACTERS:,} characters"
            return {self.stage: problem_line(f"The question is longer than {limit}.", "Shorten it.")}
        message = "No engine runs here: this page shows recorded runs only."
        return {self.stage: problem_line(message, "Start the app where vLLM is installed to ask questions.")}

    def _update(self, frame: Frame, turns: list[dict[str, str]], text: str, speak: bool) -> dict[Any, Any]:
        shown: dict[Any, Any] = {self.stage: frame.document}
        if speak:
            answered = [*turns, {"role": "assistant", "content": frame.answer}]
            shown[self.chatbot] = _shown(answered)
        if frame.finished:
            shown |= {self.send: _on(), self.stop: _off(), self.conversation: answered}
            if frame.trace_file is not None:
                shown[self.download] = gr.update(value=str(frame.trace_file), visible=True)
        if frame.failed:
            shown |= {self.chatbot: _shown(turns[:-1]), self.conversation: turns[:-1], self.box: text}
        return shown

    async def halt(self, request: gr.Request) -> None:
        """The stop button: end this browser's question at once."""
        if (question := self._running.get(str(request.session_hash))) is not None:
            await question.stop()

    async def reset(self, request: gr.Request) -> dict[Any, Any]:
        """The clear button: stop what runs and start over."""
        if (question := self._running.pop(str(request.session_hash), None)) is not None:
            await question.stop()
        return {
            self.conversation: [], self.chatbot: [], self.box: "", self.stage: "",
            self.send: _on(), self.stop: _off(), self.download: _hidden(),
        }  # fmt: skip

    async def leave(self, request: gr.Request) -> None:
        """The tab was closed: nobody waits for its answer any more."""
        await self.halt(request)

    def greet(self) -> str:
        """What the page shows first: a recorded run, until somebody asks."""
        if self.recorded is None:
            return ""
        return recorded_document(self.recorded, WELCOME_NOTE if self.lane is not None else "")

    def revive(self) -> list[Any]:
        """The restart button."""
        if self.lane is not None:
            self.lane.start()
        return self.poll()

    def poll(self) -> list[Any]:
        """Where the engine stands, once a second."""
        failed = self.lane is not None and self.lane.status.state in ("failed", "stopped")
        return [self._status_html(), gr.update(visible=failed)]

    def _status_html(self) -> str:
        if self.lane is None:
            return engine_status(TITLE, "absent", "recorded runs only")
        name, status = self.lane.spec.name, self.lane.status
        shown = LANE_NAMES.get(name, name)
        return engine_status(shown, status.state, status.message, status.progress, status.seconds_left)


def _shown(turns: list[dict[str, str]]) -> list[dict[str, str]]:
    """The turns for the chatbot, which takes every text for HTML."""
    return [{**turn, "content": escape(turn["content"])} for turn in turns]


def _on() -> Any:
    return gr.update(interactive=True)


def _off() -> Any:
    return gr.update(interactive=False)


def _hidden() -> Any:
    return gr.update(visible=False)


def create_app(lane: Lane | None, recorded: Trace | None) -> gr.Blocks:
    """Build the app around a lane (None: no engine) and the recorded run it greets with."""
    return Page(lane, recorded).build()


def launch(demo: gr.Blocks, host: str, port: int, block: bool = True) -> str:
    """Serve the app; returns its address. Raises ``OSError`` when the port is taken."""
    gr.set_static_paths([PLOTLY])
    demo.queue(default_concurrency_limit=MAX_RUNS)
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
        css_paths=[ASSETS / "page.css", ASSETS / "app.css"],
        theme=gr.themes.Default(
            font=["system-ui", "sans-serif"], font_mono=["ui-monospace", "monospace"], primary_hue="blue"
        ),
        footer_links=["api", "settings"],
    )
    return url
