"""A request whose steps cannot be recorded: its text as it comes, and what the server counted.

Nothing is made up: the trace has a header and an end, and no steps between them.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import msgspec

from dflash_viz.lanes.answer import DONE, Chunk, read_answer
from dflash_viz.lanes.assemble import EngineCounts
from dflash_viz.lanes.errors import LaneError
from dflash_viz.trace import PLAIN, SCHEMA_VERSION, Check, End, Header, Line, Message, Sampling, Window
from dflash_viz.trace.counters import Counters, Load, read_load, read_prometheus

if TYPE_CHECKING:
    from dflash_viz.lanes.client import LaneClient

LOOK_EVERY_S = 1.0
SETTLE_S = 0.05
SETTLE_READS = 20
_STOPPED = object()


class Text(msgspec.Struct, frozen=True, tag="text", tag_field="type"):
    """A piece of the answer as it comes, where no steps bring it. It is shown, and is no line of a trace."""

    text: str


class Reading(msgspec.Struct, frozen=True):
    """A server's counters at one moment; ``counters`` is None where it keeps none that can be read."""

    counters: Counters | None
    load: Load


class CountedRun:
    """One request: an asynchronous iterator over its header, its text piece by piece, and its end."""

    def __init__(
        self,
        client: LaneClient,
        request_id: str,
        messages: list[Message],
        sampling: Sampling,
        contended_with: Sequence[str],
    ) -> None:
        self._client = client
        self._request_id = request_id
        self._messages = messages
        self._sampling = sampling
        self._contended_with = list(contended_with)
        self._events: asyncio.Queue[Any] = asyncio.Queue()
        self._meter = _Meter(client)
        self._begun = False
        self._text: list[str] = []
        self._reason = ""
        self._counts: EngineCounts | None = None
        self._cached: int | None = None
        self._told: int | None = None
        self._num_tokens = 0

    async def stop(self) -> None:
        """End the request at once; the iteration then ends with finish reason ``abort``."""
        self._events.put_nowait(_STOPPED)

    async def __aiter__(self) -> AsyncGenerator[Line | Text]:
        """Send the request. Raises ``LaneError`` when the server refuses it; one that goes away later
        ends the trace with finish reason ``error`` instead, and keeps its text."""
        self._client.num_running += 1
        tasks: list[asyncio.Task[None]] = []
        try:
            await self._meter.begin()
            tasks = [asyncio.create_task(self._ask()), asyncio.create_task(self._meter.watch())]
            async with contextlib.aclosing(self._lines(tasks[0])) as lines:
                async for line in lines:
                    yield line
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self._client.num_running -= 1

    async def _ask(self) -> None:
        body = self._client.body(self._messages, self._sampling, 0)
        async with self._client.http() as http:
            await read_answer(http, body, self._request_id, self._client.who, self._events.put_nowait)

    async def _lines(self, asking: asyncio.Task[None]) -> AsyncGenerator[Line | Text]:
        error = None
        while error is None and (event := await self._events.get()) is not _STOPPED:
            error = self._trouble(event)
            if error is not None and not self._begun:
                raise error
            if event is DONE:
                break
            if isinstance(event, Chunk) and error is None:
                for line in self._absorb(event):
                    yield line
        # Hanging up makes vLLM abort a request that still runs, before its counts are read.
        asking.cancel()
        if not self._begun:  # stopped before the first token: there is an answer, and nothing in it
            yield self._header([])
        self._reason = self._reason or "abort"
        yield await self._end(error)

    def _trouble(self, event: Any) -> LaneError | None:
        if isinstance(event, LaneError):
            return event
        if event is DONE and not self._reason:
            return LaneError(f"The {self._client.who}'s answer broke off.")
        return event.failure if isinstance(event, Chunk) else None

    def _absorb(self, chunk: Chunk) -> list[Line | Text]:
        lines: list[Line | Text] = [] if self._begun else [self._header(chunk.prompt_token_ids or [])]
        if chunk.metrics is not None:
            self._counts = chunk.metrics.speculative_decoding
        if chunk.usage is not None:
            self._told = chunk.usage.completion_tokens
            details = chunk.usage.prompt_tokens_details
            self._cached = details.cached_tokens if details is not None else None
        text = "".join(choice.delta.content or "" for choice in chunk.choices)
        if chunk.num_tokens or text:
            self._meter.delivered(chunk.received, chunk.num_tokens)
        self._num_tokens += chunk.num_tokens
        self._reason = next((c.finish_reason for c in chunk.choices if c.finish_reason), self._reason)
        if text:
            self._text.append(text)
            lines.append(Text(text))
        return lines

    def _header(self, prompt: list[int]) -> Header:
        self._begun = True
        return Header(
            schema=SCHEMA_VERSION,
            trace_id=self._request_id,
            recorded_at=datetime.now(UTC).isoformat(timespec="milliseconds"),
            lane=self._client.lane,
            messages=self._messages,
            prompt_token_ids=prompt,
            sampling=self._sampling,
            fingerprint=self._client.fingerprint,
            contended_with=self._contended_with,
            counts_only=self._client.counts_only,
        )

    async def _end(self, error: LaneError | None) -> End:
        counts, tokens = self._counts or EngineCounts(), self._told or self._num_tokens
        window = await self._meter.end(tokens)
        accepted, drafted = counts.per_step_accepted or [], counts.per_step_drafted or []
        return End(
            finish_reason="error" if error is not None else self._reason,
            text="".join(self._text),
            num_output_tokens=tokens,
            check=Check(None, _source(self._client.fingerprint.method, bool(drafted), window)),
            engine_accepted=accepted,
            engine_drafted=drafted,
            num_cached_prompt_tokens=self._cached,
            error=str(error) if error is not None else None,
            window=window,
        )


def _source(method: str, own: bool, window: Window) -> str:
    """Where the figures of a counts-only answer come from, in a sentence."""
    if own:
        return "Counts only: they are vLLM's own for this answer."
    if method == PLAIN:
        return f"Counts only: this server drafts nothing. {_others(window)}"
    if window.num_drafts is None:
        return "Counts only, and the server's counters could not be read: nothing but the time is known."
    return f"Counts only: the server's counters after this answer less those before. {_others(window)}"


def _others(window: Window) -> str:
    if not window.num_others:
        return "No other request was seen there meanwhile."
    requests = "1 other request" if window.num_others == 1 else f"{window.num_others} other requests"
    return f"Up to {requests} ran there meanwhile, and all of them are in it."


class _Meter:
    """The server's counters around one request, and the request's times on our clock."""

    def __init__(self, client: LaneClient) -> None:
        self._client = client
        self._before: Reading | None = None
        self._others = 0
        self._sent = 0.0
        self._first: float | None = None
        self._last = 0.0
        self._first_tokens = 0

    async def begin(self) -> None:
        """The request is about to be sent."""
        self._before = await self._read()
        self._others = self._before.load.running if self._before is not None else 0
        self._sent = time.monotonic()

    async def watch(self) -> None:
        """While the request runs: how many others run beside it."""
        while True:
            await asyncio.sleep(LOOK_EVERY_S)
            if (now := await self._read()) is not None:
                self._others = max(self._others, now.load.running - 1)

    def delivered(self, at: float, tokens: int) -> None:
        """Some tokens came, at this moment (s, monotonic)."""
        if self._first is None:
            self._first, self._first_tokens = at, tokens or 1
        self._last = at

    async def end(self, num_tokens: int) -> Window:
        """The request has ended: what happened in between."""
        after = await self._settled()
        self._others = max(self._others, after.load.running if after is not None else 0)
        first = self._sent if self._first is None else self._first
        times = Window(
            first_token_s=max(0.0, first - self._sent),
            decode_s=max(0.0, self._last - first),
            decode_tokens=max(0, num_tokens - self._first_tokens),
            num_others=self._others,
        )
        if self._before is None or after is None:
            return times
        return _counted(times, self._before, after)

    async def _read(self) -> Reading | None:
        try:
            text = await self._client.metrics()
        except LaneError:
            return None
        known = "vllm:spec_decode_num_drafts" in text
        return Reading(read_prometheus(text) if known else None, read_load(text))

    async def _settled(self) -> Reading | None:
        """The counters once nothing changes: vLLM writes a step down after it has handed out its tokens."""
        last = await self._read()
        for _ in range(SETTLE_READS):
            if last is None:
                return None
            await asyncio.sleep(SETTLE_S)
            now = await self._read()
            if now == last and now.load.running <= self._others:
                return now
            last = now
        return last


def _counted(times: Window, before: Reading, after: Reading) -> Window:
    window = msgspec.structs.replace(
        times, output_tokens=after.load.output_tokens - before.load.output_tokens
    )
    if before.counters is None or after.counters is None:
        return _none_below_zero(window, times)
    gained = after.counters - before.counters
    return _none_below_zero(
        msgspec.structs.replace(
            window,
            num_drafts=gained.num_drafts,
            num_draft_tokens=gained.num_draft_tokens,
            num_accepted=gained.num_accepted_tokens,
            accepted_per_position=list(gained.accepted_per_position),
        ),
        times,
    )


def _none_below_zero(window: Window, times: Window) -> Window:
    """The counts, unless the server began to count anew in between."""
    counts = (window.output_tokens, window.num_drafts, window.num_draft_tokens, window.num_accepted)
    fell = min((count for count in counts if count is not None), default=0) < 0
    return times if fell or min(window.accepted_per_position, default=0) < 0 else window
