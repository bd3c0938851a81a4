"""What an engine tells about itself, checked, as the fingerprint of its traces."""

from __future__ import annotations

import contextlib
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import msgspec

import dflash_viz
from dflash_viz.lanes.errors import LaneError
from dflash_viz.trace import UNKNOWN, Fingerprint, ModelPrint


class DrafterTold(ModelPrint, frozen=True, omit_defaults=True):
    """What the engine tells about its drafter."""

    trained_block_size: int | None = None


class Told(msgspec.Struct, frozen=True):
    """The answer of the hooks' route ``hello``; ``why`` says why there will be no steps."""

    steps: bool = False
    why: str | None = None
    method: str = UNKNOWN
    num_speculative_tokens: int = 0
    draft_sample_method: str | None = None
    prompt_lookup_min: int | None = None
    prompt_lookup_max: int | None = None
    model_runner: str | None = None
    eager: bool | None = None
    graph_mode: str | None = None
    async_scheduling: bool | None = None
    per_request_counts: bool = False
    prefix_caching: bool | None = None
    device: str | None = None
    target: ModelPrint = ModelPrint("")
    drafter: DrafterTold | None = None
    repairs: list[str] = []
    versions: dict[str, str] = {}


def read_told(answer: Any) -> Told:
    """What ``hello`` answered, as JSON has it. Raises ``LaneError`` where it is something else."""
    try:
        return msgspec.convert(answer, type=Told)
    except msgspec.ValidationError as error:
        raise LaneError(f"The hooks tell what this app does not understand: {error}.") from error


def misfit(told: Told) -> str:
    """Why a server with hooks shows no steps, in a sentence for the page."""
    return f"The hooks cannot record there, so its steps cannot be shown: {told.why or 'no reason given'}"


def fingerprint(
    told: Told, target: ModelPrint, drafter: ModelPrint | None, chat_template_hash: str | None = None
) -> Fingerprint:
    """The fingerprint; ``target`` and ``drafter`` as they are to be called."""
    return Fingerprint(
        method=told.method,
        target=target,
        drafter=drafter,
        num_speculative_tokens=told.num_speculative_tokens,
        trained_block_size=told.drafter.trained_block_size if told.drafter is not None else None,
        draft_sample_method=told.draft_sample_method,
        prompt_lookup_min=told.prompt_lookup_min,
        prompt_lookup_max=told.prompt_lookup_max,
        model_runner=told.model_runner,
        eager=told.eager,
        graph_mode=told.graph_mode,
        async_scheduling=told.async_scheduling,
        prefix_caching=told.prefix_caching,
        chat_template_hash=chat_template_hash,
        device=told.device,
        repairs=told.repairs,
        versions={**told.versions, **_own_versions()},
    )


def model_print(name: str, told: ModelPrint, content_hash: str | None = None) -> ModelPrint:
    """Who a model is; ``name`` is a hub id or a path, of which only the last part is told."""
    fields = {key: getattr(told, key) for key in ModelPrint.__struct_fields__}
    return ModelPrint(**{**fields, "name": shown_name(name), "content_hash": content_hash})


def is_hub_id(name: str) -> bool:
    """Whether a model's name is one of the hub's, and no path."""
    return name.count("/") == 1 and name[0] not in ".~/"


def shown_name(name: str) -> str:
    """A model's name for others to see: no path of a machine."""
    return name if is_hub_id(name) else Path(name).name


def _own_versions() -> dict[str, str]:
    versions = {"dflash_viz": dflash_viz.__version__}
    with contextlib.suppress(PackageNotFoundError):
        versions["gradio"] = version("gradio")
    return versions
