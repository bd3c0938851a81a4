"""One question from the page: from the text that was typed to the frames that show every lane's answer."""

from __future__ import annotations

import asyncio
import contextlib
import traceback
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from dflash_viz.lanes import Fleet, Race, Text, Turn
from dflash_viz.lanes.detokenize import TextStream
from dflash_viz.lanes.face import ENDED
from dflash_viz.metrics import CopyFinder
from dflash_viz.trace import End, Header, Line, Message, Sampling, Step, Trace
from dflash_viz.ui.frames import batches
from dflash_viz.ui.playback import chat_lines, race_lines, text_lines
from dflash_viz.ui.runs import Recorder, RunFolder, new_run
from dflash_viz.ui.verdicts import Best, ask_target, judge_texts
from dflash_viz.views.lane_style import LaneStyle
from dflash_viz.views.page_lines import (
    LaneFigures,
    answer_line,
    counted_line,
    definitions_line,
    finish_line,
    lanes_line,
    problem_line,
    recorded_document,
    run_line,
    trace_line,
    turn_line,
)
from dflash_viz.views.text_verdict import TextVerdict

RETRY_HINT = "Press its retry button at the top of the page; the other lanes go on."
BACK_HINT = "The lane goes on as soon as the server answers again."
BACK_IN_BOX = "Your question is back in the box."
IN_TURN = (
    "You asked for all lanes at the same time. Their engines have no room beside each other on this GPU, so "
    "they answered one after another, each woken when it was its turn."
)


@dataclass
class Exchange:
    """One turn of a chat: the question, the answer that the chat goes on with, every lane's trace."""

    question: str
    answer: str
    traces: list[Trace]
    verdicts: dict[str, TextVerdict]
    files: list[Path]
    address: str

    def document(self, number: int, earlier: Sequence[Exchange], styles: Mapping[str, LaneStyle]) -> str:
        """This turn once more, played from its traces; ``earlier`` are the turns before it."""
        extra = summary_lines(self.traces, self.verdicts, earlier)
        note = f"Turn {number} of this chat, played from its traces."
        return recorded_document(self.traces, note, extra, speed=1, styles=styles, address=self.address)


def summary_lines(
    traces: Sequence[Trace], verdicts: Mapping[str, TextVerdict], earlier: Sequence[Exchange]
) -> str:
    """The lines about a whole turn: the lanes compared, the chat so far, the texts."""
    before = [trace for turn in earlier for trace in turn.traces]
    return race_lines(traces) + chat_lines(traces, before) + text_lines(verdicts)


def to_messages(system: str, conversation: Sequence[Exchange], text: str) -> list[Message]:
    """The chat in the form of the model's chat template."""
    messages = [Message("system", system)] if system.strip() else []
    for turn in conversation:
        messages += [Message("user", turn.question), Message("assistant", turn.answer)]
    return [*messages, Message("user", text)]


@dataclass
class Frame:
    """What the page shows now: the stage's document, and the answer so far.

    ``exchange`` is set when the question has ended with an answer. A finished frame without one means
    that no lane answered and the question belongs back into the box.
    """

    document: str
    answer: str = ""
    finished: bool = False
    exchange: Exchange | None = None


@dataclass
class Question:
    """Runs one question on some lanes; ``stop`` ends it at once, whatever it is waiting for."""

    fleet: Fleet
    lanes: list[str]
    messages: list[Message]
    sampling: Sampling
    top_k: int
    contended: bool
    earlier: Sequence[Exchange]
    styles: Mapping[str, LaneStyle]
    run: RunFolder = field(default_factory=new_run)
    _race: Race | None = None
    _asking: asyncio.Task[Best] | None = None

    async def stop(self) -> None:
        """End the question; its frames then finish with what came so far."""
        if self._race is not None:
            await self._race.stop()
        if self._asking is not None:
            self._asking.cancel()

    async def frames(self) -> AsyncGenerator[Frame]:
        """Yield a frame whenever something has changed, at most 20 a second."""
        text = self.messages[-1].content
        apart = not self.fleet.shares_machine
        in_turn = self.contended and self.fleet.room.one_awake and len(self.lanes) > 1
        line = run_line(
            "live",
            text,
            note=IN_TURN if in_turn else "",
            contended=self.contended and not in_turn,
            address=self.run.id,
            apart=apart,
        )
        frame = Frame(line)
        clients = [self.fleet.lanes[name].client for name in self.lanes]
        frame.document += definitions_line(any(c is not None and c.counts_only for c in clients))
        specs = [self.fleet.lanes[name].spec for name in self.lanes]
        lanes = [(spec.name, spec.method, spec.num_speculative_tokens) for spec in specs]
        frame.document += lanes_line(lanes, self.styles)
        drawings = {name: _LaneDrawing(name, self.fleet, self.run.recorder(name)) for name in self.lanes}
        try:
            async with contextlib.aclosing(self._draw(frame, drawings)) as drawn:
                async for _ in drawn:
                    yield frame
            await self._conclude(frame, drawings)
        except Exception as error:  # a fault of ours must not take the question or the page along
            traceback.print_exc()
            message = f"The app failed: {type(error).__name__}: {error}"
            frame.document += problem_line(message, f"Ask again. {BACK_IN_BOX}")
        finally:
            for drawing in drawings.values():
                drawing.recorder.close()
        frame.finished = True
        yield frame

    async def _draw(self, frame: Frame, drawings: dict[str, _LaneDrawing]) -> AsyncGenerator[None]:
        self._race = Race(self.fleet, self.lanes, self.messages, self.sampling, self.top_k, self.contended)
        # The groups are closed first: events that are still being read cannot be.
        async with (
            contextlib.aclosing(self._race.events()) as events,
            contextlib.aclosing(batches(events)) as groups,
        ):
            async for group in groups:
                for name, event in group:
                    frame.document += drawings[name].take(event)
                frame.document += "".join(drawing.figures() for drawing in drawings.values())
                speaker = _speaker(list(drawings.values()))
                frame.answer = speaker.answer if speaker is not None else ""
                yield

    async def _conclude(self, frame: Frame, drawings: dict[str, _LaneDrawing]) -> None:
        """Compare the lanes once all have ended, or say why there is nothing to compare."""
        speaker = _speaker(list(drawings.values()))
        if speaker is None:
            frame.document += problem_line(_reasons(drawings), BACK_IN_BOX)
            return
        traces = [drawing.trace for drawing in drawings.values() if drawing.trace is not None]
        verdicts = judge_texts(traces, await self._ask(traces))
        frame.document += summary_lines(traces, verdicts, self.earlier) + finish_line()
        files = [file for drawing in drawings.values() if (file := drawing.recorder.saved) is not None]
        frame.answer = speaker.answer
        frame.exchange = Exchange(
            self.messages[-1].content, speaker.answer, traces, verdicts, files, self.run.id
        )

    async def _ask(self, traces: list[Trace]) -> Best:
        """Ask the target where texts part; nothing when the question is stopped meanwhile."""
        self._asking = asyncio.create_task(ask_target(self.fleet, traces))
        try:
            await asyncio.wait([self._asking])
        finally:
            self._asking.cancel()  # the page has gone
        return {} if self._asking.cancelled() else self._asking.result()


def _speaker(drawings: Sequence[_LaneDrawing]) -> _LaneDrawing | None:
    """The lane whose answer the chat shows: the first one, in the page's order, that has one."""
    spoken = [drawing for drawing in drawings if drawing.has_spoken]
    whole = [drawing for drawing in spoken if drawing.turn is None or drawing.turn.state != "failed"]
    return next(iter([*whole, *spoken]), None)


def _reasons(drawings: dict[str, _LaneDrawing]) -> str:
    """Why no lane has answered: each reason once."""
    turns = [drawing.turn for drawing in drawings.values() if drawing.turn is not None]
    failed = dict.fromkeys(turn.message for turn in turns if turn.state == "failed")
    return " ".join(failed) if failed else "You stopped before any lane had answered."


@dataclass
class _LaneDrawing:
    """One lane's part of the document, its trace in memory and on disk."""

    lane: str
    fleet: Fleet
    recorder: Recorder
    trace: Trace | None = None
    turn: Turn | None = None
    answer: str = ""
    _text: TextStream | None = None
    _finder: CopyFinder | None = None
    _figures: LaneFigures | None = None

    @property
    def has_spoken(self) -> bool:
        """Whether some of an answer is there."""
        return self.trace is not None and bool(self.trace.steps or self.answer)

    def take(self, event: Turn | Line | Text) -> str:
        """The document's lines for one event of the race."""
        if isinstance(event, Turn):
            return self._take_turn(event)
        if isinstance(event, Text):
            self.answer += event.text
            return answer_line(self.lane, event.text)
        source = self._finder.feed(event) if self._finder is not None and isinstance(event, Step) else None
        lines = trace_line(event, self.lane, source)
        if isinstance(event, Header):
            self._open(event)
        else:
            self._add(event)
            if isinstance(event, End) and self.trace is not None and self.trace.header.counts_only:
                lines += counted_line(self.lane, event)
        if note := self.recorder.write([event]):
            lines += problem_line(note, "Free some space; the run itself goes on.", self.lane)
        return lines

    def _take_turn(self, turn: Turn) -> str:
        self.turn = turn
        lines = turn_line(self.lane, turn.state, turn.message, turn.progress, turn.seconds_left)
        if turn.state == "failed":
            died = self.trace is not None and self.trace.end is not None
            lane = self.fleet.lanes[self.lane]
            hint = RETRY_HINT if died or lane.status.state in ENDED else ""
            if not lane.shares_machine:  # a server goes on by itself
                hint = BACK_HINT if died else ""
            lines += problem_line(turn.message, hint, self.lane)
        return lines

    def _open(self, header: Header) -> None:
        self.trace = Trace(header)
        client = self.fleet.lanes[self.lane].client
        self._text = TextStream(client.detokenizer) if client is not None else None
        self._figures = LaneFigures(self.lane)
        self._finder = CopyFinder(header) if header.fingerprint.method == "ngram" else None

    def _add(self, line: Step | End) -> None:
        assert self.trace is not None
        self.trace.add(line)
        if isinstance(line, End):
            self.answer = line.text
        elif self._text is not None:
            self.answer += self._text.feed(line.emitted)

    def figures(self) -> str:
        """The figures after the steps that came since the last call; nothing if none did."""
        if self.trace is None or self._figures is None:
            return ""
        fresh = self.trace.steps[self._figures.tally.num_all :]
        return self._figures.line(fresh) if fresh else ""
