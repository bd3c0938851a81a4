"""A lane: its engine's whole life, from the weights to the end, in one place that others watch."""

from __future__ import annotations

import contextlib
import hashlib
import json
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import httpx
import msgspec
import psutil

from dflash_viz.hooks.wire import ROUTE
from dflash_viz.lanes.access import credentials
from dflash_viz.lanes.client import LaneClient
from dflash_viz.lanes.detokenize import Detokenizer
from dflash_viz.lanes.errors import LaneError
from dflash_viz.lanes.face import ENDED, STARTING, LaneFace, LaneStatus, State
from dflash_viz.lanes.preflight import check_pair, check_spec
from dflash_viz.lanes.prints import Told, fingerprint, misfit, model_print, read_told
from dflash_viz.lanes.server import MODEL_NAME, EngineServer
from dflash_viz.lanes.spec import LaneSpec, file_name
from dflash_viz.lanes.stream import stream_steps
from dflash_viz.trace import PLAIN, UNKNOWN, Fingerprint, Message, Sampling
from dflash_viz.weights.resolver import EMBEDDED, EMBEDDED_NAME, ROOT, cache_dir

# First passes compile and allocate, n-gram's first lookup for seconds: that is nobody's decode time.
WARM_UP = [Message("user", "Repeat: one two three one two three one two three.")]
# With probabilities, as the page asks: on a GPU the kernels that find them are compiled at first.
WARM_TOP_K = 5
# Without pauses. Kernels of a large model take minutes to compile; an engine that hangs never answers.
WARM_LIMIT_S = 600.0
WATCH_INTERVAL_S = 1.0
# Long: the engine may be suspended meanwhile.
HELLO_TIMEOUT_S = 600.0
# So that one slow answer of a busy engine is no death.
MISSES_ALLOWED = 2


class Lane(LaneFace):
    """Owns one engine. ``start`` returns at once; ``status`` says how far it is."""

    def __init__(self, spec: LaneSpec) -> None:
        super().__init__(spec)
        self._server: EngineServer | None = None
        self._preparing: subprocess.Popen[str] | None = None
        self._thread: threading.Thread | None = None
        self._closing = threading.Event()
        self._going = threading.Event()
        self._going.set()
        self._lock = threading.RLock()
        self._timer = StartTimer(spec.name)
        # What is said of it beside that it is ready.
        self._note = ""

    def queue(self) -> bool:
        """Make a lane that has ended wait for its start again; whether it had ended."""
        with self._lock:  # two tabs may press the same button
            ended = self.status.state in ENDED
            if ended:
                self._set("queued", "waiting to start")
            return ended

    def start(self) -> None:
        """Start the engine in the background; again after a failure or a stop."""
        with self._lock:
            previous = self._thread
            if previous is not None and self.status.state not in (*ENDED, "queued"):
                return
            self._closing = threading.Event()
            self._set("loading", "about to start", 0.0)
            name = f"lane-{self.spec.name}"
            self._thread = threading.Thread(target=self._live, args=(previous,), name=name, daemon=True)
            self._thread.start()

    def pause(self) -> bool:
        """Suspend a start that is under way, so that it takes no time from what is being timed.

        Returns whether there is one, and so whether ``resume`` is to be called.
        """
        with self._lock:  # a lane that becomes ready in this moment is not suspended any more
            starting = self.status.state in STARTING
            if starting:
                self._going.clear()
                self._suspend()
            return starting

    def resume(self) -> None:
        """Let a suspended start go on."""
        _signal_all(self._processes(), psutil.Process.resume)
        self._going.set()

    def _suspend(self) -> None:
        """Suspend every process of the start, those too that are born meanwhile."""
        seen: set[psutil.Process] = set()
        while fresh := set(self._processes()) - seen:
            _signal_all(fresh, psutil.Process.suspend)
            seen |= fresh

    @property
    def paused(self) -> bool:
        """Whether its start stands still at the moment."""
        return not self._going.is_set() and self.status.state in STARTING

    def _processes(self) -> list[psutil.Process]:
        """The engine's processes. Not the keeper: suspended, it could not end them after the app."""
        keeper = self._server.keeper_pid if self._server is not None else None
        with contextlib.suppress(psutil.NoSuchProcess):
            if keeper is not None:
                return psutil.Process(keeper).children(recursive=True)
        return []

    def close(self) -> None:
        """Stop the engine and wait until nothing of it runs."""
        self._closing.set()
        self.resume()
        if (preparing := self._preparing) is not None:
            preparing.kill()
        if self._server is not None:
            self._server.stop()
        if self._thread is not None:
            self._thread.join()

    def _set(self, state: State, message: str, progress: float | None = None) -> None:
        left = self._timer.seconds_left() if state == "loading" else None
        with self._lock:
            self.status = LaneStatus(state, message, progress, left)

    def _live(self, previous: threading.Thread | None) -> None:
        if previous is not None:  # a failed engine may still be on its way out
            previous.join()
        try:
            self._become_ready(self._start_engine())
            self._watch()
        except LaneError as error:
            self._fail_open(str(error))
        except Exception as error:  # a lane must never hang in a state that offers no way on
            traceback.print_exc()
            self._fail_open(f"{type(error).__name__}: {error}")
        finally:
            self.client = None
            if self._server is not None:
                self._server.stop()
        if self._closing.is_set():
            self._set("stopped", "stopped")

    def _fail_open(self, why: str) -> None:
        """It has failed, unless it is being closed: what breaks off then is no failure."""
        if not self._closing.is_set():
            self.fail(why)

    def fail(self, why: str) -> None:
        """See ``LaneFace.fail``."""
        with self._lock:
            super().fail(why)

    def _become_ready(self, client: LaneClient) -> None:
        while True:
            self._check_open()
            with self._lock:
                if self._going.is_set():
                    self.answer_with(client, self._note)
                    return

    def _start_engine(self) -> LaneClient:
        check_spec(self.spec)
        target, target_hash = self._weights(self.spec.target)
        drafter, drafter_hash = self._weights(self.spec.drafter) if self.spec.drafter else (None, None)
        check_pair(self.spec, target, drafter)
        self._server = self._make_server(target, drafter)
        self._timer.start()
        self._server.start(self._loading)
        client = connect(self.spec, self._server, target, (target_hash, drafter_hash))
        self._loading(0.99, "warming up")
        self._warm_up(client)
        self._timer.stop()
        return client

    def _make_server(self, target: Path, drafter: Path | None) -> EngineServer:
        return EngineServer(self.spec, target, drafter)

    def _warm_up(self, client: LaneClient) -> None:
        answered, late = threading.Event(), threading.Event()
        threading.Thread(target=self._end_if_silent, args=(answered, late), daemon=True).start()
        try:
            for _ in stream_steps(client.run(WARM_UP, Sampling(max_tokens=24), WARM_TOP_K)):
                self._check_open()
        except LaneError as error:
            if not late.is_set():
                raise
            assert self._server is not None
            why = f"The engine did not answer its first question within {WARM_LIMIT_S:g} s."
            raise LaneError(f"{why} {self._server.failure()}") from error
        finally:
            answered.set()

    def _end_if_silent(self, answered: threading.Event, late: threading.Event) -> None:
        """End the engine that takes too long, as nobody else watches one that warms up."""
        assert self._server is not None
        left = WARM_LIMIT_S
        while left > 0:
            if answered.wait(WATCH_INTERVAL_S):
                return
            left -= WATCH_INTERVAL_S if self._going.is_set() else 0.0
        late.set()
        self._server.stop()

    def _check_open(self) -> None:
        """Holds a paused start, and ends a closed one, wherever it is."""
        if not self._going.is_set():
            self._suspend()  # what was born since the pause began
            began = time.monotonic()
            self._going.wait()
            self._timer.leave_out(time.monotonic() - began)
        if self._closing.is_set():
            raise LaneError("The lane was closed while it started.")

    def _loading(self, fraction: float, message: str) -> None:
        self._check_open()
        self._set("loading", message, fraction)

    def _weights(self, name: str) -> tuple[Path, str]:
        """Resolve a model in a process of its own, as the app never loads torch: folder and hash."""
        self._check_open()
        process = subprocess.Popen(
            [sys.executable, "-m", "dflash_viz.weights", name],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=ROOT,
            text=True,
        )
        self._preparing = process
        assert process.stdout is not None
        last: dict[str, Any] = {}
        try:
            for line in process.stdout:
                self._check_open()
                last = json.loads(line)
                self._set("weights", last.get("message", "preparing the weights"), last.get("progress"))
        except LaneError:
            process.kill()
            raise
        finally:
            self._preparing = None
            status = process.wait()
        if status != 0 or "path" not in last:
            raise LaneError(last.get("error", f"The weights of {name} could not be prepared."))
        return Path(last["path"]), last["content_hash"]

    def _watch(self) -> None:
        assert self._server is not None
        misses = 0
        while not self._closing.wait(WATCH_INTERVAL_S):
            health = self._server.health()
            # One that sleeps, or is on its way there or back, has nobody to answer.
            misses = 0 if health == "good" or self.client is None else misses + 1
            if health == "dead" or misses > MISSES_ALLOWED:
                if self._closing.is_set():
                    return
                raise LaneError(self._death(self._server))

    def _death(self, server: EngineServer) -> str:
        return f"The engine has ended unexpectedly. {server.failure()}"


def _signal_all(processes: Iterable[psutil.Process], action: Callable[[psutil.Process], None]) -> None:
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            action(process)


class StartTimer:
    """Remembers in the cache how long a lane's last start took, to say how long this one will."""

    def __init__(self, lane: str) -> None:
        self._file = cache_dir() / f"start-{file_name(lane)}.txt"
        self._began = 0.0
        self._expected: float | None = None

    def start(self) -> None:
        """The engine begins to start now."""
        self._began = time.monotonic()
        try:
            self._expected = float(self._file.read_text())
        except (OSError, ValueError):
            self._expected = None

    def seconds_left(self) -> float | None:
        """Seconds until it should be ready; None when nobody knows, or it is late."""
        if self._expected is None:
            return None
        left = self._expected - (time.monotonic() - self._began)
        return left if left > 0 else None

    def leave_out(self, seconds: float) -> None:
        """The start stood still for so long."""
        self._began += seconds

    def stop(self) -> None:
        """It is ready. Where this cannot be written down, the next start gives no estimate."""
        with contextlib.suppress(OSError):
            self._file.write_text(f"{time.monotonic() - self._began:.1f}\n")


Hashes = tuple[str, str | None]
"""Content hashes of the target and of the drafter, if there is one."""


def connect(spec: LaneSpec, server: EngineServer, target: Path, hashes: Hashes) -> LaneClient:
    """Install the hooks in a running server and return its client.

    Where they do not fit this vLLM, the client has counts only, and says so. Raises ``LaneError`` when
    the server cannot be reached.
    """
    headers = credentials(server.token, "")
    try:
        answer = httpx.get(f"{server.url}{ROUTE}/hello", headers=headers, timeout=HELLO_TIMEOUT_S)
        told = read_told(answer.raise_for_status().json())
    except (httpx.HTTPError, ValueError) as error:
        raise LaneError(f"The hooks could not be installed: {error}. {server.failure()}") from error
    client = LaneClient(
        spec.name,
        server.url,
        server.token,
        _fingerprint(spec, told, target, hashes),
        Detokenizer.from_folder(target),
        MODEL_NAME,
        counts_only="" if told.steps else misfit(told),
    )
    client.counts_answers = told.per_request_counts
    if not told.per_request_counts and told.method != PLAIN:
        client.why_uncounted = "this vLLM does not report per-step counts"
    return client


def _fingerprint(spec: LaneSpec, told: Told, target: Path, hashes: Hashes) -> Fingerprint:
    """What the engine is; what it does not tell is what it was asked to be. The names are the preset's."""
    template = target / "chat_template.jinja"
    if told.method == UNKNOWN:
        k = spec.num_speculative_tokens
        told = msgspec.structs.replace(told, method=spec.method, num_speculative_tokens=k)
    return fingerprint(
        told,
        model_print(EMBEDDED_NAME if spec.target == EMBEDDED else spec.target, told.target, hashes[0]),
        model_print(spec.drafter or "", told.drafter, hashes[1]) if told.drafter is not None else None,
        hashlib.sha256(template.read_bytes()).hexdigest() if template.is_file() else None,
    )
