"""The named API endpoint: the same race as on the page, as a stream of JSON objects."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Annotated, Any

import gradio as gr
import msgspec

from dflash_viz.lanes import Fleet, Race, Turn
from dflash_viz.space import Limits
from dflash_viz.trace import Message, Sampling
from dflash_viz.ui.layout import DEFAULT_TOKENS
from dflash_viz.ui.visitors import Visitors


class RunRequest(msgspec.Struct):
    """What the endpoint takes, with its limits."""

    prompt: Annotated[str, msgspec.Meta(pattern=r"\S")]
    lanes: list[str] | None
    system: str | None
    temperature: Annotated[float, msgspec.Meta(ge=0, le=2)]
    top_p: Annotated[float, msgspec.Meta(gt=0, le=1)]
    max_tokens: Annotated[int, msgspec.Meta(ge=1)]
    seed: int | None
    top_k: Annotated[int, msgspec.Meta(ge=0, le=20)]


def make_stream(fleet: Fleet, visitors: Visitors | None) -> Callable[..., AsyncIterator[dict[str, Any]]]:
    """The endpoint's function for a fleet; gradio reads its signature and docstring. No ``visitors``: for
    whoever sits at this machine."""
    limits = None if visitors is None else visitors.limits
    default_tokens = DEFAULT_TOKENS if limits is None else min(DEFAULT_TOKENS, limits.max_tokens)

    async def run(
        request: gr.Request,
        prompt: str,
        lanes: list[str] | None = None,
        system: str = "",
        temperature: float = 0.0,
        top_p: float = 1.0,
        max_tokens: int = default_tokens,
        seed: int | None = None,
        top_k: int = 0,
    ) -> AsyncIterator[dict[str, Any]]:
        """Run a prompt on some lanes (all by default), one after another.

        Streams one object per event: the lines of each lane's trace (``type`` header, step, end), its
        turns (``type`` turn), and pieces of its text where it shows no steps (``type`` text), each with
        ``lane``. ``top_k`` > 0 records that many probabilities per position.
        """
        given = {
            "prompt": prompt, "lanes": lanes, "system": system, "temperature": temperature,
            "top_p": top_p, "max_tokens": max_tokens, "seed": seed, "top_k": top_k,
        }  # fmt: skip
        race = _race(fleet, limits, given)
        with _place(visitors, str(request.session_hash)):
            async with contextlib.aclosing(race.events()) as events:
                async for lane, event in events:
                    fields = msgspec.to_builtins(event, str_keys=True)
                    kind = {"type": "turn"} if isinstance(event, Turn) else {}
                    yield {**kind, "lane": lane, **fields}

    return run


@contextlib.contextmanager
def _place(visitors: Visitors | None, session: str) -> Iterator[None]:
    """Counts the request among the questions; raises ``gr.Error`` when it has to wait for others."""
    if visitors is None:
        yield
        return
    if visitors.busy(session):
        raise gr.Error("Your last request is still being answered. Wait for its end, or cancel it.")
    if full := visitors.full():
        raise gr.Error(f"{full} Try again in a minute.")
    with visitors.asks(session):
        yield


def _race(fleet: Fleet, limits: Limits | None, given: dict[str, Any]) -> Race:
    """Raises ``gr.Error`` naming the argument that is wrong."""
    try:
        asked = msgspec.convert(given, RunRequest, strict=False)
    except msgspec.ValidationError as error:
        raise gr.Error(f"The request is not valid: {error}.") from error
    if limits is not None:
        _check(asked, limits)
    chosen = list(fleet.lanes) if asked.lanes is None else list(dict.fromkeys(asked.lanes))
    if unknown := [name for name in chosen if name not in fleet.lanes]:
        raise gr.Error(f"There is no lane {unknown[0]!r}; there are: {', '.join(fleet.lanes)}.")
    messages = [Message("system", asked.system)] if asked.system else []
    sampling = Sampling(asked.temperature, asked.max_tokens, asked.seed, asked.top_p)
    return Race(fleet, chosen, [*messages, Message("user", asked.prompt)], sampling, asked.top_k)


def _check(asked: RunRequest, limits: Limits) -> None:
    """Raises ``gr.Error`` for more than a visitor may ask for."""
    if asked.max_tokens > limits.max_tokens:
        raise gr.Error(f"The request is not valid: max_tokens is {limits.max_tokens} at most here.")
    if max(len(asked.prompt), len(asked.system or "")) > limits.prompt_characters:
        raise gr.Error(
            f"The request is not valid: a prompt has {limits.prompt_characters} characters at most here."
        )
