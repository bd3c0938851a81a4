"""Checks the engines of a preset on a GPU host without network, and prints one table.

    python3 -m gpu.verify --gguf FOLDER [--preset embedded-cuda] [--seconds 560]

All lanes beside each other on one GPU, as the app's fleet keeps them where they fit: does each start, is
every trace complete at one and at 128 requests at once, in a race over all, how fast is it; on the first lane
and on the one without speculation what the hooks cost. Then the first and the last lane, said to take so much
memory that one can be awake: they answer in turn, woken each time.

Every check has its own time limit and says how it went in a line of JSON; what is left when the time is up is
skipped.
"""

from __future__ import annotations

import argparse
import asyncio
import functools
import sys
from collections.abc import Sequence
from pathlib import Path

from dflash_viz.bench.speed import TOP_K
from dflash_viz.lanes import LaneClient, LaneSpec, load_preset
from dflash_viz.trace import PLAIN
from dflash_viz.weights.resolver import GGUF_FILE
from gpu.asking import convert, probabilities, prompts, traces
from gpu.checks import MARGIN_S, Check, Checks, Made
from gpu.fleet import hooks_after, resident_race, running, too_much, turns
from gpu.kernel import kernel
from gpu.overhead import overhead

CONVERT_LIMIT_S = 120.0
LIMIT_S = 60.0
# What one awake at a time needs: two starts and the turns.
TURNS_S = 200.0


async def told(client: LaneClient) -> Made:
    """What an engine says of itself."""
    shown = client.fingerprint
    words = [f"{shown.model_runner} runner", f"graphs {shown.graph_mode}"]
    words += [f"async scheduling {shown.async_scheduling}", shown.device or ""]
    return not client.counts_only, ", ".join(words), {"versions": shown.versions}


async def check_lane(checks: Checks, name: str, client: LaneClient, options: argparse.Namespace) -> None:
    """One lane beside the others, which rest."""
    await checks.run(f"{name}: engine", LIMIT_S, functools.partial(told, client))
    for number, concurrency in ((options.prompts, 1), (options.many, options.many)):
        check = functools.partial(traces, client, number, concurrency, options.tokens)
        await checks.run(f"{name}: traces, {concurrency} at once", LIMIT_S, check)
    drafter = client.fingerprint.draft_sample_method == "probabilistic"
    check = functools.partial(probabilities, client, drafter)
    await checks.run(f"{name}: top-{TOP_K}", LIMIT_S, check)


async def check_overhead(
    checks: Checks, name: str, client: LaneClient, options: argparse.Namespace, share: float
) -> None:
    """What the hooks cost one lane, in a share of the time that is left."""
    limit = share * (checks.seconds_left - (0.0 if options.no_sleep else TURNS_S)) - MARGIN_S
    check = functools.partial(overhead, client, prompts(options.prompts), options.tokens, limit - MARGIN_S)
    await checks.run(f"{name}: what hooks cost", limit, check)


async def check_resident(checks: Checks, lanes: Sequence[LaneSpec], options: argparse.Namespace) -> None:
    """All lanes at once."""
    async with running(checks, lanes, "all resident", one_awake=False) as fleet:
        if fleet is None:
            return
        clients = {name: lane.client for name, lane in fleet.lanes.items() if lane.client is not None}
        for name, client in clients.items():
            await check_lane(checks, name, client, options)
        for together, words in ((False, "one after another"), (True, "at the same time")):
            check = functools.partial(resident_race, fleet, options.races, options.tokens, together)
            await checks.run(f"all resident: race, {words}", LIMIT_S, check)
        looked_at = [spec.name for spec in lanes if spec is lanes[0] or spec.method == PLAIN]
        for i, name in enumerate(looked_at):
            await check_overhead(checks, name, clients[name], options, 1 / (len(looked_at) - i))


async def check_turns(checks: Checks, lanes: Sequence[LaneSpec], options: argparse.Namespace) -> None:
    """One awake at a time."""
    async with running(checks, too_much(lanes), "one awake", one_awake=True) as fleet:
        if fleet is None:
            return
        check = functools.partial(turns, fleet, options.races, options.tokens)
        await checks.run("one awake: each lane twice", LIMIT_S, check)
        first = next(iter(fleet.lanes))
        await checks.run(f"one awake: top-{TOP_K} of {first}", LIMIT_S, lambda: hooks_after(fleet, first))


async def verify(options: argparse.Namespace) -> list[Check]:
    """Run all checks and print their table."""
    checks = Checks(options.seconds)
    if options.gguf is not None:
        await checks.run("embedded target", CONVERT_LIMIT_S, lambda: convert(options.gguf))
    await checks.run("top-k kernel", LIMIT_S, kernel)
    lanes = load_preset(options.preset).lanes
    chosen = [spec for spec in lanes if not options.lane or spec.name in options.lane]
    await check_resident(checks, chosen, options)
    if not options.no_sleep:
        await check_turns(checks, [chosen[0], chosen[-1]], options)
    print(f"\n{checks.table()}", flush=True)
    return checks.done


def main() -> int:
    """Parse the command line; 0 when everything passed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--gguf", type=Path, help=f"the folder that holds {GGUF_FILE}, to convert it")
    parser.add_argument("--preset", default="embedded-cuda")
    parser.add_argument("--lane", nargs="*", help="only these lanes of the preset")
    parser.add_argument("--prompts", type=int, default=24, help="prompts that are asked one at a time")
    parser.add_argument("--many", type=int, default=128, help="requests at once")
    parser.add_argument(
        "--races", type=int, default=4, help="prompts of a race, and of a lane that has slept"
    )
    parser.add_argument("--tokens", type=int, default=128, help="answer tokens at most")
    parser.add_argument("--seconds", type=float, default=560.0, help="the whole run's time limit")
    parser.add_argument("--no-sleep", action="store_true", help="leave out that one is awake at a time")
    done = asyncio.run(verify(parser.parse_args()))
    return 0 if done and all(check.passed for check in done) else 1


if __name__ == "__main__":
    sys.exit(main())
