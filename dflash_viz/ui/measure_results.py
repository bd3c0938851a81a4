"""Results in the tab "Measure": open, examine, compare, save, delete."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import gradio as gr

from dflash_viz.metrics.measured.expectations import (
    ExpectationError,
    Verdict,
    judge,
    read_expectations,
)
from dflash_viz.results import FILE_NAME, Result, ResultError, labels, write_result
from dflash_viz.ui.measure_layout import RESULT_FILE, MeasureLayout
from dflash_viz.ui.measure_look import Look, Source, source_of_path
from dflash_viz.ui.measure_words import note_html, problem_html, result_label, summary_label
from dflash_viz.ui.results import ResultSummary, delete_result, recent, trace_link
from dflash_viz.views.measured_charts import (
    al_chart,
    concurrency_chart,
    course_chart,
    position_chart,
    prompts_chart,
)
from dflash_viz.views.measured_files import write_measured
from dflash_viz.views.measured_page import compare_html, result_html

OPEN_FIRST = "Open a result first."
PATHS_ARE_LOCAL = "Paths are for whoever runs this app: upload the file instead."


class MeasureResults(MeasureLayout):
    """What happens when results are opened and used."""

    def __init__(self, local: bool) -> None:
        self.local = local
        self._saved: dict[str, tempfile.TemporaryDirectory[str]] = {}

    def wire_results(self, demo: gr.Blocks) -> None:
        """Connect the components that need no engine."""
        quiet: dict[str, Any] = {"show_progress": "minimal", "api_visibility": "private"}
        latest = {**quiet, "trigger_mode": "always_last"}  # of several clicks the last one counts
        self.shown = [
            self.look, self.message, self.result, self.resume, self.second, self.comparison, self.saved,
            self.formats, self.delete, self.sure, self.mine, self.setting, self.curves, self.charts,
        ]  # fmt: skip
        charts = [self.al_plot, self.position_plot, self.curve_plot, self.course_plot, self.prompts_plot]
        chosen = [self.look, self.setting, self.curve_key]
        self.mine.input(self.open_own, [self.look, self.mine], self.shown, **latest)
        self.upload.upload(self.open_file, [self.look, self.upload], self.shown, **latest)
        self.place.submit(self.open_path, [self.look, self.place], self.shown, **latest)
        self.tab.select(self.enter, self.look, self.shown, **quiet)
        # The figures are on the page before the charts are drawn.
        self.look.change(self.draw, chosen, charts, **latest)
        self.setting.input(self.draw_setting, chosen, self.course_plot, **latest)
        self.curve_key.input(self.draw_curve, chosen, self.curve_plot, **latest)
        self.second.input(self.compare, [self.look, self.second], [self.comparison, self.message], **latest)
        self.formats.input(self.save, [self.look, self.formats], [self.message, self.saved], **latest)
        self.delete.click(lambda: gr.update(visible=True), None, self.sure, **quiet)
        self.keep.click(lambda: gr.update(visible=False), None, self.sure, **quiet)
        self.really.click(self.remove, [self.look, self.mine], self.shown, **quiet)
        demo.unload(self.leave)

    def open_own(self, look: Look | None, name: str) -> dict[Any, Any]:
        """One of the visitor's own results was chosen; these can be deleted, damaged ones too."""
        return {**self.show(look, Source(name)), self.delete: gr.update(visible=True)}

    def open_file(self, look: Look | None, file: str) -> dict[Any, Any]:
        """A file was uploaded."""
        return {**self.show(look, Source(file=Path(file))), self.mine: gr.update(value=None)}

    def open_path(self, look: Look | None, text: str) -> dict[Any, Any]:
        """A path was typed."""
        if not self.local:  # the box is hidden, but anybody can call what is behind it
            return {self.message: self.say(problem_html(PATHS_ARE_LOCAL))}
        try:
            return {**self.show(look, source_of_path(text)), self.mine: gr.update(value=None)}
        except ResultError as error:
            return {self.message: self.say(problem_html(str(error)))}

    def enter(self, look: Look | None) -> dict[Any, Any]:
        """The tab was opened: its list is brought up to date, and the newest result is shown."""
        choices = self.own_choices()
        shown: dict[Any, Any] = {self.second: gr.update(choices=self._others(look or Look()))}
        whole = [one for one in self._own() if not one.problem]
        if (look is None or look.shown is None) and whole:
            shown = self.open_own(look, whole[0].id)
            return {**shown, self.mine: gr.update(choices=choices, value=whole[0].id)}
        return {**shown, self.mine: gr.update(choices=choices)}

    def show(self, look: Look | None, source: Source) -> dict[Any, Any]:
        """Put a result on the page; whatever cannot be opened leaves the one that is there."""
        try:
            result = source.open()
            page = result_html(result, self._verdicts(result), self._links(source))
        except (ResultError, ExpectationError) as error:
            return {self.message: self.say(problem_html(str(error))), self.sure: gr.update(visible=False)}
        look = (look or Look()).opened(result_label(result), source)
        names = [(name, number) for number, name in enumerate(labels(result.plan.settings))]
        several = len({setting.concurrency for setting in result.plan.settings}) > 1
        return {
            self.look: look,
            self.message: self.say(""),
            self.result: page,
            self.resume: gr.update(visible=self.resumable(source, result.complete)),
            self.second: gr.update(choices=self._others(look), value=None),
            self.comparison: gr.update(value="", visible=False),
            self.saved: gr.update(value=None, visible=False),
            self.formats: None,
            self.delete: gr.update(visible=False),
            self.sure: gr.update(visible=False),
            self.setting: gr.update(choices=names, value=0),
            self.curves: gr.update(visible=several),
            self.charts: gr.update(visible=True),
        }

    def draw(self, look: Look | None, setting: int | None, key: str) -> dict[Any, Any]:
        """Another result is shown: its charts."""
        if (result := self._shown(look)) is None:
            return {self.al_plot: None}
        drawn = {
            self.al_plot: al_chart(result), self.position_plot: position_chart(result),
            self.prompts_plot: prompts_chart(result),
        }  # fmt: skip
        return {**drawn, **self._course(result, setting), **self._curve(result, key)}

    def draw_setting(self, look: Look | None, setting: int | None, key: str) -> dict[Any, Any]:
        """Another setting is looked at."""
        result = self._shown(look)
        return {self.course_plot: gr.skip()} if result is None else self._course(result, setting)

    def draw_curve(self, look: Look | None, setting: int | None, key: str) -> dict[Any, Any]:
        """Another figure is to be seen against concurrency."""
        result = self._shown(look)
        return {self.curve_plot: gr.skip()} if result is None else self._curve(result, key)

    def compare(self, look: Look | None, other: str | None) -> dict[Any, Any]:
        """A second result was chosen."""
        try:
            first, second = self._shown(look), self._source(look, other)
            if first is None or second is None:
                return {self.comparison: gr.update(visible=False)}
            html = compare_html(first, second.open())
        except ResultError as error:
            return {self.message: self.say(problem_html(str(error)))}
        return {self.comparison: gr.update(value=html, visible=True), self.message: self.say("")}

    def save(self, look: Look | None, form: str, request: gr.Request) -> dict[Any, Any]:
        """Write the result that is shown, in the chosen format."""
        self.leave(request)
        try:
            if look is None or look.shown is None:
                raise ResultError(OPEN_FIRST)
            files = self._write(look.shown.open(), form, str(request.session_hash))
        except (ValueError, OSError) as error:
            return {self.message: self.say(problem_html(str(error))), self.saved: gr.update(visible=False)}
        return {
            self.message: self.say(""),
            self.saved: gr.update(value=list(map(str, files)), visible=True),
        }

    def leave(self, request: gr.Request) -> None:
        """Nobody downloads what this visit saved before: it has saved something else, or is over."""
        if (folder := self._saved.pop(str(request.session_hash), None)) is not None:
            folder.cleanup()

    def remove(self, look: Look | None, name: str | None) -> dict[Any, Any]:
        """Delete the chosen one of the visitor's own results, for good."""
        source, look = Source(name or ""), look or Look()
        hidden = {self.delete: gr.update(visible=False), self.sure: gr.update(visible=False)}
        try:
            if not self.local:
                raise ResultError("Results are deleted by whoever runs this app.")
            delete_result(source.name)
        except ResultError as error:
            return {self.message: self.say(problem_html(str(error))), **hidden}
        gone = look.shown == source
        empty = {
            self.result: self.nothing_open, self.charts: gr.update(visible=False),
            self.resume: gr.update(visible=False), self.comparison: gr.update(value="", visible=False),
        }  # fmt: skip
        look = look.without(source)
        return {
            self.look: look,
            self.message: self.say(note_html("The result is deleted.")),
            self.mine: gr.update(choices=self.own_choices(), value=None),
            self.second: gr.update(choices=self._others(look), value=None),
            **(empty if gone else {}),
            **hidden,
        }

    def own(self, name: str) -> bool:
        """Whether this is the id of a result that is kept."""
        return any(one.id == name for one in recent())

    def own_choices(self) -> list[tuple[str, str]]:
        """The visitor's results, newest first, with their ids."""
        return [(summary_label(one), one.id) for one in self._own()]

    def resumable(self, source: Source, complete: bool) -> bool:
        """Whether this result can be gone on with: not where nothing can be measured."""
        return False

    @staticmethod
    def say(html: str) -> Any:
        """A message above the result; none when it is empty."""
        return gr.update(value=html, visible=bool(html))

    def _own(self) -> list[ResultSummary]:
        return recent() if self.local else []

    def _others(self, look: Look) -> list[tuple[str, str]]:
        """What the shown result can be compared with: what was opened before, and the visitor's own."""
        pile = [(label, str(n)) for n, (label, one) in enumerate(look.pile) if one != look.shown]
        there = {source.name for _, source in look.pile}
        own = [(summary_label(one), one.id) for one in self._own() if not one.problem and one.id not in there]
        return pile + own

    def _source(self, look: Look | None, key: str | None) -> Source | None:
        """What stands behind a choice, which comes from the browser."""
        if not key or look is None:
            return None
        if not key.isdecimal():
            return Source(key)
        number = int(key)
        return look.pile[number][1] if number < len(look.pile) else None

    @staticmethod
    def _shown(look: Look | None) -> Result | None:
        if look is None or look.shown is None:
            return None
        try:
            return look.shown.open()
        except ResultError:  # deleted meanwhile, in another window
            return None

    @staticmethod
    def _verdicts(result: Result) -> Sequence[Verdict]:
        return judge(result, read_expectations())

    @staticmethod
    def _links(source: Source) -> Callable[[str], str] | None:
        """Links to traces, of the app's own results only: nothing else has an address here."""
        return partial(trace_link, source.name) if source.name else None

    def _course(self, result: Result, setting: int | None) -> dict[Any, Any]:
        number = setting if setting is not None and 0 <= setting < len(result.plan.settings) else 0
        return {self.course_plot: course_chart(result, number)}

    def _curve(self, result: Result, key: str) -> dict[Any, Any]:
        return {self.curve_plot: concurrency_chart(result, key)}

    def _write(self, result: Result, form: str, visitor: str) -> list[Path]:
        folder = tempfile.TemporaryDirectory(prefix="dflash-viz-")
        self._saved[visitor] = folder
        if form != RESULT_FILE:
            return write_measured(result, self._verdicts(result), form, Path(folder.name))
        write_result(result, Path(folder.name) / FILE_NAME)
        return [Path(folder.name) / FILE_NAME]
