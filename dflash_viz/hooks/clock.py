"""When something happened, on the worker's monotonic clock (s).

On the CPU an operation has ended when its call returns, so a moment is the host's time. On CUDA a call
only hands work in: a moment is a CUDA event in the runner's stream, and its time is the device's. It
is reached when the device has done everything before it, so where the device waits for the host, the
waiting counts to the span it falls into.
"""

from __future__ import annotations

import time
from typing import Any, Protocol

import torch

# The two clocks run apart by no more than this share of the time between two anchors.
DRIFT = 1e-4
# CUDA tells the time between events in single precision: after so long (s) it is no use any more.
ANCHOR_LIFE_S = 600.0


class Clock(Protocol):
    """Marks moments now and tells their times later; a mark is told once."""

    def host(self) -> float:
        """The host's time now (s)."""

    def settle(self) -> None:
        """Return when all work is done; not in a step."""

    def mark(self) -> Any:
        """This moment of the work."""

    def wait(self, mark: Any) -> None:
        """Return when the work before ``mark`` has been done."""

    def tell(self, mark: Any) -> float:
        """The time of a mark whose work has been done (s); the mark is used up."""

    def anchor(self, mark: Any) -> float:
        """The same of a mark that has just been waited for, which becomes the new zero of the times."""


class HostClock:
    """Every call returns when its work is done."""

    def host(self) -> float:
        """The host's time."""
        return time.monotonic()

    def settle(self) -> None:
        """Nothing is ever under way."""

    def mark(self) -> float:
        """The host's time."""
        return time.monotonic()

    def wait(self, mark: float) -> None:
        """Nothing is ever left to wait for."""

    def tell(self, mark: float) -> float:
        """A mark is its time."""
        return mark

    def anchor(self, mark: float) -> float:
        """The host's clock needs none."""
        return mark


class CudaClock:
    """Times from CUDA events, which are used again: making one costs more than recording it. They are
    no events that can be slept on (``blocking``), which cost several times as much again.

    An anchor is an event whose host time is known; other events are placed by their distance from it.
    The host sees an event late, never early, so a new anchor gets the earlier of two times: when the
    host saw it, and what the last anchor says (with an allowance for the clocks' drift).
    """

    def __init__(self) -> None:
        self._free: list[Any] = []
        # The runner's, in whose thread the hooks go on: to ask for it each time costs as much again.
        self._stream = torch.cuda.current_stream()
        self._event = self.mark()
        # Once, when the hooks go on, between two steps.
        self._event.synchronize()
        self._time = time.monotonic()

    def host(self) -> float:
        """The host's time; the device may be behind."""
        return time.monotonic()

    def settle(self) -> None:
        """Wait for the runner's stream."""
        self._stream.synchronize()

    def mark(self) -> Any:
        """An event in the runner's stream; asynchronous."""
        event = self._free.pop() if self._free else torch.cuda.Event(enable_timing=True)
        event.record(self._stream)
        return event

    def wait(self, mark: Any) -> None:
        """Wait for an event; most often it has happened, and asking is cheaper than waiting."""
        if not mark.query():
            mark.synchronize()

    def tell(self, mark: Any) -> float:
        """The device's time of the event."""
        told = float(self._time + self._event.elapsed_time(mark) / 1000.0)
        # Only now: the engine's thread may take it for its next mark at once.
        self._free.append(mark)
        return told

    def anchor(self, mark: Any) -> float:
        """Called after ``wait``: the host sees the event now."""
        before = self._event
        passed = before.elapsed_time(mark) / 1000.0
        told = float(self._time + passed)
        seen = time.monotonic()
        self._time = min(seen, told + passed * DRIFT) if passed < ANCHOR_LIFE_S else seen
        self._event = mark
        self._free.append(before)
        return told


def clock_for(device: torch.device) -> Clock:
    """The clock of a runner's device."""
    return CudaClock() if device.type == "cuda" else HostClock()
