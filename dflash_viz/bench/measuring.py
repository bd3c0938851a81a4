"""One setting measured: its questions asked, so many at once, without a break.

Continuous batching: as soon as one request ends the next begins.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from dflash_viz.bench.ask import Timed
from dflash_viz.bench.meter import Meter
from dflash_viz.lanes import LaneError
from dflash_viz.lanes.client import LaneClient
from dflash_viz.lanes.spec import file_name
from dflash_viz.results import TRACES, Answer, Failure, Line, Question, Result, labels
from dflash_viz.trace import Message, Sampling, Trace, write_trace

WARM_TOKENS = 8


class Measuring:
    """Asks what a setting has not answered yet; ``keep`` gets every line as soon as it is known."""

    def __init__(
        self, result: Result, setting: int, client: LaneClient, keep: Callable[[Line], None]
    ) -> None:
        assert result.folder is not None
        self._result = result
        self._setting = setting
        self._client = client
        self._keep = keep
        self._folder = Path(result.folder)
        self._label = labels(result.plan.settings)[setting]
        self._given = {(a.question, a.turn): a.text for a in result.answers_of(setting)}
        self._places = {name: place for place, name in enumerate(result.questions)}
        self._running: set[Timed] = set()
        self._stopped = False
        self._tokens = self._count = 0

    async def run(self) -> None:
        """Ask until every question is answered, failed, or the measuring is stopped.

        Raises ``LaneError`` when the engine ends, ``OSError`` when nothing more can be written.
        """
        await self._warm_up()
        meter = Meter(self._client, self._setting, self._keep)
        await meter.start()
        whole = False
        try:
            await self._ask_all()
            whole = not self._stopped
        finally:
            self._keep(await meter.stop(self._count, self._tokens, whole))

    async def stop(self) -> None:
        """End the running requests; the next ones are not asked."""
        self._stopped = True
        await asyncio.gather(*(timed.stop() for timed in self._running))

    async def _warm_up(self) -> None:
        """An engine that has been idle is slow at first."""
        first = next(iter(self._result.questions.values()))
        sampling = msgspec.structs.replace(self._sampling(), max_tokens=WARM_TOKENS)
        messages, top_k = [Message("user", first.turns[0])], self._result.plan.top_k
        with contextlib.suppress(LaneError):  # what is wrong with the question is told when it counts
            await self._go(Timed(self._client, messages, sampling, top_k))

    def _sampling(self) -> Sampling:
        plan = self._result.plan
        return Sampling(plan.settings[self._setting].temperature, plan.max_tokens, plan.seed, plan.top_p)

    async def _ask_all(self) -> None:
        waiting = iter([q for q in self._result.questions.values() if self._next_turn(q) < len(q.turns)])
        concurrency = self._result.plan.settings[self._setting].concurrency
        workers = [asyncio.create_task(self._work(waiting)) for _ in range(concurrency)]
        try:
            await asyncio.gather(*workers)
        finally:
            for worker in workers:
                worker.cancel()
            await asyncio.gather(*workers, return_exceptions=True)

    async def _work(self, waiting: Iterator[Question]) -> None:
        for question in waiting:
            if self._stopped:
                return
            await self._converse(question)

    def _next_turn(self, question: Question) -> int:
        """The first turn that has no answer yet."""
        turns = range(len(question.turns))
        return next((turn for turn in turns if (question.id, turn) not in self._given), len(question.turns))

    async def _converse(self, question: Question) -> None:
        """Ask a question's turns one after another, each with what was said before."""
        for turn in range(self._next_turn(question), len(question.turns)):
            timed = Timed(
                self._client, self._messages(question, turn), self._sampling(), self._result.plan.top_k
            )
            if self._stopped or not await self._answered(timed, question, turn):
                return

    def _messages(self, question: Question, turn: int) -> list[Message]:
        messages = []
        for earlier in range(turn):
            messages.append(Message("user", question.turns[earlier]))
            messages.append(Message("assistant", self._given[question.id, earlier]))
        return [*messages, Message("user", question.turns[turn])]

    async def _answered(self, timed: Timed, question: Question, turn: int) -> bool:
        """Run one request and keep its answer; whether there is one."""
        try:
            trace = await self._go(timed)
        except LaneError as error:
            await self._client.check_health()  # not the question but the engine may be at fault
            self._keep(Failure(self._setting, str(error), question.id, turn))
            return False
        assert trace.end is not None
        if trace.end.finish_reason == "abort":
            if not self._stopped:
                self._keep(Failure(self._setting, "The engine gave the answer up.", question.id, turn))
            return False
        file = self._trace_file(question, turn)
        writing = asyncio.ensure_future(
            asyncio.to_thread(write_trace, self._named(trace), self._folder / file)
        )
        try:
            await asyncio.shield(writing)
        except asyncio.CancelledError:  # the answer is there: it stays, and its trace with it
            await writing
            self._take(timed.answer(self._setting, question.id, turn, question.kind, file))
            raise
        self._take(timed.answer(self._setting, question.id, turn, question.kind, file))
        return True

    async def _go(self, timed: Timed) -> Trace:
        self._running.add(timed)
        try:
            return await timed.go()
        finally:
            self._running.discard(timed)

    def _named(self, trace: Trace) -> Trace:
        """The trace under its setting's name: side by side, lanes alone would not tell them apart."""
        header = msgspec.structs.replace(trace.header, lane=self._label)
        return msgspec.structs.replace(trace, header=header)

    def _take(self, answer: Answer) -> None:
        self._given[answer.question, answer.turn] = answer.text
        self._tokens += answer.num_output_tokens
        self._count += 1
        self._keep(answer)

    def _trace_file(self, question: Question, turn: int) -> str:
        """A folder a prompt, a file a setting in it, so that all answers to one prompt open together."""
        lane = file_name(self._result.plan.settings[self._setting].lane)
        return f"{TRACES}/{self._places[question.id]:05}-{turn}/{self._setting:03}-{lane}.jsonl.gz"
