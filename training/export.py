"""Drafters on disk, in the layout that vLLM loads."""

from __future__ import annotations

import json
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from dflash_viz.weights.resolver import write_sums
from training.drafter import Drafter
from training.methods import METHODS, method_of
from training.target import Target, TargetConfig

SHARD_BYTES = 9_800_000
"""Most bytes of tensors in one file; the repository takes no file of 10 MB or more."""
ATTENTION = ("q_proj", "k_proj", "v_proj", "o_proj", "q_norm", "k_norm")


def stored_name(name: str) -> str:
    """Name in the checkpoint of one of our parameters or buffers."""
    *owner, part = name.removesuffix(".weight").split(".")
    if owner and part in ATTENTION:
        owner.append("self_attn")
    elif owner and part.endswith("_proj"):
        owner.append("mlp")
    return ".".join([*owner, part, "weight"])


def tensors_of(drafter: Drafter) -> dict[str, Tensor]:
    """All tensors of the checkpoint: weights in float32, and the two vocabularies' relation.

    Draft id d is target id d + ``d2t[d]`` (int64), and ``t2d`` (bool) marks the target ids drafted.
    """
    state = drafter.state_dict()
    scale, draft_ids = state.pop("feature_scale"), state.pop("draft_ids")
    state["fc.weight"] = state["fc.weight"] / scale
    tensors = {stored_name(name): value for name, value in state.items()}
    if len(draft_ids) < drafter.config.target.vocab:
        tensors["d2t"] = draft_ids - torch.arange(len(draft_ids), device=draft_ids.device)
        tensors["lm_head.weight"] = drafter.head
        if drafter.marks_draftable:
            tensors["t2d"] = torch.zeros(drafter.config.target.vocab, dtype=torch.bool)
            tensors["t2d"][draft_ids.cpu()] = True
    return tensors


def config_of(drafter: Drafter) -> dict[str, object]:
    """``config.json`` of the checkpoint."""
    c, t = drafter.config, drafter.config.target
    return {
        "architectures": [drafter.architecture],
        "model_type": drafter.model_type,
        "dtype": "bfloat16",
        "hidden_size": t.hidden,
        "intermediate_size": t.intermediate,
        "num_hidden_layers": c.layers,
        "num_attention_heads": t.heads,
        "num_key_value_heads": t.kv_heads,
        "head_dim": t.head_dim,
        "hidden_act": "silu",
        "rms_norm_eps": t.eps,
        "rope_theta": t.theta,
        "rope_parameters": {"rope_type": "default", "rope_theta": t.theta},
        "max_position_embeddings": t.max_positions,
        "vocab_size": t.vocab,
        "draft_vocab_size": len(drafter.draft_ids),
        "attention_bias": False,
        "tie_word_embeddings": False,
        "bos_token_id": 1,
        "eos_token_id": 2,
        **drafter.own_settings(),
    }


def shards_of(tensors: dict[str, Tensor]) -> list[dict[str, Tensor]]:
    """Spread tensors over as few files as their order allows, each below ``SHARD_BYTES``."""
    shards: list[dict[str, Tensor]] = [{}]
    filled = 0
    for name, tensor in tensors.items():
        if shards[-1] and filled + tensor.nbytes > SHARD_BYTES:
            shards.append({})
            filled = 0
        shards[-1][name] = tensor
        filled += tensor.nbytes
    return shards


def export(drafter: Drafter, out: Path, summary: dict[str, object]) -> None:
    """Write weights (bfloat16, sharded), ``config.json`` and the training's ``training.json``."""
    out.mkdir(parents=True, exist_ok=True)
    tensors = {
        name: (value.bfloat16() if value.is_floating_point() else value).cpu().contiguous()
        for name, value in tensors_of(drafter).items()
    }
    shards = shards_of(tensors)
    where: dict[str, str] = {}
    for number, shard in enumerate(shards, 1):
        file = f"model-{number:05d}-of-{len(shards):05d}.safetensors"
        save_file(shard, out / file, metadata={"format": "pt"})
        (out / file).chmod(0o644)  # safetensors writes for the owner only
        where |= dict.fromkeys(shard, file)
    size = sum(tensor.nbytes for tensor in tensors.values())
    index = {"metadata": {"total_size": size}, "weight_map": where}
    for file, content in (
        ("model.safetensors.index.json", index),
        ("config.json", config_of(drafter)),
        ("training.json", summary),
    ):
        (out / file).write_text(json.dumps(content, indent=2) + "\n")
    write_sums(out)


def load_drafter(folder: Path, target: Target) -> Drafter:
    """Read an exported drafter back, with the target's embedding and head, in the target's type."""
    raw = json.loads((folder / "config.json").read_text())
    stored: dict[str, Tensor] = {}
    for path in sorted(folder.glob("*.safetensors")):
        stored |= load_file(path)
    offsets = stored.pop("d2t", torch.zeros(raw["vocab_size"], dtype=torch.long))
    draft_ids = (offsets + torch.arange(len(offsets))).to(target.device)
    method = METHODS[method_of(folder)]
    config = method.read_config(raw, TargetConfig.read(folder))
    head = stored.pop("lm_head.weight", None)
    stored.pop("t2d", None)
    drafter = method(config, target.embedding, target.head, draft_ids)
    wanted = {stored_name(name): name for name in drafter.state_dict()}
    state = {wanted[name]: value for name, value in stored.items()}
    state |= {"feature_scale": drafter.feature_scale, "draft_ids": draft_ids}
    drafter.load_state_dict(state)
    if head is not None:
        drafter.head = head
    drafter.to(target.device, target.dtype)
    return drafter
