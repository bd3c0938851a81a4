"""The client of one engine's two streams: the answer and the steps."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import math
import secrets
import time
from collections.abc import AsyncGenerator, Sequence
from datetime import UTC, datetime
from typing import Any

import httpx
import msgspec

from dflash_viz.hooks.wire import ROUTE, TOP_K_ARG, EngineStep, Fault, Record
from dflash_viz.lanes.access import credentials, verified
from dflash_viz.lanes.answer import DONE, Chunk, read_answer
from dflash_viz.lanes.assemble import UNCOUNTED, Assembler, EngineCounts, row_tokens
from dflash_viz.lanes.counted import CountedRun
from dflash_viz.lanes.detokenize import TokenTable
from dflash_viz.lanes.errors import LaneError
from dflash_viz.trace import (
    SCHEMA_VERSION,
    Check,
    End,
    Fingerprint,
    Header,
    Line,
    Message,
    Sampling,
    Step,
    TokenProb,
)

# How long the last step may lag behind the end of the answer before it counts as lost.
STEP_GRACE_S = 3.0
HEALTH_S, HEALTH_TRIES = 5.0, 3
_record_decoder = msgspec.json.Decoder(Record)


class _Logprobs(msgspec.Struct):
    top_logprobs: list[dict[str, float]]


class _CompletionChoice(msgspec.Struct):
    logprobs: _Logprobs


class _Completion(msgspec.Struct):
    """What we read of vLLM's answer to a completion with ``logprobs``."""

    choices: list[_CompletionChoice]


class LaneClient:
    """Speaks to one server; any number of requests may run at the same time.

    ``token`` opens the hooks' routes, ``api_key`` the server's own. ``counts_only`` says why steps cannot
    be recorded there: then requests are answered without them.
    """

    def __init__(
        self,
        lane: str,
        url: str,
        token: str,
        fingerprint: Fingerprint,
        detokenizer: TokenTable,
        model: str,
        api_key: str = "",
        counts_only: str = "",
    ) -> None:
        self.lane = lane
        self.fingerprint = fingerprint
        self.detokenizer = detokenizer
        self.counts_only = counts_only
        self.num_running = 0
        # Whether the engine reports the counts of each answer, so that a missing report is a fault.
        self.counts_answers = True
        self.why_uncounted = UNCOUNTED
        self.who = "engine"  # or somebody's server
        self._url = url
        self._headers = credentials(token, api_key)
        self._model = model
        # Unique among all clients of a server, so that no watcher sees another one's requests.
        self._prefix = secrets.token_hex(6)
        self._numbers = itertools.count()

    def run(
        self,
        messages: list[Message],
        sampling: Sampling,
        top_k: int = 0,
        contended_with: Sequence[str] = (),
    ) -> LaneRun | CountedRun:
        """Prepare one request; iterate over it to send it and to get its trace's lines."""
        request_id = f"{self._prefix}{next(self._numbers)}"
        if self.counts_only:
            return CountedRun(self, request_id, messages, sampling, contended_with)
        return LaneRun(self, request_id, messages, sampling, top_k, contended_with)

    async def next_token_probabilities(self, token_ids: list[int], count: int = 2) -> list[TokenProb]:
        """The ``count`` most probable tokens after ``token_ids``, best first (temperature 1).

        Raises ``LaneError`` when the engine does not answer.
        """
        body = {
            "model": self._model,
            "prompt": token_ids,
            "max_tokens": 1,
            "temperature": 0.0,
            "logprobs": count,
            "return_tokens_as_token_ids": True,
        }
        async with self.http() as http:
            try:
                answer = await http.post("/v1/completions", json=body, timeout=60.0)
                answer.raise_for_status()
                found = msgspec.json.decode(answer.content, type=_Completion)
                tops = found.choices[0].logprobs.top_logprobs[0]
            except (httpx.HTTPError, msgspec.MsgspecError, IndexError) as error:
                raise LaneError(f"The engine gave no probabilities ({type(error).__name__}).") from error
        # vLLM adds the sampled token where it is not among the best.
        best = sorted(tops.items(), key=lambda item: -item[1])[:count]
        return [TokenProb(int(name.removeprefix("token_id:")), math.exp(p)) for name, p in best]

    async def metrics(self) -> str:
        """The server's own counters, in Prometheus' text format (``/metrics``).

        Raises ``LaneError`` when the server does not answer.
        """
        async with self.http() as http:
            try:
                answer = await http.get("/metrics", timeout=10.0)
                return answer.raise_for_status().text
            except httpx.HTTPError as error:
                raise LaneError(f"The engine's counters cannot be read ({type(error).__name__}).") from error

    async def check_health(self) -> None:
        """Raise ``LaneError`` when the engine has ended, or does not answer for a quarter of a minute."""
        async with self.http() as http:
            for _ in range(HEALTH_TRIES):
                try:
                    answer = await http.get("/health", timeout=HEALTH_S)
                except httpx.HTTPError:
                    continue
                if answer.status_code == 200:
                    return
                break
        raise LaneError("The engine has ended.")

    def http(self) -> httpx.AsyncClient:
        """A connection pool without a time limit on reading: an engine may think for long."""
        timeout = httpx.Timeout(10.0, read=None)
        return httpx.AsyncClient(
            base_url=self._url, headers=self._headers, timeout=timeout, verify=verified(self._url)
        )

    def body(self, messages: list[Message], sampling: Sampling, top_k: int) -> dict[str, Any]:
        """The request in the form of vLLM's OpenAI server."""
        body: dict[str, Any] = {
            "model": self._model,
            "messages": msgspec.to_builtins(messages),
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "max_tokens": sampling.max_tokens,
            "seed": sampling.seed,
            "stream": True,
            "stream_options": {"include_usage": True},
            "return_token_ids": True,
        }
        if top_k:
            body["vllm_xargs"] = {TOP_K_ARG: top_k}
        return body


class LaneRun:
    """One request: an asynchronous iterator over its trace's lines, header, steps, end."""

    def __init__(
        self,
        client: LaneClient,
        request_id: str,
        messages: list[Message],
        sampling: Sampling,
        top_k: int,
        contended_with: Sequence[str],
    ) -> None:
        self._client = client
        self._request_id = request_id
        self._engine_id = f"chatcmpl-{request_id}"
        self._messages = messages
        self._sampling = sampling
        self._top_k = top_k
        self._contended_with = list(contended_with)
        self._events: asyncio.Queue[Any] = asyncio.Queue()
        self._assembler: Assembler | None = None
        # What the hooks sent before the answer's first chunk.
        self._early: list[EngineStep | Fault] = []
        self._cached: int | None = None
        self._text: list[str] = []
        self._reason = ""
        self._counts: EngineCounts | None = None
        self._asking: asyncio.Task[None] | None = None
        self._stopped = False
        self.sent_at = 0.0
        """When the request was sent, by ``time.perf_counter``."""

    async def stop(self) -> None:
        """End the request at once; the iteration then ends with finish reason ``abort``.

        Hanging up makes vLLM abort it, whichever of its server processes has it.
        """
        if self._reason or self._stopped:
            return
        self._stopped = True
        if self._asking is not None:
            self._asking.cancel()
        self._events.put_nowait(DONE)

    async def __aiter__(self) -> AsyncGenerator[Line]:
        """Send the request. Raises ``LaneError`` when the engine refuses it; an engine that dies
        later ends the trace with finish reason ``error`` instead, and keeps its steps."""
        self._client.num_running += 1
        async with contextlib.AsyncExitStack() as stack:
            stack.callback(self._ended)
            http = await stack.enter_async_context(self._client.http())
            watching = asyncio.Event()
            tasks = [asyncio.create_task(self._watch(http, watching))]
            try:
                await watching.wait()
                if not self._stopped:
                    self._asking = asyncio.create_task(self._ask(http))
                    tasks.append(self._asking)
                async for line in self._lines():
                    yield line
            finally:
                # Closing the answer's connection makes vLLM abort the request, should it still run.
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)

    def _ended(self) -> None:
        self._client.num_running -= 1

    async def _watch(self, http: httpx.AsyncClient, watching: asyncio.Event) -> None:
        try:
            async with http.stream(
                "GET", f"{ROUTE}/steps", params={"prefix": self._engine_id + "-"}
            ) as events:
                if events.status_code != 200:
                    await events.aread()
                    self._events.put_nowait(LaneError(f"The step stream was refused: {events.text}"))
                async for line in events.aiter_lines():
                    watching.set()
                    if line.startswith("data: "):
                        self._events.put_nowait(_record_decoder.decode(line[6:]))
        except (httpx.HTTPError, msgspec.MsgspecError):
            self._events.put_nowait(LaneError(f"The stream of the {self._client.who}'s steps broke off."))
        finally:
            watching.set()

    async def _ask(self, http: httpx.AsyncClient) -> None:
        body = self._client.body(self._messages, self._sampling, self._top_k)
        self.sent_at = time.perf_counter()
        await read_answer(http, body, self._request_id, self._client.who, self._events.put_nowait)

    async def _lines(self) -> AsyncGenerator[Line]:
        error = None
        while self._assembler is None or not self._assembler.complete:
            event = await self._next_event()
            if self._client.detokenizer.remote:
                await self._client.detokenizer.prepare(_mentioned(event))
            if event is DONE:
                event = self._over()
            if isinstance(event, LaneError):
                error = event
                if self._assembler is None:
                    raise error
            for line in self._absorb(event):
                yield line
            if event is None or error is not None:
                break
        for step in self._flush():
            yield step
        yield self._end(error)

    async def _next_event(self) -> Any:
        """The next event; None when the answer is over and its last steps do not come."""
        finished = bool(self._reason)
        try:
            return await asyncio.wait_for(self._events.get(), STEP_GRACE_S if finished else None)
        except TimeoutError:
            return None

    def _over(self) -> Any:
        """What the end of the answer's stream means: an end, or an error."""
        if self._stopped:
            self._reason = self._reason or "abort"
        return DONE if self._reason else LaneError(f"The {self._client.who}'s answer broke off.")

    def _absorb(self, event: Any) -> list[Line]:
        lines: list[Line] = []
        if isinstance(event, EngineStep | Fault):
            self._take_record(event)
        elif isinstance(event, Chunk):
            return self._absorb_chunk(event)
        elif event is DONE:
            if self._assembler is None:  # stopped before the first token
                lines.append(self._header([]))
            assert self._assembler is not None
            self._assembler.finish()
        return [*lines, *(self._assembler.ready() if self._assembler is not None else [])]

    def _take_record(self, record: EngineStep | Fault) -> None:
        if self._assembler is None:  # the prompt's own step can overtake the answer's first chunk
            self._early.append(record)
        elif isinstance(record, Fault):
            self._assembler.faults.append(record.message)
        else:
            for row in record.rows:
                self._assembler.add_row(record, row)

    def _absorb_chunk(self, chunk: Chunk) -> list[Line]:
        lines: list[Line] = []
        if (failure := chunk.failure) is not None:
            self._events.put_nowait(failure)
            return lines
        if chunk.prompt_token_ids is not None and self._assembler is None:
            lines.append(self._header(chunk.prompt_token_ids))
        if chunk.metrics is not None:
            self._counts = chunk.metrics.speculative_decoding
        assembler = self._assembler
        if assembler is None:
            raise LaneError("The engine did not send the prompt's tokens: is it a vLLM server?")
        if chunk.usage is not None:
            assembler.told = chunk.usage.completion_tokens
            if chunk.usage.prompt_tokens_details is not None:
                self._cached = chunk.usage.prompt_tokens_details.cached_tokens
        for choice in chunk.choices:
            self._text.append(choice.delta.content or "")
            assembler.add_tokens(choice.token_ids or [])
            self._reason = choice.finish_reason or self._reason
        return [*lines, *assembler.ready()]

    def _header(self, prompt: list[int]) -> Header:
        known = set(prompt)
        texts = self._client.detokenizer.latin1
        self._assembler = Assembler(texts, known)
        for record in self._early:
            self._take_record(record)
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
            tokens=texts(known),
        )

    def _flush(self) -> list[Step]:
        assert self._assembler is not None
        self._assembler.finish()
        return self._assembler.ready()

    def _end(self, error: LaneError | None) -> End:
        assert self._assembler is not None
        counts = self._counts or EngineCounts()
        ran_out = error is None and self._reason in ("stop", "length")
        expected = ran_out and self._client.counts_answers and not self._stopped
        check = self._assembler.check(self._counts, expected, self._client.why_uncounted)
        if error is not None and not self._assembler.faults:
            check = Check(None, f"the {self._client.who} ended before it could report its counts")
        return End(
            finish_reason="error" if error is not None else self._reason,
            text="".join(self._text),
            num_output_tokens=self._assembler.num_output_tokens,
            check=check,
            engine_accepted=counts.per_step_accepted or [],
            engine_drafted=counts.per_step_drafted or [],
            num_cached_prompt_tokens=self._cached,
            error=str(error) if error is not None else None,
        )


def _mentioned(event: Any) -> set[int]:
    """The tokens whose texts an event needs."""
    if isinstance(event, Chunk):
        return set(event.prompt_token_ids or [])
    if isinstance(event, EngineStep):
        return set().union(*(row_tokens(row) for row in event.rows))
    return set()
