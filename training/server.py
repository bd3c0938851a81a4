"""A vLLM server for the length of a ``with`` block, and the requests of an evaluation."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx


@contextlib.contextmanager
def serve(target: Path, drafter: Path, num_speculative_tokens: int, dtype: str, log: Path) -> Iterator[str]:
    """Run vLLM with ``drafter`` on this machine; yields the base URL once it answers."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    spec = {
        "method": "dflash",
        "model": str(drafter),
        "num_speculative_tokens": num_speculative_tokens,
    }
    command = [sys.executable, "-m", "vllm.entrypoints.openai.api_server"]
    command += ["--model", str(target), "--served-model-name", "target"]
    command += ["--host", "127.0.0.1", "--port", str(port), "--dtype", dtype]
    command += ["--max-model-len", "2048", "--max-num-seqs", "16", "--enforce-eager"]
    command += ["--no-enable-prefix-caching", "--speculative-config", json.dumps(spec)]
    command += ["--per-request-spec-decode-metrics", "detailed"]
    with log.open("w") as output:
        process = subprocess.Popen(
            command,
            env={"VLLM_CPU_KVCACHE_SPACE": "1", **os.environ},
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        yield _wait(process, f"http://127.0.0.1:{port}", log)
    finally:
        process.terminate()
        process.wait(timeout=60)


def _wait(process: subprocess.Popen[bytes], url: str, log: Path, limit: float = 300) -> str:
    """Wait until the server is healthy."""
    deadline = time.monotonic() + limit
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise RuntimeError(f"vLLM ended at its start; see {log}")
        with contextlib.suppress(httpx.TransportError):
            if httpx.get(f"{url}/health").status_code == 200:
                return url
        time.sleep(1)
    raise TimeoutError(f"vLLM was not ready after {limit:.0f} s; see {log}")


def accepted_per_step(url: str, prompts: list[str], new_tokens: int) -> list[list[int]]:
    """Accepted drafted tokens of every step of every request, at temperature 0."""

    def ask(prompt: str) -> list[int]:
        body: dict[str, Any] = {
            "model": "target",
            "messages": [{"role": "user", "content": prompt}],
            "temperature": 0,
            "max_tokens": new_tokens,
        }
        answer = httpx.post(f"{url}/v1/chat/completions", json=body, timeout=600)
        answer.raise_for_status()
        metrics = answer.json()["metrics"]["speculative_decoding"]
        return [int(count) for count in metrics["per_step_accepted"]]

    with ThreadPoolExecutor(8) as pool:
        return list(pool.map(ask, prompts))
