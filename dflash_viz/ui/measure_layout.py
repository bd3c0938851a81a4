"""What stands in the tab "Measure"."""

from __future__ import annotations

from collections.abc import Mapping

import gradio as gr

from dflash_viz.lanes import LaneSpec
from dflash_viz.ui.measure_form import CONCURRENCIES, DATASETS
from dflash_viz.views.measured_charts import CURVES
from dflash_viz.views.measured_files import FORMATS
from dflash_viz.views.measured_text import FIGURE, column

MEASURE = "measure"
RESULT_FILE = "result"
NOTHING_OPEN = (
    '<p class="dv-shelf-note">No result is open. {how} the result of a benchmark: its figures with their '
    "intervals and definitions, how they compare with what is expected, charts, and the prompts behind "
    "them.</p>"
)
NOT_HERE = (
    '<p class="dv-shelf-note">Benchmarks are not run here: {why} Results of benchmarks can be opened and '
    "compared.</p>"
)
NO_ENGINE = "no engine runs."
START_ONE = "Start the app where vLLM is installed, without --no-engine."
NOT_OURS = (
    "these servers were started by somebody else, and a benchmark runs on engines of its own. Start the app "
    "with a preset to run one."
)
NOT_LOCAL = "they keep the machine busy for long, so only whoever sits at it runs them."


class MeasureLayout:
    """The components, made inside a ``gr.Tabs``. ``why_not``: why nothing can be run, empty when it can."""

    local: bool
    why_not: str
    specs: Mapping[str, LaneSpec]

    @property
    def nothing_open(self) -> str:
        """What stands in the place of a result: nobody is invited to what is not possible here."""
        return NOTHING_OPEN.format(how="Open" if self.why_not else "Measure something, or open")

    def lay_out(self, titles: Mapping[str, str]) -> None:
        """Create the components; ``titles`` are the lanes' by name, as ``specs`` is."""
        with gr.Tab("Measure", id=MEASURE) as self.tab, gr.Row(elem_classes="dv-measure"):
            self.look = gr.State(None)
            self.seen = gr.State(None)
            with gr.Column(scale=4, min_width=260, elem_classes="dv-measure-choice"):
                self._running(titles)
                self._opening()
            with gr.Column(scale=8, min_width=320, elem_classes="dv-measure-result"):
                self._result()

    def _running(self, titles: Mapping[str, str]) -> None:
        here = not self.why_not
        gr.HTML(NOT_HERE.format(why=self.why_not), visible=not here, elem_id="not-here", padding=False)
        with gr.Accordion("New benchmark", open=True, visible=here, elem_id="new-benchmark"):
            self._questions()
            self._settings(titles)
            self._details()
        with gr.Column(visible=here, elem_classes="dv-bench-run"):
            self.outlook = gr.HTML("", elem_id="outlook", padding=False)
            with gr.Row(elem_classes="dv-buttons"):
                self.run = gr.Button("Run", variant="primary", elem_id="bench-run", min_width=70)
                self.stop = gr.Button(
                    "Stop", variant="stop", interactive=False, elem_id="bench-stop", min_width=70
                )
            self.progress = gr.HTML("", elem_id="bench-progress", padding=False)

    def _questions(self) -> None:
        self.dataset = gr.Dropdown(
            [(label, name) for name, label in DATASETS.items()], value="builtin", label="Data set",
            elem_id="dataset", filterable=False,
        )  # fmt: skip
        self.path = gr.Textbox(
            label="Its file or folder on this machine", visible=False, elem_id="dataset-path",
            info="Empty: it is downloaded from the Hugging Face hub.",
        )  # fmt: skip
        self.turns = gr.Radio(
            [("First turn", "first"), ("Both turns", "both")], value="first", label="Turns", visible=False,
            elem_id="turns",
        )  # fmt: skip
        self.limit = gr.Number(
            20, label="Questions", precision=None, elem_id="limit", info="How many. Empty: all of them.",
        )  # fmt: skip

    def _settings(self, titles: Mapping[str, str]) -> None:
        self.lanes = gr.CheckboxGroup(
            [(title, name) for name, title in titles.items()], value=list(titles), label="Lanes",
            elem_id="bench-lanes",
            info="Without “no speculation” there is no speedup.",
        )  # fmt: skip
        own = sorted(
            {spec.num_speculative_tokens for spec in self.specs.values() if spec.num_speculative_tokens}
        )
        self.ks = gr.Textbox(
            "", label="K, drafted tokens per step", elem_id="ks", placeholder=", ".join(map(str, own)),
            info="One or several: 3, 4, 5. Empty: the lanes' own. Each other value starts an engine.",
        )  # fmt: skip
        self.temperatures = gr.Textbox(
            "0", label="Temperatures", elem_id="temperatures",
            info="One or several: 0, 1. At 0 the texts of the lanes are compared too.",
        )  # fmt: skip
        self.concurrencies = gr.CheckboxGroup(
            list(CONCURRENCIES), value=[1], label="Requests at once", elem_id="concurrencies",
            info="Several of them show where speculation stops paying.",
        )  # fmt: skip
        self.max_tokens = gr.Number(
            256, label="Max tokens", precision=None, elem_id="bench-max-tokens",
            info="Answers end after so many. Published checks use 2048.",
        )  # fmt: skip

    def _details(self) -> None:
        with gr.Accordion("More", open=False, elem_id="bench-more"):
            self.seed = gr.Number(
                0, label="Seed", precision=None, elem_id="bench-seed",
                info="For temperatures above 0.",
            )  # fmt: skip
            self.top_k = gr.Slider(
                0, 20, value=0, step=1, label="Recorded probabilities", elem_id="bench-top-k",
                info="Per position of each trace; they cost speed. 0: none.",
            )  # fmt: skip
            self.bad_lines = gr.Radio(
                [("Stop and say which", "stop"), ("Leave it out", "skip")], value="stop",
                label="A line of the data that cannot be read", elem_id="bad-lines",
            )  # fmt: skip

    def _opening(self) -> None:
        with gr.Accordion("Your results", open=False, visible=self.local, elem_id="bench-mine"):
            self.mine = gr.Radio([], label="Newest first", elem_id="my-results")
            self.delete = gr.Button(
                "Delete this result", visible=False, elem_id="bench-delete", variant="stop"
            )
            with gr.Row(visible=False) as self.sure:
                self.really = gr.Button(
                    "Delete for good", elem_id="bench-really", variant="stop", min_width=100
                )
                self.keep = gr.Button("Keep it", elem_id="bench-keep", min_width=70)
        with gr.Accordion("Open a result", open=bool(self.why_not), elem_id="bench-open"):
            self.upload = gr.File(label="A result.jsonl", height=140, elem_id="bench-upload")
            self.place = gr.Textbox(
                label="Or the path of a result, or of its folder, on this machine", submit_btn="Open",
                visible=self.local, elem_id="bench-path",
            )  # fmt: skip
        with gr.Accordion("Compare with another", open=False, elem_id="bench-compare"):
            self.second = gr.Dropdown(
                [], label="The other result", elem_id="bench-second", filterable=False,
                info="Those that you have opened here, and your own.",
            )  # fmt: skip
        with gr.Accordion("Save this result", open=False, elem_id="bench-save"):
            self.formats = gr.Radio(
                [(label, key) for key, label in FORMATS.items()]
                + [("Result file (opens here again)", RESULT_FILE)],
                label="Format", elem_id="bench-formats",
            )  # fmt: skip
            self.saved = gr.Files(label="Ready to download", visible=False, elem_id="bench-saved")

    def _result(self) -> None:
        self.message = gr.HTML("", elem_id="bench-message", padding=False, visible=False)
        self.resume = gr.Button(
            "Resume this benchmark", visible=False, elem_id="bench-resume", variant="primary"
        )
        self.live = gr.Plot(label="The course so far", visible=False, elem_id="bench-live")
        self.comparison = gr.HTML("", visible=False, elem_id="bench-comparison", padding=False)
        self.result = gr.HTML(self.nothing_open, elem_id="bench-result", padding=False)
        with gr.Column(visible=False, elem_id="bench-charts") as self.charts:
            self.al_plot = gr.Plot(label="Acceptance length", elem_id="bench-al")
            self.position_plot = gr.Plot(label="Acceptance by position", elem_id="bench-positions")
            self.prompts_plot = gr.Plot(label="By prompt", elem_id="bench-prompts")
            with gr.Column(visible=False) as self.curves:
                self.curve_key = gr.Dropdown(
                    [(column(FIGURE[key]), key) for key in CURVES], value=CURVES[0],
                    label="Against concurrency", elem_id="curve-key", filterable=False,
                )  # fmt: skip
                self.curve_plot = gr.Plot(label="Concurrency", elem_id="bench-curve")
            self.setting = gr.Dropdown([], label="Course of", elem_id="bench-setting", filterable=False)
            self.course_plot = gr.Plot(label="Course", elem_id="bench-course")
