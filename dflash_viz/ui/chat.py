"""One question from the page: from the text that was typed to the frames that show the answer."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

from dflash_viz.lanes import Lane, LaneError, LaneRun
from dflash_viz.lanes.detokenize import TextStream
from dflash_viz.trace import End, Line, Message, Sampling, Step
from dflash_viz.ui.frames import batches
from dflash_viz.ui.recorder import Recorder
from dflash_viz.views.page_lines import (
    engine_line,
    figures_line,
    problem_line,
    run_line,
    trace_line,
)

WAIT_S = 0.5
RESTART_HINT = "Press “restart the engine” and ask again; your question is back in the box."


@dataclass
class Frame:
    """What the page shows now: the stage's document, and the answer so far.

    ``failed`` means that no answer came and the question belongs back into the box.
    """

    document: str
    answer: str = ""
    finished: bool = False
    failed: bool = False
    trace_file: Path | None = None


@dataclass
class Question:
    """Runs one question on a lane; ``stop`` ends it at once, whatever it is waiting for."""

    lane: Lane
    messages: list[Message]
    sampling: Sampling
    _run: LaneRun | None = None
    _stopped: asyncio.Event = field(default_factory=asyncio.Event)

    async def stop(self) -> None:
        """End the question; its frames then finish with what came so far."""
        self._stopped.set()
        if self._run is not None:
            await self._run.stop()

    async def frames(self) -> AsyncGenerator[Frame]:
        """Yield a frame whenever something has changed, at most 20 a second."""
        document = run_line("live", self.messages[-1].content)
        try:
            async for status in self._until_ready():
                document += status
                yield Frame(document)
            if self._stopped.is_set():
                raise LaneError("You stopped before the engine was asked.")
            async for frame in self._answer(document):
                document = frame.document
                yield frame
        except LaneError as error:
            action = RESTART_HINT if self.lane.status.state == "failed" else ""
            yield Frame(document + problem_line(str(error), action), finished=True, failed=True)
        except Exception as error:  # a fault of ours must not take the question or the page along
            traceback.print_exc()
            message = f"The app failed: {type(error).__name__}: {error}"
            yield Frame(document + problem_line(message, "Ask again."), finished=True, failed=True)

    async def _until_ready(self) -> AsyncIterator[str]:
        """Wait for the engine, saying how far it is. Raises ``LaneError`` if it will not come."""
        waited = False
        while (status := self.lane.status).state != "ready":
            waited = True
            if status.state in ("failed", "stopped"):
                raise LaneError(status.message)
            if self._stopped.is_set():
                raise LaneError("You stopped before the engine was ready.")
            yield engine_line(status.state, status.message, status.progress, status.seconds_left)
            await asyncio.sleep(WAIT_S)
        if waited:
            yield engine_line("ready", "ready")

    async def _answer(self, document: str) -> AsyncIterator[Frame]:
        client = self.lane.client
        if client is None:
            raise LaneError("The engine has just ended.")
        self._run = client.run(self.messages, self.sampling)
        recorder = Recorder()
        drawing = _Drawing(Frame(document), self.lane.spec.name, TextStream(client.detokenizer))
        try:
            async for lines in batches(aiter(self._run)):
                if self._stopped.is_set() and not drawing.steps:
                    await self._run.stop()  # pressed before vLLM knew the request
                note = recorder.write(lines)
                drawing.add(lines)
                if note:
                    drawing.frame.document += problem_line(note, "Free some space; the run itself goes on.")
                yield drawing.frame
        finally:
            recorder.close()
        drawing.frame.trace_file = None if recorder.problem else recorder.path
        drawing.frame.finished = True
        yield drawing.frame


@dataclass
class _Drawing:
    """Adds a trace's lines to the frame, with the running figures after each group of them."""

    frame: Frame
    lane: str
    text: TextStream
    steps: list[Step] = field(default_factory=list)

    def add(self, lines: list[Line]) -> None:
        for line in lines:
            self.frame.document += trace_line(line, self.lane)
            if isinstance(line, Step):
                self.steps.append(line)
                self.frame.answer += self.text.feed(line.emitted)
            elif isinstance(line, End):
                self._end(line)
        self.frame.document += figures_line(self.steps, self.lane)

    def _end(self, end: End) -> None:
        self.frame.answer = end.text
        if end.error is not None:
            self.frame.document += problem_line(end.error, "Restart the engine, then ask again.")
