"""The ASGI middleware (``--middleware dflash_viz.hooks.route.TraceRoute``).

It adds six routes to vLLM's own server, all behind a token (environment variable ``DFLASH_VIZ_TOKEN``
of the server process; without one they refuse), which comes as ``X-DFlash-Viz-Token`` or as a bearer:

- ``GET /dflash_viz/hello``: installs the hooks if need be, and says what the engine is.
- ``GET /dflash_viz/steps?prefix=P``: server-sent events, the engine steps of the requests whose
  id begins with P, one JSON record each. Many watchers may listen.
- ``DELETE /dflash_viz/hooks``: takes the hooks off again. They come off by themselves when nobody has
  watched for a minute; ``hello`` or ``steps`` puts them back.
- ``POST /dflash_viz/sleep``: the engine gives the device's memory away; its weights wait in this
  machine's memory (level 1). Requests that still run end as aborted. Only with ``--enable-sleep-mode``.
- ``POST /dflash_viz/wake``: it takes its memory again. The hooks stay on through both.

vLLM has routes for the last two as well, but only together with others that change or run anything, and
without a token (``VLLM_SERVER_DEV_MODE``).
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import itertools
import json
import os
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any
from urllib.parse import parse_qs

import msgspec
import zmq
import zmq.asyncio
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from dflash_viz.hooks.wire import ROUTE, TOKEN_ENV, TOKEN_HEADER, EngineStep, Fault, Record, Row

KEEPALIVE_S = 5.0
# So long without a watcher, and the hooks come off.
REST_AFTER_S = 60.0
_decoder = msgspec.msgpack.Decoder(list[Record])
_encoder = msgspec.json.Encoder()


class StepHub:
    """Receives the worker's records and passes them to any number of watchers."""

    def __init__(self) -> None:
        # A folder of our own, readable by nobody else, holds the socket.
        self._folder = tempfile.TemporaryDirectory(prefix="dflash_viz-")
        self.address = f"ipc://{self._folder.name}/steps"
        self._socket = zmq.asyncio.Context.instance().socket(zmq.PULL)
        self._socket.set_hwm(0)
        self._socket.bind(self.address)
        # By the prefix that they watch.
        self._watchers: dict[str, set[asyncio.Queue[bytes]]] = {}
        # By engine: each of a data parallel server counts its own records. It may have sent some to
        # another server process before this one listened.
        self._next_seq: dict[int, int] = {}
        self._asked = time.monotonic()
        self._task = asyncio.create_task(self._pump())

    def close(self) -> None:
        """Stop listening and remove the socket."""
        self._task.cancel()
        self._socket.close(linger=0)
        self._folder.cleanup()

    def ask(self) -> None:
        """Somebody is about to watch."""
        self._asked = time.monotonic()

    @property
    def idle_s(self) -> float:
        """How long nobody has watched (s)."""
        return 0.0 if self._watchers else time.monotonic() - self._asked

    async def _pump(self) -> None:
        while True:
            try:
                records = _decoder.decode(await self._socket.recv())
            except msgspec.MsgspecError as error:
                self._publish(Fault(0, f"a record could not be read: {error}"))
                continue
            for record in records:
                self._take(record)

    def _take(self, record: Record) -> None:
        """Pass one record on, and say what was lost before it."""
        expected = self._next_seq.get(record.engine, record.seq)
        if record.seq != expected:
            lost = f"{record.seq - expected} engine steps were lost"
            self._publish(Fault(record.seq, lost, record.engine))
        self._next_seq[record.engine] = record.seq + 1
        self._publish(record)

    def _publish(self, record: Record) -> None:
        if isinstance(record, Fault):
            for queue in itertools.chain.from_iterable(self._watchers.values()):
                queue.put_nowait(_event(record))
            return
        for prefix, rows in self._rows_by_prefix(record).items():
            event = _event(msgspec.structs.replace(record, rows=rows))
            for queue in self._watchers[prefix]:
                queue.put_nowait(event)

    def _rows_by_prefix(self, step: EngineStep) -> dict[str, list[Row]]:
        """The rows that somebody watches; each row is looked up, however many watch."""
        found: dict[str, list[Row]] = {}
        lengths = {len(prefix) for prefix in self._watchers}
        for row in step.rows:
            for length in lengths:
                if (prefix := row.request_id[:length]) in self._watchers:
                    found.setdefault(prefix, []).append(row)
        return found

    async def watch(self, prefix: str) -> AsyncIterator[bytes]:
        """Server-sent events for one watcher, until it goes away."""
        queue: asyncio.Queue[bytes] = asyncio.Queue()
        self._watchers.setdefault(prefix, set()).add(queue)
        try:
            yield b": watching\n\n"
            while True:
                try:
                    async with asyncio.timeout(KEEPALIVE_S):
                        event = await queue.get()
                except TimeoutError:
                    event = b": alive\n\n"
                # All that has come by now, in one piece.
                yield event + b"".join(queue.get_nowait() for _ in range(queue.qsize()))
        finally:
            self.ask()
            self._watchers[prefix].remove(queue)
            if not self._watchers[prefix]:
                del self._watchers[prefix]


def _event(record: Record) -> bytes:
    return b"data: " + _encoder.encode(record) + b"\n\n"


class TraceRoute:
    """The middleware itself; everything outside ``/dflash_viz`` passes through untouched."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._lock = asyncio.Lock()
        self._hub: StepHub | None = None
        self._engine: dict[str, Any] = {}
        self._resting: asyncio.Task[None] | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not scope["path"].startswith(ROUTE):
            await self._app(scope, receive, send)
            return
        response = await self._answer(Request(scope, receive))
        await response(scope, receive, send)

    async def _answer(self, request: Request) -> Response:
        if (refusal := _refusal(request)) is not None:
            return refusal
        client = request.app.state.engine_client
        query = parse_qs(request.url.query)
        answer: Response = JSONResponse({})
        match request.method, request.url.path.removeprefix(ROUTE):
            case "GET", "/hello" if count := _engines_elsewhere(client):
                why = f"{count} of its engines run on other machines, from where no step comes here."
                answer = JSONResponse({"steps": False, "why": why})
            case "GET", "/hello":
                await self._install(client)
                answer = JSONResponse(self._engine)
            case "GET", "/steps":
                hub = await self._install(client)
                events = hub.watch(query.get("prefix", [""])[0])
                answer = StreamingResponse(events, media_type="text/event-stream")
            case "DELETE", "/hooks":
                await self._remove(client)
            # Level 2 would lose the drafter's weights (vllm#52479).
            case "POST", "/sleep":
                answer = await _switch(client, lambda: client.sleep(level=1))
            case "POST", "/wake":
                answer = await _switch(client, client.wake_up)
            case _:
                answer = JSONResponse({"error": f"no such route: {request.url.path}"}, 404)
        return answer

    async def _install(self, client: Any) -> StepHub:
        """Bind the hub and let the workers connect, once."""
        async with self._lock:
            if self._hub is None:
                hub = StepHub()
                try:
                    answers = await client.collective_rpc("dflash_viz_install", args=(hub.address,))
                except BaseException:
                    hub.close()
                    raise
                self._engine = next((a for a in answers if a), {"steps": False, "why": "no worker answered"})
                self._hub = hub
                self._resting = asyncio.create_task(self._let_rest(client, hub))
            self._hub.ask()
            return self._hub

    async def _let_rest(self, client: Any, hub: StepHub) -> None:
        """Take the hooks off when nobody has watched for a while: they cost all who use the server."""
        while self._hub is hub:
            await asyncio.sleep(max(0.0, REST_AFTER_S - hub.idle_s))
            if self._hub is hub and hub.idle_s >= REST_AFTER_S:
                with contextlib.suppress(Exception):  # an engine that has ended has no hooks either
                    await self._remove(client)
                return

    async def _remove(self, client: Any) -> None:
        async with self._lock:
            if self._hub is not None:
                await client.collective_rpc("dflash_viz_remove", args=(self._hub.address,))
                self._hub.close()
                self._hub = None


def _engines_elsewhere(client: Any) -> int:
    """How many of the engines that answer here have no way to this machine's sockets."""
    parallel = client.vllm_config.parallel_config
    if parallel.local_engines_only:  # the others have servers of their own
        return 0
    return int(parallel.data_parallel_size - parallel.data_parallel_size_local)


async def _switch(client: Any, change: Callable[[], Awaitable[Any]]) -> Response:
    """Let the engine sleep or wake; what it says against it is the answer."""
    if not client.vllm_config.model_config.enable_sleep_mode:
        return JSONResponse({"error": "The server was started without --enable-sleep-mode."}, 409)
    try:
        await change()
    except Exception as error:  # whatever it is: the app decides what becomes of the engine
        return JSONResponse({"error": f"{type(error).__name__}: {error}"}, 500)
    return JSONResponse({})


def _refusal(request: Request) -> Response | None:
    token = os.environ.get(TOKEN_ENV, "")
    if not token:
        why = f"The server was started without {TOKEN_ENV}: set it, and give the same token to the app."
        return Response(json.dumps({"error": why}), 403, media_type="application/json")
    bearer = request.headers.get("authorization", "").removeprefix("Bearer ")
    given = request.headers.get(TOKEN_HEADER, bearer)
    if not hmac.compare_digest(given.encode(), token.encode()):
        return JSONResponse({"error": "The token is wrong."}, 401)
    return None
