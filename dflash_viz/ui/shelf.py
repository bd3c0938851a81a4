"""The tab of recorded runs: open, examine, compare, save, delete."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

import gradio as gr

from dflash_viz.trace import PLAIN, Run, Trace, TraceError
from dflash_viz.trace.reader import collector_paused
from dflash_viz.ui.library import Library, Place, label_of, place_of_path
from dflash_viz.ui.playback import run_document
from dflash_viz.ui.runs import RunSummary, delete_run, recent
from dflash_viz.ui.saving import EXPORTS
from dflash_viz.ui.stage import make_stage
from dflash_viz.views.calibration_page import calibration_html
from dflash_viz.views.diagnosis_page import diagnosis_html
from dflash_viz.views.diff_page import diff_html

RECORDED = "recorded"
MAX_PILE = 8
"""Runs of this visit that a comparison offers."""

THIS, ALL_GALLERY, ALL_OWN = "This run", "The whole gallery", "All your runs"
NOTHING_OPEN = "Open a run first."
Asked = tuple[str, ...]
NO_DRAFTS = "<p>Nothing was drafted in this run.</p>"


@dataclass(frozen=True)
class Opened:
    """A run that was opened: its title, where it lies, its lanes."""

    title: str
    place: Place
    lanes: tuple[str, ...]


@dataclass(frozen=True)
class Visit:
    """What one visitor has open: the run that is shown, and the latest ones for comparisons."""

    shown: Place | None = None
    pile: tuple[Opened, ...] = ()

    def opened(self, run: Run, place: Place) -> Visit:
        """The visit once a run is shown."""
        lanes = tuple(trace.header.lane for trace in run.traces)
        others = [one for one in self.pile if one.place != place]
        return Visit(place, (Opened(run.title, place, lanes), *others)[:MAX_PILE])

    def without(self, place: Place) -> Visit:
        """The visit once a run is deleted."""
        shown = None if self.shown == place else self.shown
        return Visit(shown, tuple(one for one in self.pile if one.place != place))

    def choices(self) -> list[tuple[str, str]]:
        """Every trace of the runs that were opened, with the key that stands for it."""
        return [
            (f"{one.title} · {lane}", _key(number, place))
            for number, one in enumerate(self.pile)
            for place, lane in enumerate(one.lanes)
        ]


class Shelf:
    """The components of the tab and what happens when they are used.

    ``local``: the visitor sits at this machine, so its paths and everybody's runs are theirs.
    """

    def __init__(self, library: Library, local: bool) -> None:
        self.library = library
        self.local = local
        self._saved: dict[str, tempfile.TemporaryDirectory[str]] = {}

    def lay_out(self) -> None:
        """Create the components, inside a ``gr.Tabs``."""
        with gr.Tab("Recorded", id=RECORDED) as self.tab, gr.Row(elem_classes="dv-shelf"):
            self.visit = gr.State(Visit())
            with gr.Column(scale=4, min_width=260, elem_classes="dv-shelf-choice"):
                self._choices()
            with gr.Column(scale=7, min_width=320, elem_classes="dv-stage"):
                self.message = gr.HTML("", elem_id="shelf-message", padding=False, visible=False)
                self.stage = make_stage("recorded-stage")
                self._examination()

    def _choices(self) -> None:
        with gr.Accordion("Gallery", open=True, elem_id="gallery"):
            self.gallery = gr.Radio(
                [(run.title, address) for address, run in self.library.gallery.items()],
                label="Real runs of the embedded lanes, recorded earlier", elem_id="gallery-runs",
            )  # fmt: skip
        with gr.Accordion("Your runs", open=False, elem_id="mine"):
            self.mine = gr.Radio([], label="Kept as they ran, newest first", elem_id="my-runs")
            self.delete = gr.Button("Delete this run", visible=False, elem_id="delete", variant="stop")
            with gr.Row(visible=False) as self.sure:
                self.really = gr.Button("Delete for good", elem_id="really", variant="stop", min_width=100)
                self.keep = gr.Button("Keep it", elem_id="keep", min_width=70)
        with gr.Accordion("Open a file", open=False, elem_id="open"):
            gr.Markdown(
                "Traces of one prompt (`.jsonl`, `.jsonl.gz`), a file a lane; each up to 50 MB unpacked and "
                "200,000 steps."
            )
            self.upload = gr.File(label="Trace files", file_count="multiple", height=140, elem_id="upload")
            self.path = gr.Textbox(
                label="Or the path of a trace, or of a run's folder, on this machine",
                submit_btn="Open", visible=self.local, elem_id="path",
            )  # fmt: skip
        with gr.Accordion("Save this run", open=False, elem_id="save"):
            self.formats = gr.Radio(
                [(export.label, key) for key, export in EXPORTS.items()], label="Format", elem_id="formats",
                info="Traces open here again; the others are for tools of your own.",
            )  # fmt: skip
            self.saved = gr.Files(label="Ready to download", visible=False, elem_id="saved")

    def _examination(self) -> None:
        with gr.Accordion("Diagnosis: is something wrong?", open=False, elem_id="diagnosis"):
            self.scope = gr.Radio(
                (THIS, ALL_GALLERY, ALL_OWN), value=THIS, label="Look at (here and under Confidence)",
                elem_id="scope",
            )  # fmt: skip
            self.findings = gr.HTML(NOTHING_OPEN, elem_id="findings")
        with gr.Accordion("Confidence: can the drafter be believed, and which K?", open=False, elem_id="k"):
            self.calibration = gr.HTML(NOTHING_OPEN, elem_id="calibration")
        with gr.Accordion("Compare two traces of one prompt", open=False, elem_id="compare"):
            with gr.Row():
                self.first = gr.Dropdown([], label="A", elem_id="first", min_width=200)
                self.second = gr.Dropdown([], label="B", elem_id="second", min_width=200)
            self.difference = gr.HTML(NOTHING_OPEN, elem_id="difference")

    def wire(self, demo: gr.Blocks, tabs: gr.Tabs, asked: gr.State) -> None:
        """Connect the components; ``asked`` holds the addresses of the runs that the visitor made."""
        quiet: dict[str, Any] = {"show_progress": "minimal", "api_visibility": "private"}
        # Of several clicks while a long run opens, the last one counts.
        latest = {**quiet, "trigger_mode": "always_last"}
        self.tabs = tabs
        shown = [
            self.visit, self.message, self.stage, self.first, self.second, self.saved, self.formats,
            self.delete, self.sure, self.gallery, self.mine,
        ]  # fmt: skip
        examined = [self.findings, self.calibration]
        compared = [self.visit, self.first, self.second]
        self.gallery.input(self.open_gallery, [self.visit, self.gallery], shown, **latest)
        self.mine.input(self.open_own, [self.visit, self.mine], shown, **latest)
        self.upload.upload(self.open_files, [self.visit, self.upload], shown, **latest)
        self.path.submit(self.open_path, [self.visit, self.path], shown, **latest)
        self.tab.select(self.enter, [self.visit, asked], shown, **quiet)
        demo.load(self.follow_link, self.visit, [*shown, tabs], **quiet)
        # A long run is on the stage before everything that can be said of it is known.
        self.visit.change(self.examine, [self.visit, self.scope, asked], examined, **latest).then(
            self.compare, compared, self.difference, **latest
        )
        self.scope.input(self.examine, [self.visit, self.scope, asked], examined, **latest)
        for side in (self.first, self.second):
            side.input(self.compare, compared, self.difference, **latest)
        self.formats.input(self.save, [self.visit, self.formats], [self.message, self.saved], **quiet)
        self.delete.click(lambda: gr.update(visible=True), None, self.sure, **quiet)
        self.keep.click(lambda: gr.update(visible=False), None, self.sure, **quiet)
        self.really.click(self.remove, [self.visit, asked, self.mine], shown, **quiet)
        demo.unload(self.leave)

    def open_gallery(self, visit: Visit, address: str) -> dict[Any, Any]:
        """A run of the gallery was chosen."""
        return {**self._show(visit, Place(address)), self.mine: gr.update(value=None)}

    def open_own(self, visit: Visit, address: str) -> dict[Any, Any]:
        """One of the visitor's own runs was chosen; these can be deleted, damaged ones too."""
        shown = self._show(visit, Place(address))
        return {**shown, self.gallery: gr.update(value=None), self.delete: gr.update(visible=True)}

    def open_files(self, visit: Visit, files: list[str]) -> dict[Any, Any]:
        """Files were uploaded."""
        return self._show(visit, Place(files=tuple(map(Path, files))))

    def open_path(self, visit: Visit, text: str) -> dict[Any, Any]:
        """A path was typed."""
        if not self.local:  # the box is hidden, but anybody can call what is behind it
            return {
                self.message: _say(_problem("Paths are for whoever runs this app: upload the file instead."))
            }
        try:
            return self._show(visit, place_of_path(text))
        except TraceError as error:
            return {self.message: _say(_problem(str(error)))}

    def enter(self, visit: Visit, asked: Asked) -> dict[Any, Any]:
        """The tab was opened: its list is brought up to date, and it is never empty."""
        mine = {self.mine: gr.update(choices=self._own_choices(asked))}
        return mine if visit.shown is not None else {**self._show_first(visit), **mine}

    def follow_link(self, visit: Visit, request: gr.Request) -> dict[Any, Any]:
        """The page was opened, perhaps by a link to a run."""
        address = request.query_params.get("run", "")
        if not address:
            return {self.message: _say("")}
        shown = self._show(visit, Place(address))
        if self.visit not in shown:  # it leads nowhere: say so beside something to look at
            shown = {**self._show_first(visit), **shown}
        elif address in self.library.gallery:
            shown[self.gallery] = address
        return {**shown, self.tabs: gr.update(selected=RECORDED)}

    def _show_first(self, visit: Visit) -> dict[Any, Any]:
        """The gallery's first run, if there is one."""
        if not self.library.gallery:
            return {}
        address = next(iter(self.library.gallery))
        return {**self._show(visit, Place(address)), self.gallery: address}

    def _show(self, visit: Visit, place: Place) -> dict[Any, Any]:
        """Put a run on the stage; whatever cannot be opened leaves the one that is there."""
        try:
            with collector_paused():
                run = self.library.open(place)
                document = run_document(run)
        except TraceError as error:
            return {self.message: _say(_problem(str(error)))}
        visit = visit.opened(run, place)
        a, b = _pair(run)
        choices = visit.choices()
        return {
            self.visit: visit,
            self.message: _say(""),
            self.stage: document,
            self.first: gr.update(choices=choices, value=_key(0, a)),
            self.second: gr.update(choices=choices, value=_key(0, b)),
            self.saved: gr.update(value=None, visible=False),
            self.formats: None,
            self.delete: gr.update(visible=False),
            self.sure: gr.update(visible=False),
        }

    def examine(self, visit: Visit, scope: str, asked: Asked) -> dict[Any, Any]:
        """Another run, or set of runs, is to be judged."""
        if visit.shown is None:
            return {self.findings: NOTHING_OPEN, self.calibration: NOTHING_OPEN}
        try:
            return self._examined(self.library.open(visit.shown), scope, asked)
        except TraceError as error:
            return {self.findings: _problem(str(error)), self.calibration: _problem(str(error))}

    def _examined(self, run: Run, scope: str, asked: Asked) -> dict[Any, Any]:
        runs = self._in_scope(run, scope, asked)
        traces = [trace for one in runs for trace in one.traces]
        plain = [trace for trace in traces if _is_plain(trace)]
        lanes = dict.fromkeys(trace.header.lane for trace in run.traces if not _is_plain(trace))
        sets = [[trace for trace in traces if trace.header.lane == lane] for lane in lanes]
        return {
            self.findings: "".join(diagnosis_html(one, plain) for one in sets) or NO_DRAFTS,
            self.calibration: "".join(calibration_html(one, plain) for one in sets) or NO_DRAFTS,
        }

    def _in_scope(self, run: Run, scope: str, asked: Asked) -> list[Run]:
        if scope == ALL_GALLERY:
            return list(self.library.gallery.values())
        if scope == ALL_OWN:
            own = [one for one in self._own(asked) if not one.problem]
            return [self.library.open(Place(one.id)) for one in own]
        return [run]

    def compare(self, visit: Visit, first: str | None, second: str | None) -> str:
        """Two traces were chosen."""
        try:
            (one, a), (other, b) = (self._chosen(visit, key) for key in (first, second))
            run = self.library.open(one)
            return diff_html(run.traces[a], (run if other == one else self.library.open(other)).traces[b])
        except (ValueError, IndexError):
            return _note("Choose two traces.")
        except TraceError as error:
            return _problem(str(error))

    def _chosen(self, visit: Visit, key: str | None) -> tuple[Place, int]:
        """The run and the number of the trace behind a choice, which comes from the browser."""
        number, lane = map(int, (key or "").split("/"))
        return visit.pile[number].place, lane

    def save(self, visit: Visit, form: str, request: gr.Request) -> dict[Any, Any]:
        """Write the run that is shown, in the chosen format."""
        self.leave(request)
        try:
            if visit.shown is None:
                raise TraceError(NOTHING_OPEN)
            run = self.library.open(visit.shown)
            folder = tempfile.TemporaryDirectory(prefix="dflash-viz-")
            self._saved[str(request.session_hash)] = folder
            files = EXPORTS[form].write(run.traces, Path(folder.name))
        except (TraceError, OSError) as error:
            return {self.message: _say(_problem(str(error))), self.saved: gr.update(visible=False)}
        return {self.message: _say(""), self.saved: gr.update(value=list(map(str, files)), visible=True)}

    def leave(self, request: gr.Request) -> None:
        """Nobody downloads what this visit saved before: it has saved something else, or is over."""
        if (folder := self._saved.pop(str(request.session_hash), None)) is not None:
            folder.cleanup()

    def remove(self, visit: Visit, asked: Asked, address: str | None) -> dict[Any, Any]:
        """Delete the chosen one of the visitor's own runs, for good."""
        place = Place(address or "")
        hidden = {self.delete: gr.update(visible=False), self.sure: gr.update(visible=False)}
        try:
            if place.address not in {one.id for one in self._own(asked)}:
                raise TraceError("Only a run of your own can be deleted: choose it under Your runs.")
            delete_run(place.address)
        except TraceError as error:
            return {self.message: _say(_problem(str(error))), **hidden}
        gone = {self.stage: ""} if visit.shown == place else {}
        visit = visit.without(place)
        choices = gr.update(choices=visit.choices(), value=None)
        return {
            self.visit: visit,
            self.message: _say(_note("The run is deleted.")),
            self.mine: gr.update(choices=self._own_choices(asked), value=None),
            self.first: choices,
            self.second: choices,
            **gone,
            **hidden,
        }

    def _own(self, asked: Asked) -> list[RunSummary]:
        """The visitor's runs: all of this machine's, or those of this visit."""
        return [one for one in recent() if self.local or one.id in asked]

    def _own_choices(self, asked: Asked) -> list[tuple[str, str]]:
        return [(label_of(one), one.id) for one in self._own(asked)]


def _is_plain(trace: Trace) -> bool:
    return trace.header.fingerprint.method == PLAIN


def _pair(run: Run) -> tuple[int, int]:
    """The two traces to compare first: no speculation, and what it is there to be compared with."""
    methods = [trace.header.fingerprint.method for trace in run.traces]
    plain = methods.index(PLAIN) if PLAIN in methods else len(methods) - 1
    return plain, next((i for i, method in enumerate(methods) if method != PLAIN), 0)


def _key(number: int, lane: int) -> str:
    return f"{number}/{lane}"


def _say(html: str) -> Any:
    return gr.update(value=html, visible=bool(html))


def _problem(text: str) -> str:
    return f'<div class="dv-shelf-problem" role="alert">⚠ {escape(text)}</div>'


def _note(text: str) -> str:
    return f'<div class="dv-shelf-note" role="status">{escape(text)}</div>'
