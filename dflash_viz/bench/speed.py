"""``python -m dflash_viz.bench.speed``: decode speed with and without the drafter, and the hooks' cost.

One request at a time, greedy. Every prompt runs on each configuration right after the others, so
that the machine's mood falls on all alike: only the ratios within one run mean anything. Hooks on
and off are compared within one server process, because two processes of the same kind can differ
by more than the hooks cost.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import sys
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx
import msgspec

from dflash_viz.bench.prompts import KINDS
from dflash_viz.hooks.wire import ROUTE, TOP_K_ARG
from dflash_viz.lanes import LaneSpec, load_preset
from dflash_viz.lanes.server import MODEL_NAME, EngineServer
from dflash_viz.weights import resolve_model

TOP_K = 5


class Tally(msgspec.Struct):
    """What one configuration has done so far: tokens after the first, their seconds, its drafting."""

    tokens: int = 0
    seconds: float = 0.0
    drafts: int = 0
    accepted: int = 0

    @property
    def speed(self) -> float:
        """Decode speed: tokens after the first / seconds from the first chunk to the last."""
        return self.tokens / self.seconds

    @property
    def al(self) -> float | None:
        """Acceptance length, pooled, from vLLM's own counts."""
        return 1 + self.accepted / self.drafts if self.drafts else None


async def ask(http: httpx.AsyncClient, prompt: str, max_tokens: int, top_k: int, tally: Tally) -> None:
    """Run one prompt and add what it did to the tally."""
    body: dict[str, Any] = {
        "model": MODEL_NAME,
        "messages": [{"role": "user", "content": prompt}],
        "temperature": 0.0,
        "max_tokens": max_tokens,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    if top_k:
        body["vllm_xargs"] = {TOP_K_ARG: top_k}
    first = last = 0.0
    async with http.stream("POST", "/v1/chat/completions", json=body) as answer:
        async for line in answer.aiter_lines():
            if not line.startswith("data: {"):
                continue
            chunk = json.loads(line[6:])
            if chunk["choices"]:
                # The first chunk announces the role, the second brings the prompt's own token.
                last = time.perf_counter()
                first = first or (last if chunk["choices"][0]["delta"].get("content") else 0.0)
            if usage := chunk.get("usage"):
                tally.tokens += usage["completion_tokens"] - 1
                counts = (chunk.get("metrics") or {}).get("speculative_decoding") or {}
                tally.drafts += counts.get("num_spec_steps", 0)
                tally.accepted += counts.get("num_accepted_draft_tokens", 0)
    tally.seconds += last - first


@contextlib.asynccontextmanager
async def watched(http: httpx.AsyncClient, on: bool) -> AsyncIterator[None]:
    """Hooks on, with somebody watching as the app does; or hooks off."""
    if not on:
        await http.delete(f"{ROUTE}/hooks")
        yield
        return
    await http.get(f"{ROUTE}/hello")

    async def read() -> None:
        async with http.stream("GET", f"{ROUTE}/steps") as events:
            async for _ in events.aiter_raw():
                pass

    watcher = asyncio.create_task(read())
    await asyncio.sleep(0.1)
    try:
        yield
    finally:
        watcher.cancel()
        await asyncio.gather(watcher, return_exceptions=True)


# Name, hooks on, top-k: the configurations of the drafting lane.
DRAFTING = (("hooks off", False, 0), ("hooks on", True, 0), (f"hooks on, top-{TOP_K}", True, TOP_K))


async def measure(
    plain: EngineServer, drafting: EngineServer, prompts: list[str], tokens: int
) -> dict[str, Tally]:
    """Run every prompt on every configuration, in an order that rotates."""
    tallies = {"plain": Tally()} | {name: Tally() for name, _, _ in DRAFTING}
    headers = {"Authorization": f"Bearer {drafting.token}"}
    limits = httpx.Timeout(60.0, read=None)
    async with (
        httpx.AsyncClient(base_url=plain.url, timeout=limits) as one,
        httpx.AsyncClient(base_url=drafting.url, timeout=limits, headers=headers) as other,
    ):
        for http in (one, other):  # warm up
            await ask(http, prompts[0], 16, 0, Tally())
        for number, prompt in enumerate(prompts):
            await ask(one, prompt, tokens, 0, tallies["plain"])
            shift = number % len(DRAFTING)
            for name, on, top_k in DRAFTING[shift:] + DRAFTING[:shift]:
                async with watched(other, on):
                    await ask(other, prompt, tokens, top_k, tallies[name])
            print(f"\r  prompt {number + 1} of {len(prompts)}", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    return tallies


def start(spec: LaneSpec, hooks: bool) -> EngineServer:
    """Start one engine and wait for it."""
    print(f"starting {spec.name}, K = {spec.num_speculative_tokens}", file=sys.stderr, flush=True)
    drafter = resolve_model(spec.drafter) if spec.drafter else None
    server = EngineServer(spec, resolve_model(spec.target), drafter, hooks)
    server.start(lambda *_: None)
    return server


def report(k: int, tallies: dict[str, Tally], say: Callable[[str], None] = print) -> None:
    """Print one table."""
    plain, off = tallies["plain"], tallies["hooks off"]
    say(f"\nDFlash, K = {k}: {plain.tokens} tokens, greedy, one request at a time")
    say(f"{'configuration':<22}{'tokens/s':>10}{'AL pooled':>11}{'over plain':>12}{'over hooks off':>16}")
    for name, tally in tallies.items():
        al = f"{tally.al:.2f}" if tally.al else "–"
        over = "–" if tally is plain else f"{tally.speed / off.speed:.3f}"
        say(f"{name:<22}{tally.speed:>10.1f}{al:>11}{tally.speed / plain.speed:>12.2f}{over:>16}")


def main() -> None:
    """Parse the command line and measure."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--preset", default="embedded-cpu")
    parser.add_argument("--k", type=int, nargs="*", help="values of K to try; the preset's by default")
    parser.add_argument("--prompts", type=int, default=30, help="how many of the 30 prompts")
    parser.add_argument("--tokens", type=int, default=128, help="answer tokens per prompt")
    options = parser.parse_args()
    lanes = {lane.name: lane for lane in load_preset(options.preset).lanes}
    spec = lanes["dflash"]
    prompts = [p for group in zip(*KINDS.values(), strict=True) for p in group][: options.prompts]
    plain = start(lanes["none"], hooks=False)
    try:
        for k in options.k or [spec.num_speculative_tokens]:
            server = start(msgspec.structs.replace(spec, num_speculative_tokens=k), hooks=True)
            try:
                report(k, asyncio.run(measure(plain, server, prompts, options.tokens)))
            finally:
                server.stop()
    finally:
        plain.stop()


if __name__ == "__main__":
    main()
