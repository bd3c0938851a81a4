"""What a lane is made of, and the preset files that say so."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import msgspec

from dflash_viz.lanes.errors import LaneError
from dflash_viz.trace import PLAIN
from dflash_viz.weights.resolver import EMBEDDED, ROOT

PRESETS = ROOT / "assets" / "presets"


class LaneSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One lane: ``method`` is vLLM's name of it, or ``none``.

    ``engine`` holds vLLM server options (without dashes in front; ``true`` for a bare flag),
    ``environment`` variables of the server process, ``speculative`` further keys of vLLM's
    ``--speculative-config``. ``memory_gb`` is what the engine takes on each of its GPUs, in 10^9 bytes:
    weights, drafter, KV cache, graphs and buffers; 0: unknown, or not on a GPU.
    """

    name: str
    method: str
    target: str = EMBEDDED
    drafter: str | None = None
    num_speculative_tokens: int = 0
    speculative: dict[str, Any] = {}
    engine: dict[str, Any] = {}
    environment: dict[str, str] = {}
    memory_gb: float = 0.0

    def speculative_config(self, drafter: Path | None) -> str | None:
        """The JSON for ``--speculative-config``, None for method ``none``."""
        if self.method == PLAIN:
            return None
        config: dict[str, Any] = {
            "method": self.method,
            "num_speculative_tokens": self.num_speculative_tokens,
            **self.speculative,
        }
        if drafter is not None:
            config["model"] = str(drafter)
        return json.dumps(config)


def file_name(lane: str) -> str:
    """A lane's name as part of a file's name: users may call a lane whatever they like."""
    return re.sub(r"[^\w.=-]+", "_", lane)[:60]


class Preset(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A preset file: a title, and its lanes in the order of the page.

    ``hardware`` names the Hub's machines that have room for it (empty: nobody has said), each lane awake
    alone or all of them. ``thinking`` is the mode that the drafters were trained in, which the lanes' chat
    templates are told; None for a target without modes. ``expectations`` is the pair's name in
    ``assets/expectations``; empty where nothing is known of it.
    """

    title: str
    lanes: list[LaneSpec]
    hardware: list[str] = []
    thinking: bool | None = None
    expectations: str = ""


def preset_names() -> list[str]:
    """The presets that ship, by name."""
    return sorted(path.stem for path in PRESETS.glob("*.yaml"))


def load_preset(name: str) -> Preset:
    """Read a preset by its name in ``assets/presets`` or by a path to a YAML file.

    Raises ``LaneError`` naming the file and the field that is wrong.
    """
    path = Path(name) if name.endswith((".yaml", ".yml")) else PRESETS / f"{name}.yaml"
    try:
        preset = msgspec.yaml.decode(path.read_bytes(), type=Preset)
    except FileNotFoundError:
        if path == Path(name):
            raise LaneError(f"There is no preset file {name!r}. Check the path.") from None
        if Path(name).is_file():
            raise LaneError(f"{name!r} is no preset: its file must end in .yaml or .yml.") from None
        known = ", ".join(preset_names())
        raise LaneError(f"There is no preset {name!r}. Known presets: {known}.") from None
    except OSError as error:
        raise LaneError(f"The preset {path} cannot be read: {error.strerror}.") from error
    except msgspec.MsgspecError as error:
        raise LaneError(f"The preset {path} is not valid: {error}.") from error
    if not preset.lanes:
        raise LaneError(f"The preset {path} has no lanes.")
    names = [lane.name for lane in preset.lanes]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise LaneError(f"The preset {path} has several lanes named {twice[0]!r}: give each its own name.")
    return preset
