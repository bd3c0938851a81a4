"""The product's own vLLM server for the length of a ``with`` block, and the requests of an evaluation."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx

from dflash_viz.lanes import LaneSpec
from dflash_viz.lanes.server import MODEL_NAME, EngineServer
from training.methods import method_of


@contextlib.contextmanager
def serve(target: Path, drafter: Path, num_speculative_tokens: int, dtype: str) -> Iterator[str]:
    """Run vLLM with ``drafter`` on this machine; yields the base URL once it answers."""
    spec = LaneSpec(
        name="evaluation",
        method=method_of(drafter),
        num_speculative_tokens=num_speculative_tokens,
        engine={
            "dtype": dtype,
            "max-model-len": 2048,
            "max-num-seqs": 16,
            "enforce-eager": True,
            "no-enable-prefix-caching": True,
            "per-request-spec-decode-metrics": "detailed",
        },
        environment={"VLLM_CPU_KVCACHE_SPACE": "1"},
    )
    server = EngineServer(spec, target, drafter, hooks=False)
    server.start(lambda _fraction, _message: None)
    try:
        yield server.url
    finally:
        server.stop()


def accepted_per_step(url: str, prompts: list[str], new_tokens: int) -> list[list[int]]:
    """Accepted drafted tokens of every step of every request, at temperature 0."""

    def ask(prompt: str) -> list[int]:
        body: dict[str, Any] = {
            "model": MODEL_NAME,
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
