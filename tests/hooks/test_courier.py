"""What the courier sends: in order, counted, several in a message."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import msgspec
import pytest
import zmq

from dflash_viz.hooks import courier as module
from dflash_viz.hooks.courier import Courier
from dflash_viz.hooks.wire import EngineStep, Fault, Record

TIMEOUT_MS = 10_000


@pytest.fixture
def socket() -> Iterator[zmq.Socket]:
    made = zmq.Context.instance().socket(zmq.PULL)
    made.setsockopt(zmq.RCVTIMEO, TIMEOUT_MS)
    made.bind_to_random_port("tcp://127.0.0.1")
    yield made
    made.close(linger=0)


def connected(socket: zmq.Socket, engine: int = 0) -> tuple[Courier, str]:
    made, address = Courier(engine), socket.getsockopt(zmq.LAST_ENDPOINT).decode()
    made.connect(address)
    return made, address


def message(socket: zmq.Socket) -> list[Record]:
    return msgspec.msgpack.decode(socket.recv(), type=list[Record])


def step() -> EngineStep:
    return EngineStep(0, 0.0, 1.0, [])


def test_what_gathers_is_one_message_made_in_another_thread(
    socket: zmq.Socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LINGER_S", 0.2)
    courier, address = connected(socket, engine=3)
    threads = []

    def make() -> Record:
        threads.append(threading.current_thread())
        return step()

    for item in (step(), make, lambda: None, None, Fault(0, "lost")):
        courier.put(item)
    records = message(socket)
    assert [(type(r), r.seq, r.engine) for r in records] == [
        (EngineStep, 0, 3),
        (EngineStep, 1, 3),
        (Fault, 2, 3),
    ]
    assert threads[0] is not threading.current_thread()
    courier.put(step())
    assert [r.seq for r in message(socket)] == [3]
    assert courier.disconnect(address)


def test_what_comes_as_it_falls_asleep_is_sent(socket: zmq.Socket, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LINGER_S", 0.001)
    monkeypatch.setattr(module, "LOOKS", 1)
    courier, address = connected(socket)
    for i in range(200):
        time.sleep(i % 40 / 10_000)
        courier.put(step())
        assert [r.seq for r in message(socket)] == [i]
    assert courier.disconnect(address)


def test_whoever_leaves_gets_what_was_before(socket: zmq.Socket, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LINGER_S", 60.0)
    courier, address = connected(socket)
    courier.put(step())
    assert courier.disconnect(address)
    assert [r.seq for r in message(socket)] == [0]


def test_the_thread_ends_with_the_last_address(socket: zmq.Socket) -> None:
    before = set(threading.enumerate())
    courier, address = connected(socket)
    (thread,) = set(threading.enumerate()) - before
    courier.put(step())
    assert courier.disconnect(address)
    thread.join(10)
    assert not thread.is_alive()


def test_a_record_that_cannot_be_sent_is_a_fault_and_ends_nothing(socket: zmq.Socket) -> None:
    courier, address = connected(socket)
    courier.put(Fault(0, "no file \udcff"))
    (fault,) = message(socket)
    assert isinstance(fault, Fault)
    assert fault.message == "UnicodeEncodeError in a record"
    courier.put(step())
    assert [type(r) for r in message(socket)] == [EngineStep]
    assert courier.disconnect(address)


def test_its_thread_is_prepared() -> None:
    prepared = threading.Event()
    Courier(0, prepared.set)
    assert prepared.wait(10)
