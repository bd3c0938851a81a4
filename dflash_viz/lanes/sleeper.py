"""A lane whose engine can sleep, so that several have one GPU in turn.

Asleep (vLLM's level 1) an engine's weights wait in this machine's memory and its KV cache is gone; what
is left on the GPU is the process itself, about 1 GB. Level 2 would give the machine's memory away too,
but loses the drafter's weights.
"""

from __future__ import annotations

from pathlib import Path

import httpx
import msgspec

from dflash_viz.hooks.wire import ROUTE
from dflash_viz.lanes.access import credentials
from dflash_viz.lanes.client import LaneClient
from dflash_viz.lanes.device import weight_bytes
from dflash_viz.lanes.errors import LaneError
from dflash_viz.lanes.face import ENDED, State
from dflash_viz.lanes.lane import Lane
from dflash_viz.lanes.ram import free_ram
from dflash_viz.lanes.room import PINNED
from dflash_viz.lanes.self_test import al_words, is_worse, measure_al
from dflash_viz.lanes.server import EngineServer
from dflash_viz.lanes.spec import LaneSpec

# Moving a large model's weights takes seconds, making room for them in pinned memory several more.
SWITCH_TIMEOUT_S = 300.0
# What the rest of the machine keeps.
RAM_MARGIN = 10**9
LOST_DRAFTER = (
    "Usual cause: the drafter's weights are gone, as after a sleep at level 2, or were changed on disk. If "
    "that was on purpose, start the lane again: it then takes them as they are."
)


class Sleeper(Lane):
    """Owns an engine that sleeps and wakes. Only one may be awake: whoever calls sees to that, and
    to one call at a time."""

    def __init__(self, spec: LaneSpec) -> None:
        super().__init__(spec)
        # The client while the engine sleeps.
        self._resting: LaneClient | None = None
        # What must be left of this machine's memory for it. An engine never gives back what it slept in,
        # and sleeps in it again.
        self._ram_needed = 0.0
        # The self-test's AL when the lane first became ready; forgotten once the lane has failed for it, so
        # that whoever starts it again knows, and has it with the drafter as it is.
        self._first_al: float | None = None
        # What was wrong when it last woke.
        self._trouble = ""
        # Why we have ended the engine ourselves.
        self._verdict = ""

    def make_room(self) -> None:
        """Take no memory of the GPU: an engine that is awake goes to sleep, or is ended if it does not.

        Raises ``LaneError`` when this machine's memory cannot hold its weights; it stays awake then.
        """
        if self.status.state == "ready":
            self._sleep()
        elif self.status.state in (*ENDED, "queued") and self._thread is not None:
            self._thread.join()  # an engine that has failed may be on its way out still

    def _sleep(self) -> None:
        self._check_ram()
        client, self.client = self.client, None
        try:
            self._post("sleep")
        except LaneError as error:
            self._verdict = f"Its engine could not be put to sleep, and was ended: {error}"
            self._end_engine()
            return
        self._resting, self._ram_needed = client, 0.0
        self._move("ready", "asleep", "asleep")

    def _check_ram(self) -> None:
        free = free_ram()
        if self._ram_needed and self._ram_needed + RAM_MARGIN > free:
            raise LaneError(
                f"Lane {self.spec.name!r} has the GPU and cannot be put to sleep: its weights need "
                f"{self._ram_needed / 1e9:.1f} GB of this machine's memory, where {free / 1e9:.1f} GB are "
                "available. Close other programs, or give the preset fewer lanes or smaller models."
            )

    def wake(self) -> bool:
        """Wake a sleeping engine and test its drafts; whether it has to be started anew instead, and
        has been ended for that."""
        client = self._resting
        if client is None or not self._move("asleep", "waking", "waking", 0.3):
            return False
        try:
            self._post("wake")
            self._move("waking", "waking", "testing its drafts", 0.7)
            now = measure_al(client)
        except LaneError as error:
            self._trouble = f"Its engine did not wake: {error}"
        else:
            words = al_words(self._first_al, now)
            if not is_worse(self._first_al, now):
                self._answer_again(client, f"awake again: {words}" if words else "awake again")
                return False
            self._trouble = f"After it had slept its drafts were worse ({words})."
        self.close()
        return True

    def _answer_again(self, client: LaneClient, note: str) -> None:
        with self._lock:
            if self.status.state == "waking":
                self.answer_with(client, note)

    def _move(self, before: State, state: State, message: str, progress: float | None = None) -> bool:
        """Change the state, unless the engine has died or been closed meanwhile; whether it was changed."""
        with self._lock:
            if moved := self.status.state == before:
                self._set(state, message, progress)
            return moved

    def _end_engine(self) -> None:
        """The lane fails with the verdict, and its memory is free."""
        if self._server is not None:
            self._server.stop()
        if self._thread is not None:
            self._thread.join()

    def _death(self, server: EngineServer) -> str:
        return self._verdict or super()._death(server)

    def _post(self, what: str) -> None:
        """Call a route of the hooks. Raises ``LaneError`` when the engine refuses or is silent."""
        assert self._server is not None
        url, headers = f"{self._server.url}{ROUTE}/{what}", credentials(self._server.token, "")
        try:
            answer = httpx.post(url, headers=headers, timeout=SWITCH_TIMEOUT_S, verify=False)
        except httpx.HTTPError as error:
            raise LaneError(f"it does not answer ({type(error).__name__}).") from error
        if answer.status_code != 200:
            raise LaneError(_reason(answer))

    def _make_server(self, target: Path, drafter: Path | None) -> EngineServer:
        self._verdict = ""
        folders = [target] if drafter is None else [target, drafter]
        dtype = self.spec.engine.get("dtype")
        self._ram_needed = PINNED * sum(weight_bytes(folder, dtype) for folder in folders)
        engine = {**self.spec.engine, "enable-sleep-mode": True}
        return EngineServer(msgspec.structs.replace(self.spec, engine=engine), target, drafter)

    def _warm_up(self, client: LaneClient) -> None:
        # The very first request: as after waking, nothing of it is in the prefix cache.
        now, trouble = measure_al(client), self._trouble
        words = al_words(self._first_al, now)
        if is_worse(self._first_al, now):
            self._first_al, self._trouble = None, f"Its drafts were worse before ({words})."
            raise LaneError(f"{trouble} A new start did not help: {words}. {LOST_DRAFTER}".lstrip())
        self._note = f"started anew: {words or 'nothing to compare'}. {trouble}" if trouble else ""
        self._first_al, self._trouble = self._first_al or now, ""
        super()._warm_up(client)


def _reason(answer: httpx.Response) -> str:
    try:
        return f"{answer.json()['error']}."
    except (ValueError, KeyError, TypeError):
        return f"it answered with status {answer.status_code}."
