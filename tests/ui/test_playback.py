"""What a run that is over says of itself."""

from __future__ import annotations

import json

import msgspec
import pytest

from dflash_viz.trace import ModelPrint, Trace
from dflash_viz.ui.playback import race_lines
from tests.conftest import make_header


@pytest.fixture
def plain(trace: Trace) -> Trace:
    """The same answer without speculation, at half the speed."""
    fingerprint = msgspec.structs.replace(make_header().fingerprint, method="none", num_speculative_tokens=0)
    steps = [
        msgspec.structs.replace(step, start=2 * step.start, end=2 * step.end, drafted=[], num_accepted=0)
        for step in trace.steps
    ]
    return Trace(make_header(lane="none", fingerprint=fingerprint), steps, trace.end)


def speedups(*traces: Trace) -> dict[str, str]:
    lines = [json.loads(line) for line in race_lines(traces).splitlines()]
    return {line["lane"]: line["values"]["speedup"] for line in lines}


def changed(trace: Trace, **fields: object) -> Trace:
    fingerprint = msgspec.structs.replace(trace.header.fingerprint, **fields)
    return Trace(msgspec.structs.replace(trace.header, fingerprint=fingerprint), trace.steps, trace.end)


def test_lanes_of_one_machine_are_compared(trace: Trace, plain: Trace) -> None:
    assert speedups(trace, plain) == {"dflash": "2.00", "none": "1.00"}


def test_times_that_mean_nothing_give_no_speedup(trace: Trace, plain: Trace) -> None:
    """Files from anywhere can be opened together: another device, another target, contended lanes."""
    assert "dflash" not in speedups(changed(trace, device="H200"), plain)
    assert "dflash" not in speedups(changed(trace, target=ModelPrint("other")), plain)
    contended = msgspec.structs.replace(plain.header, contended_with=["dflash"])
    assert speedups(trace, Trace(contended, plain.steps, plain.end)) == {}
    shared = [msgspec.structs.replace(step, batch_size=2) for step in trace.steps]
    assert "dflash" not in speedups(Trace(trace.header, shared, trace.end), plain)
