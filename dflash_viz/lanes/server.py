"""Starting, watching and stopping one vLLM server process."""

from __future__ import annotations

import importlib.util
import itertools
import json
import os
import re
import secrets
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal

import httpx

from dflash_viz.hooks.wire import TOKEN_ENV
from dflash_viz.lanes.dtype import resolve_dtype
from dflash_viz.lanes.errors import LaneError
from dflash_viz.lanes.gpus import INSTALL, ORDER
from dflash_viz.lanes.spec import LaneSpec, file_name
from dflash_viz.trace import PLAIN
from dflash_viz.weights.resolver import ROOT, cache_dir

MODEL_NAME = "target"
# The options that bring our hooks into a server.
HOOKS = {
    "middleware": "dflash_viz.hooks.route.TraceRoute",
    "worker-extension-cls": "dflash_viz.hooks.probe.Probe",
}
START_TIMEOUT_S = 600.0
KEPT_LOGS = 20
# Where an EAGLE-3 head's configuration names the layers of the target that it reads.
LAYERS = "eagle_aux_hidden_state_layer_ids"
_servers = itertools.count(1)

# What vLLM logs on its way up, and how far along that is (0.32.0).
_STAGES = (
    (r"Initializing a V1 LLM engine", 0.3, "starting the engine"),
    (r"Starting to load model", 0.4, "loading the target"),
    (r"Loading drafter model", 0.6, "loading the drafter"),
    (r"KV cache size", 0.75, "reserving the KV cache"),
    (r"init engine .* took", 0.85, "warming up"),
    (r"Starting vLLM server", 0.95, "opening the server"),
)
_ADVICE = (
    (r"No space left on device", "The disk is full: free some space and start again."),
    (
        r"Cannot allocate memory|MemoryError|out of memory",
        "Memory ran out: close other programs, or lower max-model-len and VLLM_CPU_KVCACHE_SPACE.",
    ),
    (
        r"less than desired GPU memory utilization",
        "The GPU has no room for another engine: give each lane its share in the preset, for example "
        "gpu-memory-utilization: 0.4 for two lanes.",
    ),
    (
        r"SafetensorError|HeaderTooLarge|InvalidHeader",
        "A weight file is damaged: restore it and start again.",
    ),
)

Report = Callable[[float, str], None]
Health = Literal["good", "silent", "dead"]


def free_port() -> int:
    """A port of the loopback interface that nobody uses at the moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class EngineServer:
    """One ``vllm`` OpenAI server with our hooks in it, held by a keeper process."""

    def __init__(self, spec: LaneSpec, target: Path, drafter: Path | None, hooks: bool = True) -> None:
        if importlib.util.find_spec("vllm") is None:
            raise LaneError(
                "vLLM is not installed, so no engine can start; recorded runs can be opened. "
                f"Run 'make install' for the CPU; for a GPU {INSTALL}"
            )
        self.spec = spec
        self.token = secrets.token_urlsafe(24)
        self.url = f"http://127.0.0.1:{free_port()}"
        # A file each: a benchmark may start a second engine of a lane beside the first.
        log = f"{file_name(spec.name)}-{os.getpid()}-{next(_servers)}.log"
        self.log = cache_dir() / "logs" / log
        self._links = tempfile.TemporaryDirectory(prefix="lane-")
        self._command = self._build_command(target, self._as_read(drafter), hooks)
        self._keeper: subprocess.Popen[bytes] | None = None

    def _as_read(self, drafter: Path | None) -> Path | None:
        """The drafter where vLLM takes it for what it is.

        - ``config/speculative.py`` takes "dflash" or "eagle" anywhere in the path, our cache's name too,
          for the method, unless the method asked for is one of those: so under a path that says nothing.
        - The V2 runner (``v1/worker/gpu/spec_decode/eagle/eagle3_utils.py``, 0.26 to 0.33) looks for an
          EAGLE-3 head's layers at the top of its ``config.json`` only, the model itself in
          ``eagle_config``: so with both.
        """
        if drafter is None:
            return None
        written = drafter / "config.json"
        eagle3 = self.spec.method == "eagle3" and written.is_file()
        config = json.loads(written.read_text()) if eagle3 else {}
        nested = (config.get("eagle_config") or {}).get(LAYERS)
        if nested and LAYERS not in config:
            folder = Path(self._links.name) / "drafter"
            folder.mkdir()
            for file in drafter.resolve().iterdir():
                (folder / file.name).symlink_to(file)
            (folder / "config.json").unlink()
            (folder / "config.json").write_text(json.dumps({**config, LAYERS: nested}))
            return folder
        if self.spec.method in ("dflash", "eagle", "eagle3", "dspark"):
            return drafter
        link = Path(self._links.name) / "drafter"
        link.symlink_to(drafter.resolve())
        return link

    def _build_command(self, target: Path, drafter: Path | None, hooks: bool) -> list[str]:
        options: dict[str, Any] = {
            "model": str(target),
            "served-model-name": MODEL_NAME,
            "host": "127.0.0.1",
            "port": self.url.rpartition(":")[2],
            "speculative-config": self.spec.speculative_config(drafter),
            "disable-uvicorn-access-log": True,  # we ask for its health every second
            "enable-prompt-tokens-details": True,
            **self.spec.engine,
            "dtype": resolve_dtype(self.spec.engine.get("dtype", "auto")),
        }
        if hooks:
            options |= {
                **HOOKS,
                # vLLM refuses to count where nothing is drafted.
                "per-request-spec-decode-metrics": "detailed"
                if self.spec.method != PLAIN and _counts_per_request()
                else None,
            }
        return [sys.executable, "-m", "vllm.entrypoints.openai.api_server", *flags(options)]

    def start(self, report: Report) -> None:
        """Start the server and wait until it answers; progress goes to ``report``.

        Raises ``LaneError`` with the reason when it ends before that, and leaves nothing running.
        """
        report(0.05, "starting vLLM")
        try:
            self.log.parent.mkdir(parents=True, exist_ok=True)
            _forget_oldest(self.log.parent)
            self.log.write_bytes(b"")
        except OSError as error:
            raise LaneError(f"The engine's log {self.log} cannot be written: {error}.") from error
        print(f"{self.spec.name}: the engine's log is {self.log}", file=sys.stderr, flush=True)
        self._keeper = subprocess.Popen(
            [sys.executable, "-m", "dflash_viz.lanes.keeper", str(self.log), *self._command],
            stdin=subprocess.PIPE,
            env=self._environment(),
            cwd=ROOT,
            start_new_session=True,
        )
        try:
            self._await_ready(report)
        except BaseException:
            self.stop()
            raise

    def _environment(self) -> dict[str, str]:
        path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
        openmp = Path(sys.prefix) / "lib" / "libiomp5.so"
        return {
            **os.environ,
            **ORDER,
            "PYTHONPATH": path,
            TOKEN_ENV: self.token,
            "VLLM_NO_USAGE_STATS": "1",
            "DO_NOT_TRACK": "1",
            # What vLLM recommends for the CPU; the package intel-openmp comes with its CPU build.
            **({"LD_PRELOAD": str(openmp)} if openmp.is_file() else {}),
            **self.spec.environment,
        }

    def _await_ready(self, report: Report) -> None:
        deadline = time.monotonic() + START_TIMEOUT_S
        with self._http() as client:
            while time.monotonic() < deadline:
                if not self.alive():
                    raise LaneError(f"The engine did not start. {self.failure()}")
                if _health(client) == "good":
                    report(0.98, "installing the hooks")
                    return
                asked = time.monotonic()
                report(*self._stage())
                deadline += time.monotonic() - asked  # it may have stood still meanwhile
                time.sleep(0.25)
        raise LaneError(f"The engine did not answer within {START_TIMEOUT_S:.0f} s. {self.failure()}")

    def _stage(self) -> tuple[float, str]:
        text = self.log_tail(200_000)
        reached = [(f, m) for pattern, f, m in _STAGES if re.search(pattern, text)]
        return reached[-1] if reached else (0.1, "starting vLLM")

    @property
    def keeper_pid(self) -> int | None:
        """The process that holds the server and everything of it; None while there is none."""
        return self._keeper.pid if self._keeper is not None and self.alive() else None

    def alive(self) -> bool:
        """Whether the server process runs."""
        return self._keeper is not None and self._keeper.poll() is None

    def health(self) -> Health:
        """How the engine is; ``silent`` may be a busy one."""
        if not self.alive():
            return "dead"
        with self._http() as client:
            return _health(client)

    def _http(self) -> httpx.Client:
        # Plain http: without verify=False every client reads the system's certificates first.
        return httpx.Client(base_url=self.url, timeout=2.0, verify=False)

    def failure(self) -> str:
        """Why the server ended, from its log, with what to do about it."""
        text = self.log_tail(60_000)
        for pattern, advice in _ADVICE:
            if re.search(pattern, text):
                return f"{advice} (Log: {self.log.name})"
        reason = next(_error_lines(text), "")
        status = self._keeper.returncode if self._keeper is not None else None
        how = f"It ended with status {status}" if status else "It does not answer"
        # The page shows this to visitors: the log's name only; the app's terminal has its path.
        return f"{reason or how}. Log: {self.log.name}"

    def log_tail(self, limit: int) -> str:
        """The last ``limit`` bytes of the server's log."""
        try:
            with self.log.open("rb") as file:
                file.seek(max(0, self.log.stat().st_size - limit))
                return file.read().decode("utf-8", "replace")
        except OSError:
            return ""

    def stop(self) -> None:
        """End the server and every process of it; returns when they are gone."""
        if self._keeper is None:
            return
        assert self._keeper.stdin is not None
        self._keeper.stdin.close()
        self._keeper.wait()
        self._links.cleanup()


def _counts_per_request() -> bool:
    """Whether this vLLM can report the counts of each answer (0.32 can, 0.26 cannot); by its source, as
    only engines import it."""
    spec = importlib.util.find_spec("vllm")
    if spec is None or spec.origin is None:
        return False
    source = Path(spec.origin).parent / "config" / "observability.py"
    return source.is_file() and "per_request_spec_decode_metrics" in source.read_text()


def _forget_oldest(folder: Path) -> None:
    logs = sorted(folder.glob("*.log"), key=lambda log: log.stat().st_mtime)
    for old in logs[:-KEPT_LOGS]:
        old.unlink(missing_ok=True)


def flags(options: dict[str, Any]) -> Iterator[str]:
    """Server options on a command line: ``True`` is a bare flag, ``None`` and ``False`` are left out."""
    for name, value in options.items():
        if value is None or value is False:
            continue
        yield f"--{name}"
        if value is not True:
            yield str(value)


def _health(client: httpx.Client) -> Health:
    try:
        status = client.get("/health").status_code
    except httpx.HTTPError:
        return "silent"
    # 503: the engine has died (vLLM's serve/instrumentator/health.py); it never comes back.
    return "good" if status == 200 else "dead" if status == 503 else "silent"


def _error_lines(text: str) -> Iterator[str]:
    """Lines that name an error, the last first; left out are vLLM's own wrappers, which say nothing, and its
    warning, at every start of an ordinary user, of what a low limit of open files can lead to."""
    empty = ("Engine core initialization failed", "EngineDead", "This can cause fd limit errors")
    for line in reversed(text.splitlines()):
        match = re.search(r"Value error, (.+?) \[type=|\b(\w*(?:Error|Exception)): (.+)", line)
        if match and not any(words in line for words in empty):
            yield (match[1] or match[0])[:400]
