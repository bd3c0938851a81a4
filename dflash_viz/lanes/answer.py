"""The answer's side of a request: what we read of vLLM's chat completion stream."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import httpx
import msgspec

from dflash_viz.lanes.access import RIGHT_KEY
from dflash_viz.lanes.assemble import EngineCounts
from dflash_viz.lanes.errors import LaneError

# The answer's stream is over.
DONE = object()


class Delta(msgspec.Struct):
    """What a chunk adds to the answer's text."""

    content: str | None = None


class Choice(msgspec.Struct):
    """What a chunk adds to the answer."""

    delta: Delta = msgspec.field(default_factory=Delta)
    token_ids: list[int] | None = None
    finish_reason: str | None = None


class Metrics(msgspec.Struct):
    """vLLM's figures of the request, in its last chunk."""

    speculative_decoding: EngineCounts | None = None


class PromptDetails(msgspec.Struct):
    """How much of the prompt was in the prefix cache."""

    cached_tokens: int | None = None


class Usage(msgspec.Struct):
    """What the request has used, in its last chunk."""

    completion_tokens: int | None = None
    prompt_tokens_details: PromptDetails | None = None


class Failure(msgspec.Struct):
    """An error in the middle of an answer."""

    message: str = "the engine reported an error"


class Chunk(msgspec.Struct):
    """One chunk; ``received`` is when it came (s, monotonic)."""

    choices: list[Choice] = []
    prompt_token_ids: list[int] | None = None
    metrics: Metrics | None = None
    usage: Usage | None = None
    error: Failure | None = None
    received: float = 0.0

    @property
    def failure(self) -> LaneError | None:
        """The engine's error, if the chunk holds one."""
        if self.error is None:
            return None
        # vLLM points to a stack trace, which only its log has.
        return LaneError(f"The engine failed: {self.error.message.partition(' See stack trace')[0]}")

    @property
    def num_tokens(self) -> int:
        """How many tokens came in it."""
        return sum(len(choice.token_ids or []) for choice in self.choices)


_decoder = msgspec.json.Decoder(Chunk)


async def read_answer(
    http: httpx.AsyncClient, body: dict[str, Any], request_id: str, who: str, put: Callable[[Any], None]
) -> None:
    """Ask, and hand on what comes: chunks, a ``LaneError`` if need be, ``DONE`` at the end. ``who`` is
    asked, in a word."""
    headers = {"X-Request-Id": request_id}
    try:
        async with http.stream("POST", "/v1/chat/completions", json=body, headers=headers) as answer:
            if answer.status_code != 200:
                await answer.aread()
                put(LaneError(_refusal(answer)))
            async for line in answer.aiter_lines():
                if line.startswith("data: {"):
                    chunk = _decoder.decode(line[6:])
                    chunk.received = time.monotonic()
                    put(chunk)
    except msgspec.MsgspecError:
        put(LaneError(f"The {who} stopped answering as vLLM does."))
    except httpx.HTTPError:
        put(LaneError(f"The {who} stopped answering."))
    finally:
        put(DONE)


def _refusal(answer: httpx.Response) -> str:
    """vLLM's own words for why it refuses a request, and what helps."""
    if answer.status_code == 401:
        return f"The server refuses the API key. {RIGHT_KEY}"
    try:
        message = str(answer.json()["error"]["message"])
    except (ValueError, KeyError, TypeError):
        message = f"status {answer.status_code}"
    if "context length" in message or "max_model_len" in message:
        return f"The prompt is too long for this engine: shorten it or clear the chat. ({message})"
    return f"The engine refused the request: {message}"
