"""``python -m dflash_viz.bench.speed``: decode speed of every lane, and what the hooks cost.

One request at a time, greedy, one engine of each lane resident. Every prompt runs on each
configuration right after the others, in an order drawn anew and each after a short warm-up, so that
the machine's mood falls on all alike: only the ratios within one run mean anything. Hooks on and off
are compared within one server process, because two processes of the same kind can differ by more than
the hooks cost.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import random
import sys
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any

import httpx
import msgspec

from dflash_viz.bench.prompts import KINDS
from dflash_viz.hooks.wire import ROUTE, TOP_K_ARG
from dflash_viz.lanes import LaneSpec, load_preset
from dflash_viz.lanes.preflight import check_pair, check_spec
from dflash_viz.lanes.server import MODEL_NAME, EngineServer
from dflash_viz.trace import PLAIN
from dflash_viz.weights import resolve_model

TOP_K = 5
WARM_TOKENS = 16
REST_S = 0.1


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

    def __add__(self, other: Tally) -> Tally:
        return Tally(*(getattr(self, f) + getattr(other, f) for f in self.__struct_fields__))


@dataclass(frozen=True)
class Configuration:
    """One thing that is timed: a server, with or without hooks and probabilities."""

    name: str
    server: EngineServer
    hooks: bool = False
    top_k: int = 0


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
    """Hooks on, with somebody watching as the app does; or hooks off. Both after the same rest, from
    which a machine begins more slowly."""
    if not on:
        await http.delete(f"{ROUTE}/hooks")
        await asyncio.sleep(REST_S)
        yield
        return
    await http.get(f"{ROUTE}/hello")

    async def read() -> None:
        async with http.stream("GET", f"{ROUTE}/steps") as events:
            async for _ in events.aiter_raw():
                pass

    watcher = asyncio.create_task(read())
    await asyncio.sleep(REST_S)
    try:
        yield
    finally:
        watcher.cancel()
        await asyncio.gather(watcher, return_exceptions=True)


def configurations(servers: Sequence[EngineServer]) -> list[Configuration]:
    """Every lane without hooks, and the first one with them too."""
    first = servers[0]
    return [
        *(Configuration(server.spec.name, server) for server in servers),
        Configuration(f"{first.spec.name}, hooks", first, hooks=True),
        Configuration(f"{first.spec.name}, hooks, top-{TOP_K}", first, hooks=True, top_k=TOP_K),
    ]


Tallies = dict[str, dict[str, Tally]]
"""By configuration, then by kind of prompt."""


async def measure(
    chosen: Sequence[Configuration], prompts: Sequence[tuple[str, str]], tokens: int
) -> Tallies:
    """Run every prompt, given as (kind, text), on every configuration."""
    tallies: Tallies = {c.name: {} for c in chosen}
    async with contextlib.AsyncExitStack() as stack:
        clients: dict[str, httpx.AsyncClient] = {}
        for configuration in chosen:
            server = configuration.server
            if server.url not in clients:
                client = httpx.AsyncClient(
                    base_url=server.url,
                    timeout=httpx.Timeout(60.0, read=None),
                    headers={"Authorization": f"Bearer {server.token}"},
                )
                clients[server.url] = await stack.enter_async_context(client)
                await ask(client, prompts[0][1], 16, 0, Tally())  # warm up
        for number, (kind, prompt) in enumerate(prompts):
            for c in random.Random(number).sample(chosen, len(chosen)):
                http = clients[c.server.url]
                async with watched(http, c.hooks):
                    # Whoever follows another engine would find its caches cold, and hooks that have just
                    # gone on make their events and buffers first.
                    await ask(http, prompt, WARM_TOKENS, c.top_k, Tally())
                    await ask(http, prompt, tokens, c.top_k, tallies[c.name].setdefault(kind, Tally()))
            print(f"\r  prompt {number + 1} of {len(prompts)}", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    return tallies


def start(spec: LaneSpec) -> EngineServer:
    """Start one engine and wait for it."""
    print(f"starting {spec.name}, K = {spec.num_speculative_tokens}", file=sys.stderr, flush=True)
    check_spec(spec)
    target, drafter = resolve_model(spec.target), resolve_model(spec.drafter) if spec.drafter else None
    check_pair(spec, target, drafter)
    server = EngineServer(spec, target, drafter)
    server.start(lambda *_: None)
    return server


def report(tallies: Tallies, chosen: Sequence[Configuration]) -> None:
    """Print one table over all prompts, and the speedup by kind of prompt."""
    totals = {name: sum(kinds.values(), Tally()) for name, kinds in tallies.items()}
    base = next((c.name for c in chosen if c.server.spec.method == PLAIN), None)
    kinds = list(tallies[chosen[0].name])
    print(f"\n{'configuration':<26}{'K':>4}{'tokens':>8}{'tokens/s':>10}{'AL':>7}{'speedup':>9}", end="")
    print("".join(f"{kind:>8}" for kind in kinds))
    for c in chosen:
        total = totals[c.name]
        k = c.server.spec.num_speculative_tokens or "–"
        al = f"{total.al:.2f}" if total.al else "–"
        print(f"{c.name:<26}{k:>4}{total.tokens:>8}{total.speed:>10.1f}{al:>7}", end="")
        if base is None:
            print()
            continue
        print(f"{total.speed / totals[base].speed:>9.2f}", end="")
        print("".join(f"{tallies[c.name][k].speed / tallies[base][k].speed:>8.2f}" for k in kinds))
    first = chosen[0].name
    for c in chosen:
        if c.hooks:
            print(f"{c.name}: {totals[c.name].speed / totals[first].speed:.3f} of the speed without hooks")
    print("tokens/s: after the first token, greedy, one request at a time. AL: pooled, vLLM's counts.")
    print("Speedup: over the lane without speculation; the last columns by kind of prompt.")


def chosen_lanes(options: argparse.Namespace) -> list[LaneSpec]:
    """The lanes to measure: the preset's, or one drafter at several K beside no speculation."""
    lanes = load_preset(options.preset).lanes
    if not options.k:
        return lanes
    spec = next(lane for lane in lanes if lane.name == options.lane)
    varied = [
        msgspec.structs.replace(spec, name=f"{spec.name} K={k}", num_speculative_tokens=k) for k in options.k
    ]
    return [*varied, *(lane for lane in lanes if lane.method == PLAIN)]


def main() -> None:
    """Parse the command line and measure."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--preset", default="embedded-cpu")
    parser.add_argument("--k", type=int, nargs="*", help="measure one lane at these values of K instead")
    parser.add_argument("--lane", default="dflash", help="which lane --k varies")
    parser.add_argument("--prompts", type=int, default=30, help="how many of the 30 prompts")
    parser.add_argument("--tokens", type=int, default=128, help="answer tokens per prompt")
    options = parser.parse_args()
    mixed = zip(*([(kind, p) for p in prompts] for kind, prompts in KINDS.items()), strict=True)
    prompts = [pair for group in mixed for pair in group][: options.prompts]
    servers: list[EngineServer] = []
    try:
        for spec in chosen_lanes(options):
            servers.append(start(spec))
        chosen = configurations(servers)
        report(asyncio.run(measure(chosen, prompts, options.tokens)), chosen)
    finally:
        for server in servers:
            server.stop()


if __name__ == "__main__":
    main()
