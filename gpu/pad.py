"""Adds attention heads of zeros to a target and its drafter, so that several GPUs can share them.

    python3 -m gpu.pad TARGET DRAFTER OUT

writes ``OUT/target`` and ``OUT/drafter``. Tensor parallelism gives every GPU as many heads as the others;
SmolLM2-135M and its drafters have 9 query and 3 key heads, which 2 does not divide. With 12 and 4, the
queries of each key head staying together, the new heads attend to nothing but zeros and end in columns of
zeros of the output projection: the models compute what they did.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from pathlib import Path
from typing import Any

import torch.nn.functional as F
from safetensors.torch import load_file, save_file
from torch import Tensor

from dflash_viz.weights import resolve_model
from dflash_viz.weights.resolver import SUMS_FILE

INDEX_FILE = "model.safetensors.index.json"
PARTS = 2


def padded_config(config: dict[str, Any], parts: int) -> dict[str, Any]:
    """The ``config.json`` with as many key heads as ``parts`` divides, and their query heads."""
    heads, kv_heads = config["num_attention_heads"], config["num_key_value_heads"]
    wanted = -(-kv_heads // parts) * parts
    return {
        **config,
        "num_attention_heads": wanted * (heads // kv_heads),
        "num_key_value_heads": wanted,
        # What the width of a head follows from otherwise: the hidden size over the heads.
        "head_dim": config.get("head_dim") or config["hidden_size"] // heads,
    }


def padded_tensor(name: str, tensor: Tensor, config: dict[str, Any]) -> Tensor:
    """The tensor of that name with the heads that the padded ``config`` says; others as they are."""
    q_size = config["num_attention_heads"] * config["head_dim"]
    kv_size = config["num_key_value_heads"] * config["head_dim"]
    part = name.removesuffix(".weight").rpartition(".")[2]
    if part == "o_proj":
        return F.pad(tensor, (0, q_size - tensor.shape[1]))
    rows = {"q_proj": q_size, "k_proj": kv_size, "v_proj": kv_size}.get(part)
    return tensor if rows is None else F.pad(tensor, (0, 0, 0, rows - tensor.shape[0]))


def pad(source: Path, out: Path, parts: int = PARTS) -> None:
    """Write the model of the folder ``source``, padded, to the folder ``out``, in one file of weights.

    Raises ``ValueError`` for a model whose attention has biases, which would have to be padded too.
    """
    config = json.loads((source / "config.json").read_text())
    if config.get("attention_bias"):
        raise ValueError(f"{source.name} has biases in its attention: it cannot be padded.")
    config = padded_config(config, parts)
    out.mkdir(parents=True, exist_ok=True)
    tensors = {
        name: padded_tensor(name, tensor, config).contiguous()
        for file in sorted(source.glob("*.safetensors"))
        for name, tensor in load_file(file).items()
    }
    save_file(tensors, out / "model.safetensors", metadata={"format": "pt"})
    for file in source.iterdir():
        if file.is_file() and file.suffix != ".safetensors" and file.name not in (INDEX_FILE, SUMS_FILE):
            shutil.copy(file, out)
    (out / "config.json").write_text(json.dumps(config, indent=2) + "\n")


def pad_pair(target: Path, drafter: Path, out: Path) -> tuple[Path, Path]:
    """Pad both; returns their folders."""
    pad(target, out / "target")
    pad(drafter, out / "drafter")
    return out / "target", out / "drafter"


def main() -> int:
    """Parse the command line, pad, and say where the models are."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("target", help="a folder, a hub id, or 'embedded'")
    parser.add_argument("drafter", help="a folder or a hub id")
    parser.add_argument("out", type=Path)
    given = parser.parse_args()
    for folder in pad_pair(resolve_model(given.target), resolve_model(given.drafter), given.out):
        print(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
