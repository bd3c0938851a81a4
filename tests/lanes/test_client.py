"""The client's event loop against a server that misbehaves in every way a real one can."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator

import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, StreamingResponse
from starlette.routing import Route
from tokenizers import Tokenizer, models

from dflash_viz.lanes import CountedRun, LaneClient, LaneError, Text
from dflash_viz.lanes.client import LaneRun
from dflash_viz.lanes.detokenize import Detokenizer
from dflash_viz.lanes.server import free_port
from dflash_viz.trace import End, Fingerprint, Header, Line, Message, ModelPrint, Sampling, Step

PROMPT = b'data: {"choices":[{"delta":{"content":""}}],"prompt_token_ids":[1,2]}\n\n'
TOKEN = b'data: {"choices":[{"delta":{"content":"a"},"token_ids":[0]}]}\n\n'
BROKEN = {
    "nothing": [],
    "error first": [b'data: {"error":{"message":"boom"}}\n\n'],
    "no ids": [b'data: {"choices":[{"delta":{"content":"x"}}]}\n\n'],
    "garbage": [b"data: {not json}\n\n"],
    "wrong types": [PROMPT, b'data: {"choices":7}\n\n'],
    "error later": [PROMPT, TOKEN, b'data: {"error":{"message":"boom"}}\n\n'],
    "cut short": [PROMPT, TOKEN],
}
# The prompt's own step: the token that TOKEN delivers.
STEP = (
    b'data: {"type":"step","seq":1,"verify_start":1.0,"verify_end":2.0,'
    b'"rows":[{"request_id":"r","index":0,"sampled":[0],"prefill":true}]}\n\n'
)
ENDLESS = {"no token yet": [], "a token": [PROMPT, TOKEN]}


async def steps(_: Request) -> StreamingResponse:
    async def events():  # type: ignore[no-untyped-def]
        yield b": watching\n\n"
        yield b'data: {"type":"fault","seq":0,"message":"a hook failed"}\n\n'
        yield STEP
        await asyncio.sleep(30)

    return StreamingResponse(events(), media_type="text/event-stream")


asked, hung_up = threading.Event(), threading.Event()
# What the metrics said about a running request, one entry a look.
seen: list[bool] = []


async def endless(first: list[bytes]) -> AsyncIterator[bytes]:
    """An answer that goes on for as long as somebody listens."""
    asked.set()
    try:
        for chunk in first:
            yield chunk
        await asyncio.sleep(60)
    finally:
        hung_up.set()


async def chat(request: Request) -> StreamingResponse | JSONResponse:
    case = (await request.json())["messages"][0]["content"]
    if case in ENDLESS:
        return StreamingResponse(endless(ENDLESS[case]), media_type="text/event-stream")
    if case == "refused":
        return JSONResponse({"error": {"message": "no"}}, 400)
    return StreamingResponse(iter(BROKEN[case]), media_type="text/event-stream")


async def metrics(_: Request) -> PlainTextResponse:
    """A request runs from when it was asked until nobody listens to it."""
    running = asked.is_set() and not hung_up.is_set()
    seen.append(running)
    return PlainTextResponse(f'vllm:num_requests_running{{engine="0"}} {float(running)}\n')


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    routes = [
        Route("/dflash_viz/steps", steps),
        Route("/v1/chat/completions", chat, methods=["POST"]),
        Route("/metrics", metrics),
    ]
    port = free_port()
    server = uvicorn.Server(uvicorn.Config(Starlette(routes=routes), port=port, log_level="error"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        pass
    yield f"http://127.0.0.1:{port}"
    server.should_exit = True
    server.force_exit = True
    thread.join()


def client_of(url: str, counts_only: str = "") -> LaneClient:
    tokenizer = Tokenizer(models.WordLevel({"a": 0, "b": 1, "c": 2}, unk_token="a"))
    fingerprint = Fingerprint("dflash", ModelPrint("t"))
    table = Detokenizer(tokenizer)
    return LaneClient("dflash", url, "token", fingerprint, table, "m", counts_only=counts_only)


async def run(url: str, case: str) -> list[Line]:
    async with asyncio.timeout(15):
        return [line async for line in client_of(url).run([Message("user", case)], Sampling())]


@pytest.mark.parametrize(
    ("case", "words"),
    [
        ("nothing", "broke off"),
        ("error first", "boom"),
        ("no ids", "did not send"),
        ("garbage", "stopped answering"),
        ("refused", "refused the request: no"),
    ],
)
async def test_no_answer_is_an_error_in_words(url: str, case: str, words: str) -> None:
    with pytest.raises(LaneError, match=words):
        await run(url, case)


@pytest.mark.parametrize("counts_only", ["", "no hooks"])
@pytest.mark.parametrize(
    ("case", "words"), [("nothing", "The server's answer broke off."), ("garbage", "The server stopped ")]
)
async def test_a_server_elsewhere_is_called_one(url: str, counts_only: str, case: str, words: str) -> None:
    client = client_of(url, counts_only)
    client.who = "server"
    with pytest.raises(LaneError, match=words):
        async for _ in client.run([Message("user", case)], Sampling()):
            pass


@pytest.mark.parametrize("case", ["wrong types", "error later", "cut short"])
async def test_a_broken_answer_ends_its_trace(url: str, case: str) -> None:
    lines = await run(url, case)
    end = lines[-1]
    assert isinstance(end, End)
    assert end.finish_reason == "error"
    assert end.check.agrees is not True
    assert end.error


async def test_a_fault_of_the_hooks_is_seen_even_before_the_answer_began(url: str) -> None:
    end = (await run(url, "cut short"))[-1]
    assert isinstance(end, End)
    assert "a hook failed" in end.check.message


async def test_no_server(url: str) -> None:
    with pytest.raises(LaneError, match="broke"):
        await run(f"http://127.0.0.1:{free_port()}", "nothing")


async def stopped(url: str, case: str, counts_only: str = "") -> list[Line | Text]:
    """A run that is stopped once the server has the request and every chunk of it is there."""
    asked.clear()
    hung_up.clear()
    seen.clear()
    run = client_of(url, counts_only).run([Message("user", case)], Sampling())
    lines: list[Line | Text] = []
    stopping = None
    async with asyncio.timeout(15):
        if not ENDLESS[case]:
            stopping = asyncio.create_task(stop_later(run))
        async for line in run:
            lines.append(line)
            if isinstance(line, Step | Text):
                await run.stop()
                await run.stop()  # pressed twice
    if stopping is not None:
        await stopping
    return lines


async def stop_later(run: LaneRun | CountedRun) -> None:
    assert await asyncio.to_thread(asked.wait, 10)
    await run.stop()


@pytest.mark.parametrize("counts_only", ["", "no hooks"])
@pytest.mark.parametrize(("case", "tokens"), [("no token yet", 0), ("a token", 1)])
async def test_stopping_hangs_up_and_keeps_what_has_come(
    url: str, case: str, tokens: int, counts_only: str
) -> None:
    header, *had, end = await stopped(url, case, counts_only)
    assert isinstance(header, Header)
    assert isinstance(end, End)
    assert (end.finish_reason, end.error) == ("abort", None)
    assert (len(had), end.num_output_tokens, end.text) == (tokens, tokens, "a" * tokens)
    assert await asyncio.to_thread(hung_up.wait, 10), "the server still answers"
    if counts_only:
        assert seen[-1] is False, "the counts were read while the request still ran"


async def test_what_is_stopped_before_it_began_is_never_asked(url: str) -> None:
    asked.clear()
    run = client_of(url).run([Message("user", "a token")], Sampling())
    await run.stop()
    async with asyncio.timeout(15):
        header, end = [line async for line in run]
    assert isinstance(header, Header)
    assert isinstance(end, End)
    assert end.finish_reason == "abort"
    assert not asked.is_set()
