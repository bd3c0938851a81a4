"""The routes, with a stand-in for vLLM's engine client: sleeping and waking, and engines elsewhere."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette

from dflash_viz.hooks import route
from dflash_viz.hooks.route import TraceRoute
from dflash_viz.hooks.wire import TOKEN_ENV, TOKEN_HEADER

TOKEN = "a-token"


class EngineClient:
    """What vLLM's ``AsyncLLM`` offers of sleeping, the same in 0.26, 0.32 and 0.33."""

    def __init__(
        self, sleep_mode: bool = True, failure: Exception | None = None, parallel: Any = None
    ) -> None:
        self.vllm_config = SimpleNamespace(
            model_config=SimpleNamespace(enable_sleep_mode=sleep_mode), parallel_config=parallel
        )
        self.failure = failure
        self.called: list[tuple[str, Any]] = []
        self.calls: asyncio.Queue[str] = asyncio.Queue()

    async def sleep(self, level: int = 1, mode: str = "abort") -> None:
        self._call("sleep", (level, mode))

    async def wake_up(self, tags: list[str] | None = None) -> bool:
        self._call("wake_up", tags)
        return True

    async def collective_rpc(self, method: str, args: tuple[Any, ...]) -> list[dict[str, Any]]:
        self._call(method, None)
        return [{"steps": True}]

    def _call(self, name: str, given: Any) -> None:
        self.called.append((name, given))
        self.calls.put_nowait(name)
        if self.failure is not None:
            raise self.failure


@pytest.fixture(autouse=True)
def token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(TOKEN_ENV, TOKEN)


def served(client: EngineClient) -> Starlette:
    app = Starlette()
    app.state.engine_client = client
    app.add_middleware(TraceRoute)
    return app


async def post(client: EngineClient, route: str, token: str = TOKEN, method: str = "POST") -> httpx.Response:
    return await request(served(client), method, route, token)


async def request(app: Starlette, method: str, route: str, token: str = TOKEN) -> httpx.Response:
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://engine") as http:
        return await http.request(method, f"/dflash_viz/{route}", headers={TOKEN_HEADER: token})


async def test_an_engine_sleeps_at_level_1_and_wakes_whole() -> None:
    client = EngineClient()
    assert (await post(client, "sleep")).status_code == 200
    assert (await post(client, "wake")).status_code == 200
    assert client.called == [("sleep", (1, "abort")), ("wake_up", None)]


@pytest.mark.parametrize("route", ["sleep", "wake"])
async def test_nobody_without_the_token_changes_an_engine(route: str) -> None:
    client = EngineClient()
    assert (await post(client, route, "another")).status_code == 401
    assert (await post(client, f"{route}?level=2", "")).status_code == 401
    assert (await post(client, route, method="GET")).status_code == 404
    assert client.called == []


async def test_no_request_chooses_another_level() -> None:
    client = EngineClient()
    assert (await post(client, "sleep?level=2&mode=keep")).status_code == 200
    assert client.called == [("sleep", (1, "abort"))]


@pytest.mark.parametrize("route", ["sleep", "wake"])
async def test_an_engine_that_cannot_sleep_is_left_alone(route: str) -> None:
    client = EngineClient(sleep_mode=False)
    answer = await post(client, route)
    assert answer.status_code == 409
    assert "--enable-sleep-mode" in answer.json()["error"]
    assert client.called == []


@pytest.mark.parametrize("route", ["sleep", "wake"])
async def test_what_the_engine_says_against_it_is_passed_on(route: str) -> None:
    answer = await post(EngineClient(failure=MemoryError("no pinned memory")), route)
    assert answer.status_code == 500
    assert answer.json()["error"] == "MemoryError: no pinned memory"


@pytest.mark.parametrize(
    ("size", "here", "local_only", "elsewhere"),
    [
        (1, 1, False, 0),
        (2, 2, False, 0),
        (4, 1, False, 3),
        (2, 0, False, 2),
        (4, 2, True, 0),  # each machine has a server of its own, for its own engines
    ],
)
async def test_engines_on_other_machines_leave_counts(
    size: int, here: int, local_only: bool, elsewhere: int
) -> None:
    parallel = SimpleNamespace(
        data_parallel_size=size, data_parallel_size_local=here, local_engines_only=local_only
    )
    client = EngineClient(parallel=parallel)
    app = served(client)
    told = (await request(app, "GET", "hello")).json()
    await request(app, "DELETE", "hooks")
    assert told["steps"] is (elsewhere == 0)
    if elsewhere:
        assert f"{elsewhere} of its engines run on other machines" in told["why"]
        assert client.called == [], "engines would keep records that nobody can fetch"


async def watched(app: Starlette, seconds: float) -> None:
    """Watch the steps for so long."""
    sent = asyncio.Event()

    async def receive() -> dict[str, Any]:
        if not sent.is_set():
            sent.set()
            return {"type": "http.request", "body": b"", "more_body": False}
        await asyncio.sleep(seconds)
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        pass

    headers = [(TOKEN_HEADER.lower().encode(), TOKEN.encode())]
    scope = {"type": "http", "method": "GET", "path": "/dflash_viz/steps", "query_string": b"", "app": app}
    await app({**scope, "headers": headers, "http_version": "1.1"}, receive, send)


async def calls(client: EngineClient, number: int) -> list[str]:
    """The next calls of the engine, when they have come."""
    async with asyncio.timeout(10):
        return [await client.calls.get() for _ in range(number)]


async def test_the_hooks_come_off_when_nobody_watches_and_go_on_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(route, "REST_AFTER_S", 0.5)
    client = EngineClient(parallel=SimpleNamespace(local_engines_only=True))
    app = served(client)
    await request(app, "GET", "hello")
    await watched(app, 0.8)
    assert await calls(client, 1) == ["dflash_viz_install"]
    assert client.calls.empty(), "somebody was watching"
    assert await calls(client, 1) == ["dflash_viz_remove"]
    await watched(app, 0.0)
    assert await calls(client, 2) == ["dflash_viz_install", "dflash_viz_remove"]


async def test_an_engine_that_has_ended_is_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(route, "REST_AFTER_S", 0.05)
    client = EngineClient(parallel=SimpleNamespace(local_engines_only=True))
    app = served(client)
    await request(app, "GET", "hello")
    client.failure = RuntimeError("EngineDead")
    assert await calls(client, 2) == ["dflash_viz_install", "dflash_viz_remove"]
    await asyncio.sleep(0.3)
    assert client.calls.empty()
