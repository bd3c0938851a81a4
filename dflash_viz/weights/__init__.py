"""Resolving a model name to a folder of weights: a local folder, a hub id, or the embedded default."""

from dflash_viz.weights.resolver import (
    EMBEDDED,
    WeightsError,
    content_hash,
    convert_gguf,
    embedded_target_dir,
    resolve_model,
)

__all__ = [
    "EMBEDDED",
    "WeightsError",
    "content_hash",
    "convert_gguf",
    "embedded_target_dir",
    "resolve_model",
]
