"""A lane: its engine's whole life, from the weights to the end, in one place that others watch."""

from __future__ import annotations

import contextlib
import hashlib
import json
import subprocess
import sys
import threading
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Literal

import httpx
import msgspec

import dflash_viz
from dflash_viz.hooks.wire import ROUTE
from dflash_viz.lanes.client import LaneClient
from dflash_viz.lanes.detokenize import Detokenizer
from dflash_viz.lanes.errors import LaneError
from dflash_viz.lanes.server import MODEL_NAME, EngineServer
from dflash_viz.lanes.spec import LaneSpec
from dflash_viz.trace import Fingerprint, ModelPrint
from dflash_viz.weights.resolver import EMBEDDED, EMBEDDED_NAME, ROOT, content_hash

State = Literal["queued", "weights", "loading", "ready", "failed", "stopped"]
WATCH_INTERVAL_S = 1.0
# Two in a row, so that one slow answer of a busy engine is no death.
MISSES_ALLOWED = 2


class LaneStatus(msgspec.Struct, frozen=True):
    """Where a lane stands; ``progress`` from 0 to 1 while it starts, ``since`` on the monotonic clock."""

    state: State
    message: str
    progress: float | None = None
    since: float = 0.0


class Lane:
    """Owns one engine. ``start`` returns at once; ``status`` says how far it is."""

    def __init__(self, spec: LaneSpec) -> None:
        self.spec = spec
        self.client: LaneClient | None = None
        self.status = LaneStatus("queued", "waiting to start")
        self._server: EngineServer | None = None
        self._preparing: subprocess.Popen[str] | None = None
        self._thread: threading.Thread | None = None
        self._closing = threading.Event()

    def start(self) -> None:
        """Start the engine in the background; again after a failure or a stop."""
        previous = self._thread
        if previous is not None and self.status.state not in ("failed", "stopped"):
            return
        self._closing = threading.Event()
        self._set("queued", "waiting to start", 0.0)
        name = f"lane-{self.spec.name}"
        self._thread = threading.Thread(target=self._live, args=(previous,), name=name, daemon=True)
        self._thread.start()

    def wait_ready(self, timeout: float = 600.0) -> None:
        """Block until the lane is ready. Raises ``LaneError`` when it fails instead."""
        deadline = time.monotonic() + timeout
        while self.status.state not in ("ready", "failed", "stopped") and time.monotonic() < deadline:
            time.sleep(0.1)
        if self.status.state != "ready":
            raise LaneError(self.status.message)

    def close(self) -> None:
        """Stop the engine and wait until nothing of it runs."""
        self._closing.set()
        if self._preparing is not None:
            self._preparing.kill()
        if self._server is not None:
            self._server.stop()
        if self._thread is not None:
            self._thread.join()

    def _set(self, state: State, message: str, progress: float | None = None) -> None:
        since = self.status.since if self.status.state == state else time.monotonic()
        self.status = LaneStatus(state, message, progress, since)

    def _live(self, previous: threading.Thread | None) -> None:
        if previous is not None:  # a failed engine may still be on its way out
            previous.join()
        try:
            self._start_engine()
            self._set("ready", "ready")
            self._watch()
        except LaneError as error:
            self._set("failed", str(error))
        finally:
            self.client = None
            if self._server is not None:
                self._server.stop()
        if self._closing.is_set():
            self._set("stopped", "stopped")

    def _start_engine(self) -> None:
        target = self._weights(self.spec.target)
        drafter = self._weights(self.spec.drafter) if self.spec.drafter else None
        self._server = EngineServer(self.spec, target, drafter)
        self._server.start(self._loading)
        self.client = connect(self.spec, self._server, target, drafter)

    def _loading(self, fraction: float, message: str) -> None:
        if self._closing.is_set():  # ends the start wherever it is
            raise LaneError("The lane was closed while it started.")
        self._set("loading", message, fraction)

    def _weights(self, name: str) -> Path:
        """Resolve a model in a process of its own: the app never loads torch."""
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
        for line in process.stdout:
            last = json.loads(line)
            self._set("weights", last.get("message", "preparing the weights"), last.get("progress"))
        if process.wait() != 0 or "path" not in last:
            raise LaneError(last.get("error", f"The weights of {name} could not be prepared."))
        return Path(last["path"])

    def _watch(self) -> None:
        assert self._server is not None
        misses = 0
        while not self._closing.wait(WATCH_INTERVAL_S):
            misses = 0 if self._server.healthy() else misses + 1
            if not self._server.alive() or misses > MISSES_ALLOWED:
                if self._closing.is_set():
                    return
                raise LaneError(f"The engine has ended unexpectedly. {self._server.failure()}")


def connect(spec: LaneSpec, server: EngineServer, target: Path, drafter: Path | None) -> LaneClient:
    """Install the hooks in a running server and return its client.

    Raises ``LaneError`` when the hooks do not fit this vLLM, or the server cannot be reached.
    """
    headers = {"Authorization": f"Bearer {server.token}"}
    try:
        answer = httpx.get(f"{server.url}{ROUTE}/hello", headers=headers, timeout=60.0)
        engine = answer.raise_for_status().json()
    except (httpx.HTTPError, ValueError) as error:
        raise LaneError(f"The hooks could not be installed: {error}. {server.failure()}") from error
    if not engine.get("steps"):
        raise LaneError(f"The hooks do not fit this vLLM: {engine.get('why')}")
    fingerprint = _fingerprint(spec, engine, target, drafter)
    return LaneClient(
        spec.name, server.url, server.token, fingerprint, Detokenizer.from_folder(target), MODEL_NAME
    )


def _fingerprint(spec: LaneSpec, engine: dict[str, Any], target: Path, drafter: Path | None) -> Fingerprint:
    told = engine["drafter"] or {}
    template = target / "chat_template.jinja"
    return Fingerprint(
        method=engine["method"],
        target=_model_print(spec.target, engine["target"], target),
        drafter=_model_print(spec.drafter or "", told, drafter) if told else None,
        num_speculative_tokens=engine["num_speculative_tokens"],
        trained_block_size=told.get("trained_block_size"),
        draft_sample_method=engine["draft_sample_method"],
        model_runner=engine["model_runner"],
        eager=engine["eager"],
        graph_mode=engine["graph_mode"],
        async_scheduling=engine["async_scheduling"],
        prefix_caching=engine["prefix_caching"],
        chat_template_hash=hashlib.sha256(template.read_bytes()).hexdigest() if template.is_file() else None,
        device=engine["device"],
        versions={**engine["versions"], **_own_versions()},
    )


def _model_print(name: str, told: dict[str, Any], folder: Path | None) -> ModelPrint:
    """Who a model is. The name is the preset's, never a path of this machine."""
    shown = EMBEDDED_NAME if name == EMBEDDED else Path(name).name if Path(name).is_absolute() else name
    fields = {k: v for k, v in told.items() if k in ModelPrint.__struct_fields__ and k != "name"}
    return ModelPrint(
        name=shown.removeprefix("assets/drafters/"),
        content_hash=content_hash(folder) if folder is not None else None,
        **fields,
    )


def _own_versions() -> dict[str, str]:
    versions = {"dflash_viz": dflash_viz.__version__}
    with contextlib.suppress(PackageNotFoundError):
        versions["gradio"] = version("gradio")
    return versions
