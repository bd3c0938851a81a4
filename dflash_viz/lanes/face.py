"""What all lanes have in common, whoever has started their engine: what others see of them."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Literal

import msgspec

from dflash_viz.lanes.client import LaneClient
from dflash_viz.lanes.errors import LaneError
from dflash_viz.lanes.spec import LaneSpec
from dflash_viz.lanes.stream import stream_steps
from dflash_viz.trace import Message, Sampling, Step

State = Literal["queued", "weights", "loading", "ready", "asleep", "waking", "failed", "stopped"]
UNDER_WAY: tuple[State, ...] = ("weights", "loading")
STARTING: tuple[State, ...] = ("queued", *UNDER_WAY)
STARTED: tuple[State, ...] = ("ready", "asleep", "waking")
ENDED: tuple[State, ...] = ("failed", "stopped")


class LaneStatus(msgspec.Struct, frozen=True):
    """Where a lane stands; ``progress`` from 0 to 1 while it starts or wakes, ``seconds_left`` when a
    start of this lane has been timed before."""

    state: State
    message: str
    progress: float | None = None
    seconds_left: float | None = None


class LaneFace(ABC):
    """A lane as the fleet, a race and the page know it. ``client`` is there while it is ready."""

    # Whether its engine shares this machine with the others'.
    shares_machine = True

    def __init__(self, spec: LaneSpec) -> None:
        self.spec = spec
        self.client: LaneClient | None = None
        self.status = LaneStatus("queued", "waiting to start")
        # Who else is told why it has failed, or has no steps.
        self.tell: Callable[[str], None] = lambda _: None

    def answer_with(self, client: LaneClient, note: str = "") -> None:
        """From now on it answers; ``note`` is what else there is to say of it."""
        self.client = client
        words = ["counts only"] if client.counts_only else []
        self.status = LaneStatus("ready", "; ".join([*words, note] if note else words) or "ready")

    def fail(self, why: str) -> None:
        """It has failed; a failure that goes on is told once."""
        status = LaneStatus("failed", why)
        if self.status != status:
            self.tell(f"failed: {why}")
        self.status = status

    @abstractmethod
    def start(self) -> None:
        """Begin to become ready; returns at once, ``status`` says how far it is."""

    @abstractmethod
    def queue(self) -> bool:
        """Make a lane that has ended wait for its start again; whether ``start`` is to be called."""

    @abstractmethod
    def pause(self) -> bool:
        """Let nothing of a start take time; whether ``resume`` is to be called."""

    @abstractmethod
    def resume(self) -> None:
        """Let a suspended start go on."""

    @property
    @abstractmethod
    def paused(self) -> bool:
        """Whether its start stands still at the moment."""

    @abstractmethod
    def close(self) -> None:
        """End it for good."""

    def wait_ready(self, timeout: float = 600.0) -> None:
        """Block until its engine has started: it is ready, or sleeps where one is awake at a time.

        Raises ``LaneError`` when it fails instead.
        """
        deadline = time.monotonic() + timeout
        while self.status.state in STARTING and time.monotonic() < deadline:
            time.sleep(0.1)
        if self.status.state not in STARTED:
            raise LaneError(self.status.message)

    def stream(
        self,
        messages: str | list[Message],
        sampling: Sampling | None = None,
        top_k: int = 0,
    ) -> Iterator[Step]:
        """Answer one prompt or chat; yields every engine step as it happens, prefill first.

        ``top_k`` > 0 records that many probabilities per position. Leaving the loop stops the engine.
        Raises ``LaneError`` when the lane is not ready, its engine ends, or its steps cannot be recorded.
        """
        if self.client is None:
            raise LaneError(f"Lane {self.spec.name!r} is not ready: {self.status.message.removesuffix('.')}.")
        if self.client.counts_only:
            raise LaneError(f"Lane {self.spec.name!r} has no steps to show. {self.client.counts_only}")
        turns = [Message("user", messages)] if isinstance(messages, str) else messages
        return stream_steps(self.client.run(turns, sampling or Sampling(), top_k))
