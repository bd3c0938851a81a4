"""The page: its layout, and what happens when somebody uses it."""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import AsyncGenerator, Sequence
from functools import partial
from html import escape
from pathlib import Path
from typing import Any

# Before gradio is imported: the page asks nothing of anybody outside.
os.environ.setdefault("GRADIO_ANALYTICS_ENABLED", "False")

import gradio as gr
import plotly

from dflash_viz.lanes import Fleet, Lane
from dflash_viz.trace import Sampling, Trace
from dflash_viz.ui.api import make_stream
from dflash_viz.ui.chat import Exchange, Frame, Question, summary_lines, to_messages
from dflash_viz.ui.recorder import runs_dir
from dflash_viz.ui.verdicts import judge_texts
from dflash_viz.views.engine_status import Chip, chips_html
from dflash_viz.views.lane_style import LaneStyle, lane_styles
from dflash_viz.views.page_lines import problem_line, recorded_document
from dflash_viz.weights.resolver import ROOT

ASSETS = ROOT / "assets"
PLOTLY = Path(plotly.__file__).parent / "package_data" / "plotly.min.js"
MAX_PROMPT_CHARACTERS = 20_000
# Visitors whose question runs or waits for the machine; who waits is told so. Behind them gradio's own
# queue begins, which shows nothing.
MAX_RUNS = 32
QUEUE_POLL_S = 0.02
CHAT_EVERY_S = 0.25
TITLE = "DFlash Viz"

# Label and question by kind; the last is the one where n-gram shines.
EXAMPLES = (
    (
        "Maths: sheep",
        "A farmer has 17 sheep and buys 3 times as many. How many sheep does he have now? "
        "Think step by step.",
    ),
    (
        "Code: palindrome",
        "Write a Python function that checks whether a word is a palindrome, with two examples.",
    ),
    ("Chat: blue sky", "Explain to a ten-year-old why the sky is blue."),
    (
        "Copying: a list",
        "Repeat this list three times, word for word: apples, oranges, bananas, grapes, lemons, cherries.",
    ),
)

STAGE_SCRIPT = """
const view = DFlashViz.mount(element.querySelector('.dv-root'));
const show = () => view.feed(props.value || '');
watch('value', show);
show();
"""

INTRO = (
    "A small **drafter** guesses the next tokens; the **target** checks them all in one pass and keeps the "
    "longest correct beginning. The text is the target's own; drafting is there to make it faster. Each "
    "**lane** drafts in its own way, on a real vLLM engine; every block below is one real engine step."
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
NO_ENGINE = "No engine runs here: this page shows recorded runs only."


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
    """Wires the lanes to the components; holds the questions that run, by browser session."""

    def __init__(self, fleet: Fleet | None, recorded: Sequence[Trace]) -> None:
        self.fleet = fleet
        self.lanes: dict[str, Lane] = fleet.lanes if fleet is not None else {}
        self.styles = lane_styles([(name, lane.spec.method) for name, lane in self.lanes.items()])
        self.greeting = _greeting(recorded, fleet is not None)
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
                    self._settings()
                    self.files = gr.Files(label="Traces of this run", visible=False, elem_id="files")
            self._events(demo)
            if self.fleet is not None:
                gr.events.api(make_stream(self.fleet), api_name="run", concurrency_limit=MAX_RUNS)
        return demo

    def _header(self) -> None:
        with gr.Row(elem_classes="dv-header"):
            gr.Markdown(f"# {TITLE}\n{INTRO}", elem_classes="dv-intro")
        with gr.Row(elem_classes="dv-lanes"):
            self.status = gr.HTML(self._chips(), elem_id="engine")
            self.retries = [
                gr.Button(
                    f"Retry {self.styles[name].title}", visible=False, elem_id=f"retry-{number}",
                    scale=0, min_width=140,
                )
                for number, name in enumerate(self.lanes)
            ]  # fmt: skip

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
            self.send = gr.Button("Send", variant="primary", elem_id="send", min_width=70)
            self.stop = gr.Button("Stop", variant="stop", interactive=False, elem_id="stop", min_width=70)
            self.again = gr.Button("Regenerate", interactive=False, elem_id="again", min_width=70)
            self.clear = gr.Button("Clear", elem_id="clear", min_width=70)
        with gr.Column(elem_classes="dv-examples"):
            gr.Examples(
                [[text] for _, text in EXAMPLES],
                inputs=self.box,
                label="Examples",
                example_labels=[label for label, _ in EXAMPLES],
            )

    def _settings(self) -> None:
        with gr.Accordion("Settings", open=False, elem_id="settings"):
            self.chosen = gr.CheckboxGroup(
                [(self.styles[name].title, name) for name in self.lanes],
                value=list(self.lanes),
                label="Lanes",
                info="One after another: they share this machine, and each is timed alone on it.",
                elem_id="chosen",
            )
            self.contended = gr.Checkbox(
                label="All at the same time", value=False, elem_id="contended",
                info="Lively, but the lanes take time from each other: no speedup is given.",
            )  # fmt: skip
            self.system = gr.Textbox(
                label="System prompt", value="", lines=2, elem_id="system",
                info="What the model is told before the chat. Empty: its own default.",
            )  # fmt: skip
            self.temperature = gr.Slider(
                0.0, 1.5, value=0.0, step=0.1, label="Temperature", elem_id="temperature",
                info="0: always the target's most probable token. Above: a draw, so texts differ.",
            )  # fmt: skip
            self.top_p = gr.Slider(
                0.05, 1.0, value=1.0, step=0.05, label="Top-p",
                info="Draws only from the most probable tokens that make up this share. 1: from all.",
            )  # fmt: skip
            self.max_tokens = gr.Slider(
                1, 1024, value=256, step=1, label="Max tokens", elem_id="max-tokens",
                info="The answer ends after this many tokens.",
            )  # fmt: skip
            self.seed = gr.Number(
                value=0, minimum=0, maximum=2**31 - 1, precision=0, label="Seed", elem_id="seed",
                info="Above temperature 0 the same seed gives the same draws in the same lane.",
            )  # fmt: skip

    def _events(self, demo: gr.Blocks) -> None:
        quiet: dict[str, Any] = {"queue": False, "show_progress": "hidden", "api_visibility": "private"}
        inputs: set[Any] = {
            self.box, self.conversation, self.chosen, self.contended, self.system, self.temperature,
            self.top_p, self.max_tokens, self.seed,
        }  # fmt: skip
        outputs = [
            self.conversation, self.chatbot, self.box, self.stage, self.send, self.stop, self.again,
            self.files, self.seed,
        ]  # fmt: skip
        running: dict[str, Any] = {
            "concurrency_limit": MAX_RUNS, "concurrency_id": "run", "show_progress": "hidden",
            "trigger_mode": "once", "api_visibility": "private",
        }  # fmt: skip
        gr.on([self.box.submit, self.send.click], self.ask, inputs, outputs, **running)
        self.again.click(self.regenerate, inputs, outputs, **running)
        self.stop.click(self.halt, None, None, **quiet)
        self.clear.click(self.reset, None, outputs, **quiet)
        self.chatbot.select(self.revisit, self.conversation, [self.stage, self.files], **quiet)
        states = [self.status, *self.retries]
        for name, button in zip(self.lanes, self.retries, strict=True):
            button.click(partial(self.retry, name), None, states, **quiet)
        gr.Timer(1.0).tick(self.poll, None, states, **quiet)
        demo.load(self.greet, None, self.stage, **quiet)
        demo.unload(self.leave)

    async def ask(self, values: dict[Any, Any], request: gr.Request) -> AsyncGenerator[dict[Any, Any]]:
        """Answer one question; yields updates of the components until all lanes have ended."""
        text = (values[self.box] or "").strip()
        if (refusal := self._refusal(text, values[self.chosen])) is not None:
            yield {self.stage: refusal}
            return
        yield {self.box: ""}
        answer = self._answer(text, values, str(request.session_hash))
        async with contextlib.aclosing(answer) as updates:
            async for update in updates:
                yield update
                if update.get(self.conversation) is values[self.conversation]:  # no lane has answered
                    yield {self.box: text}

    async def _answer(
        self, text: str, values: dict[Any, Any], key: str, kept: list[Exchange] | None = None
    ) -> AsyncGenerator[dict[Any, Any]]:
        """Run a question behind the conversation; ``kept`` is the one to go back to when no lane
        answers, if that is another."""
        conversation = values[self.conversation]
        self._running[key] = question = self._question(text, values)
        yield {
            self.chatbot: _shown(conversation, text), self.send: _off(), self.stop: _on(),
            self.again: _off(), self.files: _hidden(),
        }  # fmt: skip
        try:
            async with contextlib.aclosing(
                self._follow(question, key, text, kept or conversation)
            ) as updates:
                async for update in updates:
                    yield update
        finally:
            if self._running.get(key) is question:
                del self._running[key]

    def _question(self, text: str, values: dict[Any, Any]) -> Question:
        assert self.fleet is not None
        seed, conversation = values[self.seed], values[self.conversation]
        return Question(
            self.fleet,
            [name for name in self.lanes if name in values[self.chosen]],  # in the order of the page
            to_messages(values[self.system] or "", conversation, text),
            Sampling(
                values[self.temperature],
                int(values[self.max_tokens]),
                None if seed is None else int(seed),
                values[self.top_p],
            ),
            values[self.contended],
            conversation,
            self.styles,
        )

    async def _follow(
        self, question: Question, key: str, text: str, kept: list[Exchange]
    ) -> AsyncGenerator[dict[Any, Any]]:
        said = 0.0
        async with contextlib.aclosing(question.frames()) as frames:
            async for frame in frames:
                if self._running.get(key) is not question:
                    return  # cleared: what still comes belongs to nobody
                # The chat draws a message anew each time: it follows the stage in larger strides.
                speak = time.monotonic() - said > CHAT_EVERY_S
                said = time.monotonic() if speak else said
                shown: dict[Any, Any] = {self.stage: frame.document}
                if frame.finished:
                    shown |= self._finish(frame, question, kept)
                elif speak:
                    shown[self.chatbot] = _shown(question.earlier, text, frame.answer)
                yield shown

    def _finish(self, frame: Frame, question: Question, kept: list[Exchange]) -> dict[Any, Any]:
        turns = kept if frame.exchange is None else [*question.earlier, frame.exchange]
        return {
            self.chatbot: _shown(turns), self.conversation: turns, self.send: _on(), self.stop: _off(),
            self.again: _interactive(bool(turns)),
            self.files: _files(turns[-1]) if turns else _hidden(),
        }  # fmt: skip

    def _refusal(self, text: str, chosen: list[str]) -> Any:
        """What to show instead of an answer; None when the question can be asked."""
        if not text:
            return problem_line("The question is empty.", "Type something, or choose an example.")
        if len(text) > MAX_PROMPT_CHARACTERS:
            limit = f"{MAX_PROMPT_CHARACTERS:,} characters"
            return problem_line(f"The question is longer than {limit}.", "Shorten it.")
        if self.fleet is None:
            return problem_line(NO_ENGINE, "Start the app where vLLM is installed to ask questions.")
        if not chosen:
            return problem_line("No lane is chosen.", "Choose at least one under Settings.")
        return None

    async def regenerate(self, values: dict[Any, Any], request: gr.Request) -> AsyncGenerator[dict[Any, Any]]:
        """Ask the last question again. Above temperature 0 with the next seed, or the draws, and with
        them the answers, would be the same."""
        conversation, seed = values[self.conversation], values[self.seed]
        if (refusal := self._refusal(conversation[-1].question, values[self.chosen])) is not None:
            yield {self.stage: refusal}
            return
        if values[self.temperature] > 0 and seed is not None:
            seed = int(seed) + 1
        again = {**values, self.conversation: conversation[:-1], self.seed: seed}
        yield {self.seed: seed}
        answer = self._answer(conversation[-1].question, again, str(request.session_hash), conversation)
        async with contextlib.aclosing(answer) as updates:
            async for update in updates:
                yield update

    async def halt(self, request: gr.Request) -> None:
        """The stop button: end this browser's question at once."""
        if (question := self._running.get(str(request.session_hash))) is not None:
            await question.stop()

    async def reset(self, request: gr.Request) -> dict[Any, Any]:
        """The clear button: stop what runs and start over."""
        if (question := self._running.pop(str(request.session_hash), None)) is not None:
            await question.stop()
        return {
            self.conversation: [], self.chatbot: [], self.box: "", self.stage: "", self.send: _on(),
            self.stop: _off(), self.again: _off(), self.files: _hidden(),
        }  # fmt: skip

    def revisit(
        self, conversation: list[Exchange], event: gr.SelectData, request: gr.Request
    ) -> dict[Any, Any]:
        """A turn of the chat was clicked: show its run again, from its traces."""
        number = event.index // 2  # a question and an answer each
        if str(request.session_hash) in self._running or number >= len(conversation):
            return {self.stage: gr.skip()}
        turn = conversation[number]
        document = turn.document(number + 1, conversation[:number], self.styles)
        return {self.stage: document, self.files: _files(turn)}

    async def leave(self, request: gr.Request) -> None:
        """The tab was closed: nobody waits for its answer any more."""
        await self.halt(request)

    def greet(self) -> str:
        """What the page shows first: a recorded run, until somebody asks."""
        return self.greeting

    def retry(self, name: str) -> list[Any]:
        """A lane's retry button."""
        if self.fleet is not None:
            self.fleet.retry(name)
        return self.poll()

    def poll(self) -> list[Any]:
        """Where the engines stand, once a second."""
        states = [lane.status.state for lane in self.lanes.values()]
        return [self._chips(), *(gr.update(visible=state in ("failed", "stopped")) for state in states)]

    def _chips(self) -> str:
        return chips_html([_chip(lane, self.styles[name]) for name, lane in self.lanes.items()])


def _greeting(recorded: Sequence[Trace], engine: bool) -> str:
    """The document of the recorded runs that the page shows until somebody asks."""
    if not recorded:
        return ""
    summary = summary_lines(recorded, judge_texts(recorded), ())
    return recorded_document(recorded, WELCOME_NOTE if engine else "", summary)


def _chip(lane: Lane, style: LaneStyle) -> Chip:
    status = lane.status
    if lane.paused:
        return Chip(style, "paused", progress=status.progress)
    if status.state == "ready" and lane.client is not None and lane.client.num_running:
        return Chip(style, "running")
    return Chip(style, status.state, status.message, status.progress, status.seconds_left)


def _shown(conversation: Sequence[Exchange], text: str = "", answer: str = "") -> list[dict[str, str]]:
    """The chat for the chatbot, which takes every text for HTML; ``text`` is the question that runs."""
    pairs = [(turn.question, turn.answer) for turn in conversation]
    turns = [*pairs, (text, answer)] if text else pairs
    messages = [
        {"role": role, "content": escape(content)}
        for pair in turns
        for role, content in zip(("user", "assistant"), pair, strict=True)
    ]
    return messages if not text or answer else messages[:-1]


def _files(turn: Exchange) -> Any:
    there = [str(path) for path in turn.files if path.is_file()]  # old traces are deleted in time
    return gr.update(value=there, visible=bool(there))


def _on() -> Any:
    return _interactive(True)


def _off() -> Any:
    return _interactive(False)


def _interactive(whether: bool) -> Any:
    return gr.update(interactive=whether)


def _hidden() -> Any:
    return gr.update(visible=False)


def create_app(fleet: Fleet | None, recorded: Sequence[Trace]) -> gr.Blocks:
    """Build the app around a fleet (None: no engine) and the recorded runs it greets with."""
    return Page(fleet, recorded).build()


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
