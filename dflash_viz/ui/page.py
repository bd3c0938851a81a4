"""The page: what happens when somebody uses it."""

from __future__ import annotations

import contextlib
import time
from collections.abc import AsyncGenerator, Iterator, Sequence
from functools import partial
from html import escape
from typing import Any

import gradio as gr
import msgspec

from dflash_viz.lanes import Fleet, LaneFace
from dflash_viz.space import Limits
from dflash_viz.trace import Run, Sampling
from dflash_viz.ui.api import make_stream
from dflash_viz.ui.chat import Exchange, Frame, Question, to_messages
from dflash_viz.ui.layout import TITLE, Layout
from dflash_viz.ui.library import Library
from dflash_viz.ui.measure import Measure
from dflash_viz.ui.playback import run_document
from dflash_viz.ui.shelf import Shelf
from dflash_viz.ui.visitors import Visitors
from dflash_viz.views.engine_status import Chip, chips_html
from dflash_viz.views.lane_style import LaneStyle, lane_styles

CHAT_EVERY_S = 0.25
DEFAULT_PRESET = "embedded-cpu"

WELCOME_NOTE = "A real run, recorded earlier. Ask something to see a live one."
NO_ENGINE = "No engine runs here: this page shows recorded runs only."
DEFAULT_LIMITS = Limits()
STILL_RUNNING = "Your last question is still being answered. Wait for its end, or stop it."


class Page(Layout):
    """Wires the lanes to the components; holds the questions that run, by browser session."""

    def __init__(
        self,
        fleet: Fleet | None,
        gallery: Sequence[Run],
        local: bool = True,
        preset: str = DEFAULT_PRESET,
        limits: Limits = DEFAULT_LIMITS,
    ) -> None:
        self.fleet = fleet
        self.local = local
        self.limits = limits
        self.visitors = Visitors(limits)
        self.shelf = Shelf(Library(gallery), local)
        self.measure = Measure(fleet, local, preset)
        self.lanes: dict[str, LaneFace] = fleet.lanes if fleet is not None else {}
        self.greeting = run_document(_greeting(gallery[0], fleet is not None)) if gallery else ""
        self._running: dict[str, Question] = {}
        self._dropped: dict[str, Question] = {}  # by Clear, until the next question

    @property
    def styles(self) -> dict[str, LaneStyle]:
        """How each lane looks. A server elsewhere tells its method only when it has answered."""
        return lane_styles([(name, lane.spec.method) for name, lane in self.lanes.items()])

    def build(self) -> gr.Blocks:
        """Create the components and their events."""
        demo = gr.Blocks(title=TITLE, fill_width=True, analytics_enabled=False)
        with demo:
            titles = {name: style.title for name, style in self.styles.items()}
            self.lay_out(
                titles, self._chips(), apart=self.fleet is not None and not self.fleet.shares_machine
            )
            self._events(demo)
            self.shelf.wire(demo, self.tabs, self.asked)
            self.measure.wire(demo)
            if self.fleet is not None:
                stream = make_stream(self.fleet, None if self.local else self.visitors)
                gr.events.api(stream, api_name="run", concurrency_limit=None)
        return demo

    def _events(self, demo: gr.Blocks) -> None:
        quiet: dict[str, Any] = {"queue": False, "show_progress": "hidden", "api_visibility": "private"}
        inputs: set[Any] = {
            self.box, self.conversation, self.chosen, self.contended, self.system, self.temperature,
            self.top_p, self.max_tokens, self.seed, self.top_k, self.asked,
        }  # fmt: skip
        outputs = [
            self.conversation, self.chatbot, self.box, self.stage, self.send, self.stop, self.again,
            self.files, self.seed, self.asked,
        ]  # fmt: skip
        # Who waits for the machine, or finds too many waiting, is told so; gradio's own queue shows nothing.
        running: dict[str, Any] = {
            "concurrency_limit": None, "show_progress": "hidden", "trigger_mode": "once",
            "api_visibility": "private",
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
        demo.load(self.poll, None, states, **quiet)  # the page as it was made says what was then
        demo.unload(self.leave)

    async def ask(self, values: dict[Any, Any], request: gr.Request) -> AsyncGenerator[dict[Any, Any]]:
        """Answer one question; yields updates of the components until all lanes have ended."""
        text = (values[self.box] or "").strip()
        key = str(request.session_hash)
        if self._refuses(text, values, key):
            yield {self.stage: gr.skip()}
            return
        with self.visitors.asks(key):
            yield {self.box: "", **self._busy()}
            async with contextlib.aclosing(self._answer(text, values, key)) as updates:
                async for update in updates:
                    no_answer = update.get(self.conversation) is values[self.conversation]
                    yield {**update, self.box: text} if no_answer else update

    async def _answer(
        self, text: str, values: dict[Any, Any], key: str, kept: list[Exchange] | None = None
    ) -> AsyncGenerator[dict[Any, Any]]:
        """Run a question behind the conversation; ``kept`` is the one to go back to when no lane
        answers, if that is another."""
        conversation = values[self.conversation]
        self._running[key] = question = self._question(text, values)
        self._dropped.pop(key, None)
        yield {
            self.asked: (*values[self.asked], question.run.id),
            self.chatbot: _shown(conversation, text), **self._busy(),
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
            int(values[self.top_k]),
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
                    # Cleared: what still comes belongs to nobody. An update that was on its way then may
                    # have arrived behind the clearing: clear once more, unless there is a newer question.
                    if self._dropped.get(key) is question:
                        cleared = self._cleared()
                        del cleared[self.box]  # something may be typed there by now
                        yield cleared
                    return
                # The chat draws a message anew each time: it follows the stage in larger strides.
                speak = time.monotonic() - said > CHAT_EVERY_S
                said = time.monotonic() if speak else said
                shown: dict[Any, Any] = {self.stage: frame.document, **self._busy()}
                if frame.finished:
                    del self._running[key]  # the next may be asked as soon as the page knows
                    shown |= self._finish(frame, question, kept)
                elif speak:
                    shown[self.chatbot] = _shown(question.earlier, text, frame.answer)
                yield shown

    def _busy(self) -> dict[Any, Any]:
        """The buttons while a question runs. Every update says them again, and the last one says all that
        is to stay: gradio's page patches each update into the objects of the one before, which it may not
        have read yet, so that what only one of two quick updates says can be lost."""
        return {self.send: _off(), self.stop: _on(), self.again: _off(), self.files: _hidden()}

    def _finish(self, frame: Frame, question: Question, kept: list[Exchange]) -> dict[Any, Any]:
        turns = kept if frame.exchange is None else [*question.earlier, frame.exchange]
        return {
            self.chatbot: _shown(turns), self.conversation: turns, self.send: _on(), self.stop: _off(),
            self.again: _interactive(bool(turns)),
            self.files: _files(turns[-1]) if turns else _hidden(),
        }  # fmt: skip

    def _refuses(self, text: str, values: dict[Any, Any], key: str) -> bool:
        """Whether a question cannot be asked. The reason is said beside what is on show, which stays."""
        problem = next(self._problems(text, values, key), "")
        if problem:
            gr.Warning(problem)
        return bool(problem)

    def _problems(self, text: str, values: dict[Any, Any], key: str) -> Iterator[str]:
        """Why a question cannot be asked, and what to do about it."""
        if self.limits.one_run_per_visitor and key in self._running:
            yield STILL_RUNNING
        if not text:
            yield "The question is empty. Type something, or choose an example."
        most = self.limits.prompt_characters
        for name, written in (("question", text), ("system prompt", values.get(self.system) or "")):
            if len(written) > most:
                yield f"The {name} is longer than {most:,} characters. Shorten it."
        if self.fleet is None:
            yield f"{NO_ENGINE} Start the app where vLLM is installed to ask questions."
        if full := self.visitors.full():
            yield f"{full} Try again in a minute."
        if not values[self.chosen]:
            yield "No lane is chosen. Choose at least one under Settings."

    async def regenerate(self, values: dict[Any, Any], request: gr.Request) -> AsyncGenerator[dict[Any, Any]]:
        """Ask the last question again. Above temperature 0 with the next seed, or the draws, and with
        them the answers, would be the same."""
        conversation, seed = values[self.conversation], values[self.seed]
        key = str(request.session_hash)
        if self._refuses(conversation[-1].question, values, key):
            yield {self.stage: gr.skip()}
            return
        if values[self.temperature] > 0 and seed is not None:
            seed = int(seed) + 1
        again = {**values, self.conversation: conversation[:-1], self.seed: seed}
        answer = self._answer(conversation[-1].question, again, key, conversation)
        with self.visitors.asks(key):
            async with contextlib.aclosing(answer) as updates:
                async for update in updates:
                    yield {self.seed: seed, **update}

    async def halt(self, request: gr.Request) -> None:
        """The stop button: end this browser's question at once."""
        if (question := self._running.get(str(request.session_hash))) is not None:
            await question.stop()

    async def reset(self, request: gr.Request) -> dict[Any, Any]:
        """The clear button: stop what runs and start over."""
        key = str(request.session_hash)
        if (question := self._running.pop(key, None)) is not None:
            self._dropped[key] = question
            await question.stop()
        return self._cleared()

    def _cleared(self) -> dict[Any, Any]:
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
        self._dropped.pop(str(request.session_hash), None)

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
        styles, note = self.styles, self.fleet.room.why if self.fleet is not None else ""
        return chips_html([_chip(lane, styles[name]) for name, lane in self.lanes.items()], note)


def _greeting(run: Run, engine: bool) -> Run:
    """The run that stands on the live stage until somebody asks; no address, or a reload would leave it."""
    return msgspec.structs.replace(run, address="", note=WELCOME_NOTE if engine else run.note)


def _chip(lane: LaneFace, style: LaneStyle) -> Chip:
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


def create_app(
    fleet: Fleet | None,
    gallery: Sequence[Run],
    local: bool = True,
    preset: str = DEFAULT_PRESET,
    limits: Limits = DEFAULT_LIMITS,
) -> gr.Blocks:
    """Build the app around a fleet (None: no engine) and the recorded gallery, whose first run greets.

    ``local``: whoever uses the page sits at this machine. Only they may open its files by their path,
    run benchmarks, and see the runs of every visit; others see those of their own. ``preset`` is what
    the fleet was made from, ``limits`` what a visitor may ask for.
    """
    return Page(fleet, gallery, local, preset, limits).build()
