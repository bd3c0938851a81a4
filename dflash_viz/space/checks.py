"""What can be wrong in a Spacefile whose fields are of the right type."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from dflash_viz.lanes import LaneError, LaneSpec, load_preset
from dflash_viz.lanes.auto import AUTO
from dflash_viz.lanes.options import cache_bytes, whole
from dflash_viz.space.hardware import HARDWARE, UNFIT
from dflash_viz.space.model import Spacefile
from dflash_viz.weights.resolver import ROOT

MAX_DESCRIPTION = 60  # the Hub's
GRADIO_PORT = 7860  # where the Hub expects a Space of its Gradio SDK
CPU_PYTHON, GPU_PYTHON = "3.11", "3.12"
"""What scripts/install.sh builds for, and what the CUDA image brings."""
VIEWER_PYTHONS = ("3.11", "3.12", "3.13")
RANGES = {"runs_and_waiting": (1, 256), "max_tokens": (16, 32_768), "prompt_characters": (1, 200_000)}

_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SECRET = re.compile(r"TOKEN|SECRET|PASSWORD|API_?KEY", re.IGNORECASE)
_LICENCE = re.compile(r"[a-z0-9][a-z0-9.-]*")


class Finding(NamedTuple):
    """One fault; ``fields`` are those that it is about."""

    fields: tuple[str, ...]
    message: str


def findings(space: Spacefile) -> Iterator[Finding]:
    """Everything that is wrong with the values."""
    yield from _shown(space)
    yield from _kind(space)
    yield from _hardware(space)
    yield from _preset(space)
    yield from _models(space)
    yield from _names(space)
    yield from _limits(space)


def needs_gpu_image(space: Spacefile) -> bool:
    """Whether the Space's engine runs on a GPU."""
    return space.kind == "engine" and HARDWARE[space.hardware].gpus > 0


def _shown(space: Spacefile) -> Iterator[Finding]:
    for name in ("title", "short_description"):
        if len(getattr(space, name).splitlines()) > 1:
            yield Finding((name,), f"{name} must be one line.")
    if not space.title.strip():
        yield Finding(("title",), "title is empty.")
    if (length := len(space.short_description)) > MAX_DESCRIPTION:
        message = f"short_description has {length} characters; the Hub takes {MAX_DESCRIPTION} at most."
        yield Finding(("short_description",), message)
    if not _is_emoji(space.emoji):
        yield Finding(("emoji",), "emoji must be one emoji and nothing else.")
    if not _LICENCE.fullmatch(space.license):
        yield Finding(("license",), "license must be an identifier of the Hub's, such as apache-2.0.")


def _is_emoji(text: str) -> bool:
    """One pictograph: signs that only modify or join others do not count, a flag is two."""
    signs = [
        sign
        for number, sign in enumerate(text)
        if unicodedata.category(sign) == "So" and text[number - 1 : number] != "\u200d"
    ]
    flag = len(signs) == 2 and all("\U0001f1e6" <= sign <= "\U0001f1ff" for sign in signs)
    rest = {unicodedata.category(sign) for sign in text} - {"So", "Sk", "Mn", "Cf"}
    return (len(signs) == 1 or flag) and not rest


def _kind(space: Spacefile) -> Iterator[Finding]:
    sdk = "docker" if space.kind == "engine" else "gradio"
    if space.sdk != sdk:
        message = f"A Space of kind {space.kind} needs sdk: {sdk}, not {space.sdk}."
        yield Finding(("kind", "sdk"), message)
    installed = _gradio_version()
    if space.sdk_version != installed:
        message = f"sdk_version must be {installed}, the gradio that requirements.txt installs."
        yield Finding(("sdk_version",), message)
    if space.kind == "viewer" and space.app_port != GRADIO_PORT:
        message = f"app_port must be {GRADIO_PORT} for a viewer: the Hub's Gradio SDK expects it there."
        yield Finding(("kind", "app_port"), message)
    if not 1024 <= space.app_port <= 65_535:
        message = "app_port must be from 1024 to 65535; ports below are not for ordinary users."
        yield Finding(("app_port",), message)


def _gradio_version() -> str:
    pinned = re.search(r"^gradio==(\S+)$", (ROOT / "requirements.txt").read_text(), re.MULTILINE)
    assert pinned is not None, "requirements.txt pins gradio"
    return pinned[1]


def _hardware(space: Spacefile) -> Iterator[Finding]:
    if space.sleep_time != -1 and space.sleep_time < 60:
        yield Finding(("sleep_time",), "sleep_time must be at least 60 seconds, or -1 for never.")
    if space.hardware not in HARDWARE:
        why = UNFIT.get(space.hardware)
        unknown = f"There is no hardware {space.hardware!r}"
        message = f"hardware {space.hardware} does not do: {why}" if why else unknown
        yield Finding(("hardware",), f"{message}. Choose one of: {', '.join(HARDWARE)}.")
        return
    yield from _python(space)
    if space.kind == "viewer" and HARDWARE[space.hardware].gpus:
        message = f"A viewer runs no engine: it has no use for {space.hardware}. Choose cpu-basic."
        yield Finding(("kind", "hardware"), message)


def _python(space: Spacefile) -> Iterator[Finding]:
    fields = ("python_version", "kind", "hardware")
    if space.kind == "viewer":
        if space.python_version not in VIEWER_PYTHONS:
            yield Finding(fields, f"python_version must be one of {', '.join(VIEWER_PYTHONS)}.")
        return
    needed, why = (CPU_PYTHON, "scripts/install.sh builds for it")
    if needs_gpu_image(space):
        needed, why = GPU_PYTHON, "the CUDA image brings it"
    if space.python_version != needed:
        yield Finding(fields, f'python_version must be "{needed}" for this engine: {why}.')


def _preset(space: Spacefile) -> Iterator[Finding]:
    """A viewer starts no lanes, so that its preset may be anything; what the app chooses itself has room."""
    if space.kind == "viewer" or space.preset == AUTO:
        return
    if "/" in space.preset or space.preset.endswith((".yaml", ".yml")):
        message = "preset must be the name of a file in assets/presets; others are not in the Space."
        yield Finding(("kind", "preset"), message)
        return
    try:
        preset = load_preset(space.preset)
    except LaneError as error:
        yield Finding(("kind", "preset"), f"preset: {error}")
        return
    if space.hardware in preset.hardware:
        return
    if preset.hardware and space.hardware in HARDWARE:
        fitting = ", ".join(preset.hardware)
        message = f"The preset {space.preset} has no room on {space.hardware}. Choose one of: {fitting}."
        yield Finding(("kind", "hardware", "preset"), message)
    elif space.hardware in HARDWARE:
        yield from _room(space, preset.lanes)


def _room(space: Spacefile, lanes: Iterable[LaneSpec]) -> Iterator[Finding]:
    """Whether the hardware has what the engine options say that they take; for a preset that does not
    say itself where it fits."""
    fields = ("kind", "hardware", "preset")
    gpus, memory_gb = HARDWARE[space.hardware]
    wanted = max(whole(lane, "tensor-parallel-size", 1) or 0 for lane in lanes)
    if gpus and wanted > gpus:
        message = f"The preset {space.preset} needs {wanted} GPUs; {space.hardware} has {gpus}."
        yield Finding(fields, message)
    needed, room = _caches_gb(lanes), memory_gb // max(gpus, 1)
    if needed >= room:
        where = f"each GPU of {space.hardware}" if gpus > 1 else space.hardware
        message = (
            f"The preset {space.preset} needs {needed:.0f} GB for KV caches alone; {where} has {room} GB."
        )
        yield Finding(fields, message)


def _caches_gb(lanes: Iterable[LaneSpec]) -> float:
    """The KV caches of the engines that share a device: of all, unless their environment parts them.
    With several GPUs an engine's option says what it takes of each."""
    devices: dict[str, float] = {}
    for lane in lanes:
        device = lane.environment.get("CUDA_VISIBLE_DEVICES", "")
        devices[device] = devices.get(device, 0.0) + cache_bytes(lane)
    return max(devices.values()) / 10**9


def _models(space: Spacefile) -> Iterator[Finding]:
    if space.kind == "viewer" and space.models:
        yield Finding(("kind", "models"), "A viewer runs no engine: it preloads no models.")
    for name in space.models:
        if not _HUB_ID.fullmatch(name):
            message = f"models: {name!r} is no hub id, such as Qwen/Qwen3-4B."
            yield Finding(("models",), message)
    for name in _twice(space.models):
        yield Finding(("models",), f"models: {name!r} stands there twice.")


def _names(space: Spacefile) -> Iterator[Finding]:
    """Secrets are never repeated in full: somebody may have put a value there."""
    for name in space.variables:
        if not _VARIABLE.fullmatch(name):
            yield Finding(("variables",), f"variables: {name!r} is no name of a variable.")
        elif _SECRET.search(name):
            message = f"variables: {name} looks like a secret, and variables are public. Move its name to "
            yield Finding(("variables",), f"{message}secrets.")
    for number, name in enumerate(space.secrets, 1):
        if not _VARIABLE.fullmatch(name):
            message = f"secrets: entry {number} is no name of a variable. Write the name alone; its value "
            yield Finding(("secrets",), f"{message}is taken from the environment by deploy.")
    for name in sorted(set(space.secrets) & set(space.variables)):
        message = f"{name!r} is both a variable and a secret; the Hub takes one of them."
        yield Finding(("variables", "secrets"), message)
    if _twice(space.secrets):
        yield Finding(("secrets",), "secrets: a name stands there twice.")


def _twice(names: list[str]) -> list[str]:
    return sorted({name for name in names if names.count(name) > 1})


def _limits(space: Spacefile) -> Iterator[Finding]:
    for name, (low, high) in RANGES.items():
        if not low <= getattr(space.limits, name) <= high:
            message = f"limits.{name} must be from {low} to {high}."
            yield Finding((f"limits.{name}",), message)
