"""What stands on the page: its components, and the words in them."""

from __future__ import annotations

from collections.abc import Mapping

import gradio as gr

from dflash_viz.space import Limits
from dflash_viz.ui.measure import Measure
from dflash_viz.ui.shelf import Shelf
from dflash_viz.ui.stage import make_stage

TITLE = "DFlash Viz"
LIVE = "live"
DEFAULT_TOKENS = 256

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

INTRO = (
    "A small **drafter** guesses the next tokens; the **target** checks them all in one pass and keeps the "
    "longest correct beginning. The text is the target's own; drafting is there to make it faster. Each "
    "**lane** drafts in its own way, on a real vLLM engine; every block below is one real engine step."
)

PLACEHOLDER = (
    "Ask the target something. The default one has only 135 million parameters and is often wrong: "
    "watch the blocks, not the facts."
)
NO_ENGINE = "No engine runs here. One recorded run plays; there are more under Recorded."


SHARED = "One after another: they share this machine, and each is timed alone on it."
APART = "One after another, each server alone; what else it does meanwhile is not this app's."


class Layout:
    """The components, made inside a ``gr.Blocks``: ``titles`` are the lanes' by name, ``chips`` the HTML
    of their states at the beginning; ``apart``: they are servers that need not share a machine."""

    shelf: Shelf
    measure: Measure
    limits: Limits

    def lay_out(self, titles: Mapping[str, str], chips: str, apart: bool) -> None:
        """Create the components."""
        self._lanes_info = APART if apart else SHARED
        self._header(titles, chips)
        with gr.Tabs(selected=LIVE, elem_id="tabs") as self.tabs:
            with gr.Tab("Live", id=LIVE):
                self._live(titles)
            self.shelf.lay_out()
            self.measure.lay_out(titles)

    def _live(self, titles: Mapping[str, str]) -> None:
        with gr.Row(elem_classes="dv-columns"):
            with gr.Column(scale=4, min_width=320, elem_classes="dv-chat"):
                self._chat(bool(titles))
            with gr.Column(scale=7, min_width=320, elem_classes="dv-stage"):
                self.stage = make_stage("stage")
            with gr.Column(scale=4, min_width=320, elem_classes="dv-extras"):
                self._settings(titles)
                self.files = gr.Files(label="Traces of this run", visible=False, elem_id="files")

    def _header(self, titles: Mapping[str, str], chips: str) -> None:
        with gr.Row(elem_classes="dv-header"):
            gr.Markdown(f"# {TITLE}\n{INTRO}", elem_classes="dv-intro")
        with gr.Row(elem_classes="dv-lanes"):
            self.status = gr.HTML(chips, elem_id="engine")
            self.retries = [
                gr.Button(
                    f"Retry {title}", visible=False, elem_id=f"retry-{number}",
                    scale=0, min_width=140,
                )
                for number, title in enumerate(titles.values())
            ]  # fmt: skip

    def _chat(self, engine: bool) -> None:
        self.conversation = gr.State([])
        self.asked = gr.State(())  # the addresses of all runs of this visit
        self.chatbot = gr.Chatbot(
            label="Chat",
            show_label=False,
            height=420,
            latex_delimiters=[],
            render_markdown=False,  # a model's answer is text, whatever it looks like
            buttons=[],
            feedback_options=None,
            placeholder=PLACEHOLDER if engine else NO_ENGINE,
            elem_id="chat",
        )
        self.box = gr.Textbox(
            label="Your question",
            placeholder="Ask something, then press Enter" if engine else "No engine runs here",
            interactive=engine,
            lines=1,  # with more, gradio's Enter begins a new line
            max_lines=6,
            elem_id="question",
            submit_btn=False,
        )
        with gr.Row(elem_classes="dv-buttons"):
            self.send = gr.Button("Send", variant="primary", interactive=engine, elem_id="send", min_width=70)
            self.stop = gr.Button("Stop", variant="stop", interactive=False, elem_id="stop", min_width=70)
            self.again = gr.Button("Regenerate", interactive=False, elem_id="again", min_width=70)
            self.clear = gr.Button("Clear", interactive=engine, elem_id="clear", min_width=70)
        with gr.Column(elem_classes="dv-examples", visible=engine):
            gr.Examples(
                [[text] for _, text in EXAMPLES],
                inputs=self.box,
                label="Examples",
                example_labels=[label for label, _ in EXAMPLES],
            )

    def _settings(self, titles: Mapping[str, str]) -> None:
        with gr.Accordion("Settings", open=False, elem_id="settings"):
            self.chosen = gr.CheckboxGroup(
                [(title, name) for name, title in titles.items()],
                value=list(titles),
                label="Lanes",
                info=self._lanes_info,
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
                1, self.limits.max_tokens, value=min(DEFAULT_TOKENS, self.limits.max_tokens), step=1,
                label="Max tokens", elem_id="max-tokens",
                info="The answer ends after this many tokens.",
            )  # fmt: skip
            self.seed = gr.Number(
                value=0, minimum=0, maximum=2**31 - 1, precision=0, label="Seed", elem_id="seed",
                info="Above temperature 0 the same seed gives the same draws in the same lane.",
            )  # fmt: skip
            self.top_k = gr.Slider(
                0, 20, value=5, step=1, label="Recorded probabilities", elem_id="top-k",
                info="The most probable tokens of drafter and target that are kept for each position, for "
                "the inspector. They cost every lane a few percent of its speed; 0: none are kept.",
            )  # fmt: skip
