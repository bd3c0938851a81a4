"""Above temperature 0: the numbers that decided about each drafted token, as the engine drew them."""

from __future__ import annotations

import asyncio

import pytest

from dflash_viz.lanes import Fleet
from dflash_viz.trace import Message, Sampling, Step, Trace

pytestmark = pytest.mark.engine

PROMPT = "Repeat: apples, pears, plums. Repeat again: apples, pears, plums."
HOT = Sampling(temperature=1.0, top_p=0.9, seed=3, max_tokens=48)


async def record(fleet: Fleet, lane: str, sampling: Sampling) -> Trace:
    client = fleet.lanes[lane].client
    assert client is not None
    lines = [line async for line in client.run([Message("user", PROMPT)], sampling, top_k=3)]
    return Trace(lines[0], [line for line in lines if isinstance(line, Step)], lines[-1])


@pytest.mark.parametrize("name", ["dflash", "ngram"])
async def test_the_rule_decides_as_the_engine_did(fleet: Fleet, name: str) -> None:
    """A greedy request runs in the same batch: it has no draws, and the other one keeps its own."""
    trace, cold = await asyncio.gather(record(fleet, name, HOT), record(fleet, name, Sampling(max_tokens=48)))
    assert not any(p.draw for s in cold.steps for p in s.positions)
    decided = 0
    for step in (s for s in trace.steps if s.drafted):
        draws = [position.draw for position in step.positions]
        assert None not in draws[:-1]
        assert draws[-1] is None
        for i, draw in enumerate(draws[: min(step.num_accepted + 1, step.num_drafted)]):
            assert 0 <= draw.p <= 1.0001
            assert draw.q == 1  # both propose their best token without a draw
            assert (draw.u <= min(1, draw.p / draw.q)) == (i < step.num_accepted), (step.index, i)
            decided += 1
    assert decided > 10
    assert sum(s.num_accepted for s in trace.steps)
    if name == "dflash":
        first = next(s for s in trace.steps if s.drafted).positions[0]
        assert first.p_drafter_drafted == pytest.approx(first.drafter[0].p)
    else:
        fingerprint = trace.header.fingerprint
        assert (fingerprint.prompt_lookup_min, fingerprint.prompt_lookup_max) == (2, 5)
