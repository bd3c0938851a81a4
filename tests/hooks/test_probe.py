"""Which adapter a worker takes, and where its records go."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
import zmq
import zmq.asyncio

from dflash_viz.hooks import probe
from dflash_viz.hooks.probe import Outlet, Probe, choose_adapter
from dflash_viz.hooks.route import StepHub
from dflash_viz.hooks.v1 import V1Adapter
from dflash_viz.hooks.v2 import V2Adapter
from dflash_viz.hooks.wire import EngineStep, Fault, Record, Row
from tests.hooks.conftest import Ticks
from tests.hooks.stand_ins import Runner1, Runner2, Scheduled
from tests.hooks.test_v2 import favouring, launch

DESCRIBE = probe.describe
_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.json.Decoder(Record)


class Worker(Probe):
    """vLLM's worker with the extension mixed in."""

    def __init__(self, runner: Any, rank: int = 0) -> None:
        self.model_runner = runner
        self.rank = rank


@pytest.fixture(autouse=True)
def described(monkeypatch: pytest.MonkeyPatch) -> None:
    """What an engine tells about itself is another matter."""
    monkeypatch.setattr(probe, "describe", lambda runner, kind: {"kind": kind})


def test_the_adapter_that_fits() -> None:
    assert choose_adapter(Runner1("cuda", True)) is V1Adapter
    assert choose_adapter(Runner2(None)) is V2Adapter


def test_an_unknown_runner_is_told_and_left_alone() -> None:
    runner = SimpleNamespace(parallel_config=SimpleNamespace(pipeline_parallel_size=1))
    answer = Worker(runner).dflash_viz_install("ipc:///nowhere")
    assert answer["steps"] is False
    assert "counts still can" in answer["why"]
    assert "V1: " in answer["why"]
    assert "V2: " in answer["why"]
    assert answer["kind"] is None
    assert set(vars(runner)) == {"parallel_config"}


def test_other_ranks_say_nothing() -> None:
    assert Worker(None, rank=1).dflash_viz_install("ipc:///nowhere") == {}


async def received(socket: Any, number: int) -> list[Record]:
    """So many records, in however many messages."""
    found: list[Record] = []
    async with asyncio.timeout(10):
        while len(found) < number:
            found += msgspec.msgpack.decode(await socket.recv(), type=list[Record])
    return found


def decoded(events: bytes) -> list[Record]:
    """The records of some server-sent events."""
    return [_decoder.decode(event[6:]) for event in events.split(b"\n\n") if event]


async def test_every_address_gets_every_record(ticks: Ticks, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two processes of one API server ask one engine of several; then one of them leaves."""
    monkeypatch.setattr(probe, "repair_sampling", lambda *_: [])
    runner = Runner2(None)
    # As vLLM leaves it where each engine runs as if alone.
    runner.parallel_config.data_parallel_index = 1
    worker = Worker(runner)
    sockets, addresses = [], []
    for _ in range(2):
        socket = zmq.asyncio.Context.instance().socket(zmq.PULL)
        port = socket.bind_to_random_port("tcp://127.0.0.1")
        sockets.append(socket)
        addresses.append(f"tcp://127.0.0.1:{port}")
        assert worker.dflash_viz_install(addresses[-1])["steps"] is True
    worker.dflash_viz_install(addresses[0])  # asked twice, it gets each record once
    for _ in range(2):
        runner.plan({"a": [1]}, favouring(3))
        launch(runner, Scheduled()).get_output()
    for socket in sockets:
        assert [(r.seq, r.engine) for r in await received(socket, 2)] == [(0, 1), (1, 1)]
    worker.dflash_viz_remove(addresses[0])
    runner.plan({"a": [1]}, favouring(3))
    launch(runner, Scheduled()).get_output()
    worker.dflash_viz_remove(addresses[1])
    assert [r.seq for r in await received(sockets[1], 1)] == [2], "sent before the socket closed"
    assert "sample" not in vars(runner)
    worker.dflash_viz_remove(addresses[1])
    for socket in sockets:
        socket.close(linger=0)


def test_an_engine_without_data_parallelism_is_the_first(ticks: Ticks) -> None:
    assert Outlet(Runner2(None), V2Adapter)._courier._engine == 0


async def test_the_hub_counts_each_engines_records(ticks: Ticks) -> None:
    """Two engines count for themselves; what one of them lost is told, and only that."""
    hub = StepHub()
    events = hub.watch("")
    assert await anext(events) == b": watching\n\n"
    socket = zmq.asyncio.Context.instance().socket(zmq.PUSH)
    socket.connect(hub.address)
    for engine, seq in [(0, 0), (1, 7), (0, 1), (1, 8), (0, 3), (1, 9)]:
        step = EngineStep(seq, 0.0, 1.0, [Row("r", seq, [1])], engine=engine)
        await socket.send(_encoder.encode([step]))
    found: list[Record] = []
    async with asyncio.timeout(10):
        while len(found) < 7:
            found += decoded(await anext(events))
    assert [(type(r).__name__, r.engine, r.seq) for r in found] == [
        ("EngineStep", 0, 0),
        ("EngineStep", 1, 7),
        ("EngineStep", 0, 1),
        ("EngineStep", 1, 8),
        ("Fault", 0, 3),
        ("EngineStep", 0, 3),
        ("EngineStep", 1, 9),
    ]
    assert found[4].message == "1 engine steps were lost"
    socket.close(linger=0)
    hub.close()


async def test_every_watcher_gets_the_rows_of_its_requests() -> None:
    hub = StepHub()
    watched = {prefix: hub.watch(prefix) for prefix in ("", "a-", "a-1", "b-")}
    for events in watched.values():
        await anext(events)
    rows = [Row(r, 0, [1]) for r in ("a-1", "a-12", "a-2", "a", "c-1")]
    hub._publish(EngineStep(0, 0.0, 1.0, rows))
    hub._publish(Fault(1, "lost"))
    got = {}
    for prefix, events in watched.items():
        first, *_ = decoded(await anext(events))
        got[prefix] = (
            [row.request_id for row in first.rows] if isinstance(first, EngineStep) else first.message
        )
        await events.aclose()
    assert got == {
        "": ["a-1", "a-12", "a-2", "a", "c-1"],
        "a-": ["a-1", "a-12", "a-2"],
        "a-1": ["a-1", "a-12"],
        "b-": "lost",
    }
    assert not hub._watchers
    hub.close()


def model(name: str, **configuration: Any) -> SimpleNamespace:
    """``ModelConfig``, as far as an engine tells of it."""
    hf = SimpleNamespace(to_dict=lambda: configuration, **configuration)
    text = SimpleNamespace(vocab_size=16, num_hidden_layers=2)
    return SimpleNamespace(
        model=name,
        dtype="torch.bfloat16",
        quantization=None,
        hf_config=hf,
        hf_text_config=text,
        enforce_eager=False,
    )


def groups(*names: str) -> list[list[SimpleNamespace]]:
    """``attn_groups`` of the V2 runner and of its speculator."""
    return [[SimpleNamespace(backend=SimpleNamespace(get_name=lambda n=name: n))] for name in names]


@pytest.mark.parametrize("counts", [None, "none", "detailed"])
def test_what_a_v2_engine_tells(monkeypatch: pytest.MonkeyPatch, counts: str | None) -> None:
    """0.26 has no setting for the counts of each answer."""
    monkeypatch.setattr(probe.torch.cuda, "get_device_name", lambda device: "NVIDIA H200")
    speculator = SimpleNamespace(
        attn_groups=groups("FLASH_ATTN"), model=SimpleNamespace(get_draft_attn_causal=lambda: [False, False])
    )
    config = SimpleNamespace(
        speculative_config=SimpleNamespace(
            method="dflash",
            num_speculative_tokens=7,
            draft_sample_method="probabilistic",
            prompt_lookup_min=0,
            prompt_lookup_max=0,
            draft_model_config=model("d", block_size=8, dflash_config={"target_layer_ids": [1, 8]}),
        ),
        model_config=model("t"),
        compilation_config=SimpleNamespace(cudagraph_mode="FULL_AND_PIECEWISE"),
        scheduler_config=SimpleNamespace(async_scheduling=True),
        cache_config=SimpleNamespace(enable_prefix_caching=True),
        observability_config=SimpleNamespace(
            **({} if counts is None else {"per_request_spec_decode_metrics": counts})
        ),
    )
    runner = SimpleNamespace(
        vllm_config=config,
        speculator=speculator,
        attn_groups=groups("TRITON_ATTN", "FLASHINFER"),
        device=SimpleNamespace(type="cuda"),
    )
    told = DESCRIBE(runner, V2Adapter)
    assert (told["model_runner"], told["device"], told["graph_mode"]) == (
        "V2",
        "NVIDIA H200",
        "FULL_AND_PIECEWISE",
    )
    assert told["per_request_counts"] is (counts == "detailed")
    assert told["target"]["attention_backend"] == "FLASHINFER, TRITON_ATTN"
    drafter = told["drafter"]
    assert (drafter["attention_backend"], drafter["causal"], drafter["layer_ids"]) == (
        "FLASH_ATTN",
        False,
        [1, 8],
    )
    assert DESCRIBE(runner, None)["model_runner"] is None
