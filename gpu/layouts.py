"""Servers on one and on several GPUs, started by vLLM's own command."""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dflash_viz.hooks.wire import TOKEN_ENV
from dflash_viz.lanes import LaneSpec, Server
from dflash_viz.lanes.access import Secrets
from dflash_viz.lanes.dtype import resolve_dtype
from dflash_viz.lanes.server import HOOKS, flags, free_port
from dflash_viz.weights.resolver import ROOT, cache_dir

END_S = 15.0
# vLLM's all-reduce may take NVLink multicast, which a host that shares its GPUs cannot allow.
NO_MULTICAST = {
    "NCCL_NVLS_ENABLE": "0",
    "TORCH_SYMM_MEM_DISABLE_MULTICAST": "1",
    "NVSHMEM_DISABLE_NVLS": "1",
    "VLLM_ALLREDUCE_USE_SYMM_MEM": "0",
}
# One server process, and what `vllm serve` starts: as many of them as engines.
API_SERVER, SERVE = "vllm.entrypoints.openai.api_server", "gpu.serve"


@dataclass(frozen=True)
class Layout:
    """One way to spread the model: so many ``engines`` answer, each of which reports its own steps; their
    acceptance length may be so far from that of one GPU."""

    name: str
    options: dict[str, Any]
    engines: int = 1
    hooks: bool = True
    module: str = API_SERVER
    al_tolerance: float = 0.02

    @property
    def file(self) -> str:
        """The name for files: compilers stumble over spaces."""
        return self.name.replace(" ", "-")


ONE = Layout("one GPU", {})
LAYOUTS = (
    ONE,
    # Its sums are rounded in another order: some answers are other ones, with other drafts.
    Layout("TP 2", {"tensor-parallel-size": 2, "disable-custom-all-reduce": True}, al_tolerance=0.05),
    Layout("DP 2", {"data-parallel-size": 2}, engines=2, module=SERVE),
    Layout("DP 2 without hooks", {"data-parallel-size": 2}, engines=2, hooks=False),
)


@dataclass(frozen=True)
class Running:
    """A server that somebody has started."""

    server: Server
    process: subprocess.Popen[bytes]
    log: Path

    def tail(self, size: int) -> str:
        """The end of its log."""
        return self.log.read_text(errors="replace")[-size:]


def command(layout: Layout, spec: LaneSpec, pair: tuple[Path, Path], port: int) -> list[str]:
    """What somebody types to start that server; the lane's options, and what the layout adds."""
    options: dict[str, Any] = {
        "model": pair[0],
        "host": "127.0.0.1",
        "port": port,
        "speculative-config": spec.speculative_config(pair[1]),
        **spec.engine,
        "dtype": resolve_dtype(spec.engine.get("dtype", "auto")),
        **layout.options,
        **(HOOKS if layout.hooks else {}),
    }
    return [sys.executable, "-m", layout.module, *flags(options)]


@contextlib.contextmanager
def served(spec: LaneSpec, pair: tuple[Path, Path], layout: Layout) -> Iterator[Running]:
    """The server's process and all of its own, ended afterwards in any case."""
    port, token = free_port(), secrets.token_urlsafe(24)
    log = cache_dir() / "logs" / f"parallel-{layout.file}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    environment = {
        **os.environ,
        **spec.environment,
        **NO_MULTICAST,
        "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")])),
        # One each: several that start together would write the same compiled files.
        "VLLM_CACHE_ROOT": str(pair[0].parent / layout.file),
        TOKEN_ENV: token,
    }
    with log.open("wb") as out:
        process = subprocess.Popen(
            command(layout, spec, pair, port),
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        yield Running(Server(layout.name, f"http://127.0.0.1:{port}", Secrets(token)), process, log)
    finally:
        end(process)


def end(process: subprocess.Popen[bytes]) -> None:
    """End a process and its group: what does not go when it is asked to, without asking."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(END_S)


Start = Callable[[Layout], contextlib.AbstractContextManager[Running]]


def in_turn(
    layouts: Sequence[Layout], start: Start, ahead: int
) -> Generator[tuple[Layout, Running], None, None]:
    """Each layout's server until the next one's turn; the next ``ahead`` ones start meanwhile."""
    with contextlib.ExitStack() as everything:
        started: deque[tuple[Layout, Running, contextlib.ExitStack]] = deque()
        for turn in range(len(layouts)):
            for layout in layouts[turn + len(started) : turn + 1 + ahead]:
                own = everything.enter_context(contextlib.ExitStack())
                started.append((layout, own.enter_context(start(layout)), own))
            layout, running, own = started.popleft()
            yield layout, running
            own.close()
