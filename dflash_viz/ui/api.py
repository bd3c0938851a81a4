"""The named API endpoint: the same race as on the page, as a stream of JSON objects."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

import gradio as gr
import msgspec

from dflash_viz.lanes import Fleet, Race, Turn
from dflash_viz.trace import Message, Sampling


def make_stream(fleet: Fleet) -> Callable[..., AsyncIterator[dict[str, Any]]]:
    """The endpoint's function for a fleet; gradio reads its signature and docstring."""

    async def run(
        prompt: str,
        lanes: list[str] | None = None,
        system: str = "",
        temperature: float = 0.0,
        top_p: float = 1.0,
        max_tokens: int = 256,
        seed: int | None = None,
        top_k: int = 0,
    ) -> AsyncIterator[dict[str, Any]]:
        """Run a prompt on some lanes (all by default), one after another.

        Streams one object per event: the lines of each lane's trace (``type`` header, step, end) and
        its turns (``type`` turn), each with ``lane``. ``top_k`` > 0 records that many probabilities
        per position.
        """
        chosen = list(fleet.lanes) if lanes is None else lanes
        if unknown := [name for name in chosen if name not in fleet.lanes]:
            raise gr.Error(f"There is no lane {unknown[0]!r}; there are: {', '.join(fleet.lanes)}.")
        if not prompt.strip():
            raise gr.Error("The prompt is empty.")
        messages = [Message("system", system)] if system.strip() else []
        sampling = Sampling(temperature, max_tokens, seed, top_p)
        race = Race(fleet, chosen, [*messages, Message("user", prompt)], sampling, top_k)
        async with contextlib.aclosing(race.events()) as events:
            async for lane, event in events:
                fields = msgspec.to_builtins(event, str_keys=True)
                yield {"type": "turn", "lane": lane, **fields} if isinstance(event, Turn) else {
                    "lane": lane, **fields
                }  # fmt: skip

    return run
