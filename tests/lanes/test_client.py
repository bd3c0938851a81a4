"""The client's event loop against a server that misbehaves in every way a real one can."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, StreamingResponse
from starlette.routing import Route
from tokenizers import Tokenizer, models

from dflash_viz.lanes import LaneClient, LaneError
from dflash_viz.lanes.detokenize import Detokenizer
from dflash_viz.lanes.server import free_port
from dflash_viz.trace import End, Fingerprint, Line, Message, ModelPrint, Sampling

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


async def steps(_: Request) -> StreamingResponse:
    async def events():  # type: ignore[no-untyped-def]
        yield b": watching\n\n"
        yield b'data: {"type":"fault","seq":0,"message":"a hook failed"}\n\n'
        await asyncio.sleep(30)

    return StreamingResponse(events(), media_type="text/event-stream")


async def chat(request: Request) -> StreamingResponse | JSONResponse:
    case = (await request.json())["messages"][0]["content"]
    if case == "refused":
        return JSONResponse({"error": {"message": "no"}}, 400)
    return StreamingResponse(iter(BROKEN[case]), media_type="text/event-stream")


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    routes = [
        Route("/dflash_viz/steps", steps),
        Route("/dflash_viz/stop", lambda _: JSONResponse({}), methods=["POST"]),
        Route("/v1/chat/completions", chat, methods=["POST"]),
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


async def run(url: str, case: str) -> list[Line]:
    tokenizer = Tokenizer(models.WordLevel({"a": 0, "b": 1, "c": 2}, unk_token="a"))
    fingerprint = Fingerprint("dflash", ModelPrint("t"))
    client = LaneClient("dflash", url, "token", fingerprint, Detokenizer(tokenizer), "m")
    async with asyncio.timeout(15):
        return [line async for line in client.run([Message("user", case)], Sampling())]


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
