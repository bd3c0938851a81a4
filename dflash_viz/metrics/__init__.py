"""Figures: pure functions of a trace's steps, each with the definition that is shown beside it."""

from dflash_viz.metrics.figures import (
    Figure,
    acceptance_length,
    acceptance_rate,
    decode_tokens_per_second,
    draft_share,
    mean_draft_s,
    mean_verify_s,
    running_figures,
    tokens_per_engine_step,
)

__all__ = [
    "Figure",
    "acceptance_length",
    "acceptance_rate",
    "decode_tokens_per_second",
    "draft_share",
    "mean_draft_s",
    "mean_verify_s",
    "running_figures",
    "tokens_per_engine_step",
]
