"""One question to one engine: the trace, and what a result keeps of it."""

from __future__ import annotations

import contextlib
import time

from dflash_viz.lanes import CountedRun, LaneError
from dflash_viz.lanes.client import LaneClient, LaneRun
from dflash_viz.metrics.tally import Tally
from dflash_viz.results import Answer
from dflash_viz.trace import End, Header, Message, Sampling, Step, Trace


class Timed:
    """One request as the client sees it: its trace, and when what came."""

    def __init__(self, client: LaneClient, messages: list[Message], sampling: Sampling, top_k: int) -> None:
        run = client.run(messages, sampling, top_k)
        assert not isinstance(run, CountedRun), "engines without steps are not lent"
        self.run: LaneRun = run
        self.trace: Trace | None = None
        self.first_token_s: float | None = None
        self.latency_s = 0.0
        self._stopped = False

    async def stop(self) -> None:
        """End the request at once, or as soon as the engine knows it."""
        self._stopped = True
        await self.run.stop()

    async def go(self) -> Trace:
        """Ask and wait for the end. Raises ``LaneError`` when there is no whole answer."""
        async with contextlib.aclosing(self.run.__aiter__()) as lines:
            async for line in lines:
                if isinstance(line, Header):
                    self.trace = Trace(line)
                    if self._stopped:
                        await self.run.stop()
                    continue
                assert self.trace is not None
                self.trace.add(line)
                if isinstance(line, Step) and self.first_token_s is None:
                    self.first_token_s = time.perf_counter() - self.run.sent_at
                elif isinstance(line, End):
                    self.latency_s = time.perf_counter() - self.run.sent_at
        if self.trace is None or self.trace.end is None:
            raise LaneError("The engine gave no answer.")
        if self.trace.end.error is not None:
            raise LaneError(self.trace.end.error)
        return self.trace

    def answer(self, setting: int, question: str, turn: int, kind: str, file: str) -> Answer:
        """What a result keeps of it."""
        assert self.trace is not None
        assert self.trace.end is not None
        sums, end = Tally.of(self.trace.steps), self.trace.end
        counts = sums.counters
        after = self.trace.decode_steps
        return Answer(
            setting=setting,
            question=question,
            kind=kind,
            turn=turn,
            latency_s=self.latency_s,
            first_token_s=self.first_token_s,
            decode_s=sums.end - sums.begin if sums.end is not None and sums.begin is not None else 0.0,
            num_prompt_tokens=len(self.trace.header.prompt_token_ids),
            num_output_tokens=end.num_output_tokens,
            num_decode_tokens=sums.num_tokens,
            num_steps=sums.num_steps,
            num_drafts=counts.num_drafts,
            num_draft_tokens=counts.num_draft_tokens,
            num_accepted=counts.num_accepted_tokens,
            accepted_per_position=list(counts.accepted_per_position),
            drafted_per_position=list(sums.drafted_per_position),
            draft_s=sums.draft_s,
            verify_s=sums.verify_s,
            batch_size=sum(step.batch_size for step in after) / len(after) if after else 1.0,
            finish_reason=end.finish_reason,
            text=end.text,
            check=end.check,
            trace=file,
        )
