"""Carries records out of the engine, several in a message.

To make a record and to send it, which wakes another thread and another process, takes a fast engine's
time at every step; so a thread of its own does both for what has gathered, some milliseconds after the
first.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any

import msgspec
import zmq

from dflash_viz.hooks.wire import Fault, Record

# Longer than a fast engine's step, shorter than a frame on a screen (s).
LINGER_S = 0.01
# So often it looks for more before it has to be woken, which takes the engine's time, too.
LOOKS = 100
# How long what has been sent may take to leave after the end (ms).
LAST_MS = 1000
_encoder = msgspec.msgpack.Encoder()

Item = Record | Callable[[], Record | None] | None
"""A record, what will make one or nothing, or nothing."""


class Courier:
    """Sends the records of one engine to ZeroMQ addresses in the order in which they came, and counts
    them. ``prepare`` is called in its thread first."""

    def __init__(self, engine: int, prepare: Callable[[], None] = lambda: None) -> None:
        self._engine = engine
        self._prepare = prepare
        self._seq = 0
        self._lock = threading.Lock()
        self._items: deque[Item] = deque()
        self._sockets: dict[str, Any] = {}
        self._something = threading.Event()
        self._closed = False
        threading.Thread(target=self._carry, name="dflash_viz-courier", daemon=True).start()

    def put(self, item: Item) -> None:
        """Take a record, or what makes one; returns at once."""
        self._items.append(item)
        if not self._something.is_set():
            self._something.set()

    def connect(self, address: str) -> None:
        """Send to this address too, from now on."""
        if address in self._sockets:
            return
        socket = zmq.Context.instance().socket(zmq.PUSH)
        # No limit on what waits: a slow reader costs memory, never a step.
        socket.set_hwm(0)
        socket.connect(address)
        with self._lock:
            self._send()
            self._sockets[address] = socket

    def disconnect(self, address: str) -> bool:
        """Send there no more; whether nobody is left, and the thread has been told to end."""
        with self._lock:
            self._send()
            if (socket := self._sockets.pop(address, None)) is not None:
                socket.close(linger=LAST_MS)
            self._closed = not self._sockets
        if self._closed:
            self._something.set()
        return self._closed

    def _carry(self) -> None:
        self._prepare()
        in_vain = LOOKS
        while not self._closed:
            if in_vain >= LOOKS:
                self._something.clear()
                # What came before that found it set and has woken nobody.
                if not self._items and not self._closed:
                    self._something.wait()
            time.sleep(LINGER_S)
            with self._lock:
                in_vain = 0 if self._send() else in_vain + 1

    def _take(self) -> list[Record]:
        taken: list[Record] = []
        while self._items:
            item = self._items.popleft()
            record = item() if callable(item) else item
            if record is not None:
                record.seq, record.engine = self._seq, self._engine
                self._seq += 1
                taken.append(record)
        return taken

    def _send(self) -> bool:
        """Send what has gathered; whether there was anything."""
        if not (records := self._take()):
            return False
        try:
            data = _encoder.encode(records)
        except Exception as error:  # the next ones may go; the hub counts these as lost
            data = _encoder.encode([Fault(self._seq, f"{type(error).__name__} in a record", self._engine)])
            self._seq += 1
        for socket in self._sockets.values():
            socket.send(data)
        return True
