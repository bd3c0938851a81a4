"""The tab "Measure": run a benchmark, follow it, stop it, go on with it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import gradio as gr

from dflash_viz.bench.engines import FleetEngines
from dflash_viz.bench.job import BenchError
from dflash_viz.lanes import Fleet, LaneError
from dflash_viz.results import ResultError
from dflash_viz.ui.measure_form import OWN_FILE, WITH_TURNS, Form, FormError, outlook
from dflash_viz.ui.measure_layout import NO_ENGINE, NOT_LOCAL, NOT_OURS, START_ONE
from dflash_viz.ui.measure_look import Look, Source
from dflash_viz.ui.measure_results import MeasureResults
from dflash_viz.ui.measure_runner import Runner
from dflash_viz.ui.measure_words import ended_html, note_html, problem_html, progress_html
from dflash_viz.views.measured_charts import course_chart

POLL_S = 3.0
"""Between two looks at a benchmark that runs: each costs the engine a little of its time."""
NO_ACCESS = "Benchmarks are run by whoever sits at this machine."


@dataclass(frozen=True)
class Seen:
    """What a visitor's page shows of the benchmark, so that only what is new is sent."""

    name: str
    busy: bool
    stopping: bool
    done: int
    message: str
    samples: int


class Measure(MeasureResults):
    """The components of the tab and what happens when they are used.

    ``local``: the visitor sits at this machine. ``preset`` is what the fleet was made from.
    """

    def __init__(self, fleet: Fleet | None, local: bool, preset: str) -> None:
        super().__init__(local)
        no_engine = f"{NO_ENGINE} {START_ONE}" if local else NO_ENGINE
        if fleet is not None and not fleet.shares_machine:
            fleet, no_engine = None, NOT_OURS
        self.preset = preset
        self.specs = {}
        self.runner: Runner | None = None
        self.why_not = no_engine if fleet is None else "" if local else NOT_LOCAL
        if fleet is not None:
            self.specs = {name: lane.spec for name, lane in fleet.lanes.items()}
        if fleet is not None and local:
            self.runner = Runner(FleetEngines(fleet))

    def wire(self, demo: gr.Blocks) -> None:
        """Connect the components."""
        self.wire_results(demo)
        if self.runner is None:
            return
        quiet: dict[str, Any] = {"show_progress": "hidden", "api_visibility": "private"}
        at_once = {**quiet, "queue": False}
        fields: list[Any] = [
            self.dataset, self.path, self.limit, self.turns, self.lanes, self.ks, self.temperatures,
            self.concurrencies, self.max_tokens, self.seed, self.top_k, self.bad_lines,
        ]  # fmt: skip
        state = [self.seen, self.progress, self.run, self.stop, self.live, *self.shown]
        self.dataset.input(self.choose, self.dataset, [self.path, self.turns], **at_once)
        changes = [field.change for field in fields]
        gr.on([*changes, demo.load], self.explain, set(fields), self.outlook, **at_once)
        self.run.click(self.begin, {*fields, self.look}, state, **quiet, trigger_mode="once")
        self.resume.click(self.go_on, self.look, state, **quiet, trigger_mode="once")
        self.stop.click(self.halt, None, [self.stop, self.progress], **at_once)
        gr.Timer(POLL_S).tick(self.poll, [self.seen, self.look], state, **at_once)
        gr.on([demo.load, self.tab.select], self.poll, [self.seen, self.look], state, **at_once)

    def choose(self, dataset: str) -> dict[Any, Any]:
        """A data set was chosen: the fields that only some have come and go."""
        own = dataset == OWN_FILE
        info = "One question a line." if own else "Empty: it is downloaded from the Hugging Face hub."
        return {
            self.path: gr.update(visible=dataset != "builtin", info=info),
            self.turns: gr.update(visible=dataset in WITH_TURNS),
        }

    def explain(self, values: dict[Any, Any]) -> str:
        """The form has changed: what it comes to, or what is wrong with it."""
        try:
            return note_html(outlook(self._form(values), self.preset, self.specs))
        except (FormError, LaneError) as error:
            return problem_html(str(error))

    async def begin(self, values: dict[Any, Any]) -> dict[Any, Any]:
        """The run button. What was typed stays, whatever comes of it."""
        try:
            order = self._form(values).order(self.preset)
            order.settings()
            self._allowed().start(order)
        except (FormError, LaneError, BenchError) as error:
            return {self.message: self.say(problem_html(str(error)))}
        return {self.message: self.say(""), **self._state()}

    async def go_on(self, look: Look | None) -> dict[Any, Any]:
        """The resume button: the rest of the result that is shown."""
        try:
            if look is None or look.shown is None or not look.shown.name:
                raise ResultError("Open one of your own results first.")
            pair = look.shown.open().plan.pair
            if pair != self.preset:
                raise BenchError(f"This is a result of other lanes: start the app with --preset {pair}.")
            self._allowed().resume(look.shown.name)
        except (ResultError, BenchError) as error:
            return {self.message: self.say(problem_html(str(error)))}
        return {self.message: self.say(""), **self._state()}

    async def halt(self) -> dict[Any, Any]:
        """The stop button. Its end is seen by the next poll."""
        runner = self._allowed()
        self._stopping = asyncio.create_task(runner.stop())
        await asyncio.sleep(0)  # it has begun
        return {
            self.stop: gr.update(interactive=False),
            self.progress: progress_html(runner.progress, runner.so_far(), stopping=True),
        }

    async def poll(self, seen: Seen | None, look: Look | None) -> dict[Any, Any]:
        """How the benchmark stands, every few seconds; once it has ended, its result."""
        assert self.runner is not None
        now = self._now()
        if now == seen or (seen is None and not self.runner.name):
            return {self.seen: gr.skip()}
        ended = seen is not None and seen.busy and not now.busy
        if not ended or seen is None:
            return self._state()
        shown = await asyncio.to_thread(self._ended, look, seen.name)
        return {**shown, **self._state()}

    def resumable(self, source: Source, complete: bool) -> bool:
        """Whether the button to go on with a result has a meaning."""
        return bool(self.runner is not None and not self.runner.busy and source.name and not complete)

    def _ended(self, look: Look | None, name: str) -> dict[Any, Any]:
        """The result of the benchmark that has ended, and the list with it."""
        shown = self.show(look, Source(name)) if self.own(name) else {}
        return {**shown, self.mine: gr.update(choices=self.own_choices(), value=None)}

    def _allowed(self) -> Runner:
        if self.runner is None:  # the buttons are hidden, but anybody can call what is behind them
            raise BenchError(NO_ACCESS)
        return self.runner

    def _now(self) -> Seen:
        runner, result = self._allowed(), self._allowed().so_far()
        done, message = (
            (runner.progress.done, runner.progress.message) if runner.progress is not None else (0, "")
        )
        samples = 0 if result is None else len(result.samples)
        return Seen(runner.name, runner.busy, runner.stopping, done, message, samples)

    def _state(self) -> dict[Any, Any]:
        runner = self._allowed()
        result, busy = runner.so_far(), runner.busy
        shown: dict[Any, Any] = {
            self.seen: self._now(),
            self.progress: progress_html(runner.progress, result, runner.stopping)
            if busy
            else ended_html(runner.progress, runner.problem),
            self.run: gr.update(interactive=not busy),
            self.stop: gr.update(interactive=busy and not runner.stopping),
            self.live: gr.update(visible=False),
        }
        setting = None if runner.progress is None else runner.progress.setting
        if busy:
            shown[self.resume] = gr.update(visible=False)
            if result is not None and any(sample.setting == setting for sample in result.samples):
                shown[self.live] = gr.update(value=course_chart(result, setting or 0), visible=True)
        return shown

    def _form(self, values: dict[Any, Any]) -> Form:
        return Form(
            values[self.dataset],
            values[self.path] or "",
            values[self.limit],
            values[self.turns],
            [name for name in self.specs if name in values[self.lanes]],  # in the order of the page
            values[self.ks] or "",
            values[self.temperatures] or "",
            values[self.concurrencies],
            values[self.max_tokens],
            values[self.seed],
            values[self.top_k],
            values[self.bad_lines],
        )
