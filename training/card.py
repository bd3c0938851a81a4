"""Model card of a drafter, written from what its training recorded and its evaluation measured."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from training.recipe import OPTIONS, RECIPES

TEMPLATE = """---
license: apache-2.0
base_model: HuggingFaceTB/SmolLM2-135M-Instruct
library_name: vllm
tags: [speculative-decoding, {method}, draft-model]
---
# {title}

{introduction} It shares the target's embedding; its head is the target's own {vocab:,} rows
of the most frequent tokens, copied into `lm_head.weight` (`d2t` maps them back). It is of use with
this target only.

    vllm serve HuggingFaceTB/SmolLM2-135M-Instruct \\
      --speculative-config '{{"method": "{method}", "model": "<this folder>", "num_speculative_tokens": {k}}}'

## Data

{sequences:,} conversations of 640 tokens, all written by the target: {tokens:.1f} M tokens, of them
{answers:.1f} M answers ({greedy:.0f} % at temperature 0, the rest at 0.7 and 1). User turns are written
from the templates in `training/prompts`, begun there and continued by the target, or invented by the
target alone. No benchmark text was used. Answer tokens inside repetition loops were left out of the loss
({anchors:.1f} M remain); {coverage:.1f} % of those are in the draft vocabulary.

## Training

{laid_out}, label weights exp(-(k - 1) / {gamma:g}). A share of {soft:g} of
the loss is the cross-entropy against the target's distribution at temperature 1, the rest that against
the token that followed. Muon for matrices ({matrix_lr:g}), AdamW for norms ({vector_lr:g}), cosine;
{steps:,} steps of {sequences_step} sequences with {anchors_step} anchors each. {particular}
On {device}: {generation:.0f} s to write the data and {seconds:.0f} s to train{note}.

    {command}

## Figures

Acceptance length (AL): accepted drafted tokens plus the target's own token, per step. "Pooled" is
1 + accepted tokens / steps over all requests of a set; "mean of requests" averages each request's
own AL; "mean" rows average the sets without weights.

{figures}
## Licence

Apache-2.0, like its target, HuggingFaceTB/SmolLM2-135M-Instruct, whose rows its head repeats.
"""

INTRODUCTIONS = {
    "dflash": """\
A DFlash drafter (arXiv:2602.06036) of block size {block} for SmolLM2-135M-Instruct: {parameters:.1f} M
trained parameters in {layers} layers. One forward pass drafts a whole block from the hidden states of the
target's layers {layer_ids}.""",
    "eagle3": """\
An EAGLE-3 head (arXiv:2503.01840) for SmolLM2-135M-Instruct: {parameters:.1f} M trained parameters in one
Llama layer, which drafts token by token: first from the fused outputs of the target's layers {layer_ids}
(counted from 0), then from
its own.""",
}
LAID_OUT = {
    "dflash": "Random anchors, block-wise mask",
    "eagle3": "Random anchors, chains of {drafted} steps on the head's own states",
}
PARTICULARS = {
    "dflash": """\
A share of
{shortened:g} of the blocks is shortened, so that smaller K are no new situation.
The key norms are fixed at one.""",
    "eagle3": """\
The chains
read the text's own tokens: a draft counts only while it is the text.""",
}


MEASURED = {
    "evaluate": "Measured in vLLM 0.32.0 on the CPU, bfloat16",
    "reference": "Computed by the reference decoder in float32, where it agrees with vLLM step by step",
}


def figures_text(rows: list[dict[str, Any]], log: list[dict[str, float]], measured: str) -> str:
    """The evaluation where there is one, and the last validation of the training."""
    text = ""
    if rows:
        text = (
            f"{MEASURED[measured]}, greedy, 128 new tokens, first 40 prompts of\n"
            f"GSM8K (test), HumanEval and MT-Bench (first turn), with `python -m training.{measured}`:\n\n"
            "| set | K | requests | steps | AL, pooled | AL, mean of requests |\n|---|---|---|---|---|---|\n"
        )
        for row in rows:
            text += (
                f"| {row['name']} | {row['k']} | {row['requests']} | {row['steps']:,} "
                f"| {row['pooled']:.2f} | {row['per_request']:.2f} |\n"
            )
        text += "\n"
    last = {name[3:]: value for name, value in log[-1].items() if name.startswith("AL ")}
    kinds = ", ".join(f"{name} {value:.2f}" for name, value in last.items())
    return (
        f"{text}On held-out text of the training's own distribution, pooled, at the full block: {kinds}.\n"
        "That is easier than the sets above, as the prompts come from the same templates.\n\n"
    )


def render(title: str, summary: dict[str, Any], rows: list[dict[str, Any]], measured: str) -> str:
    """The card's text; ``summary`` is the content of ``training.json``."""
    recipe = summary["recipe"]
    last = summary["log"][-1]
    method, block = recipe.get("method", "dflash"), recipe["block_size"]
    usual = RECIPES[method]
    options = "".join(
        f" {option} {recipe[field]:g}"
        for field, option in OPTIONS.items()
        if field == "seconds" or recipe[field] != getattr(usual, field)
    )
    about = {
        "block": block,
        "drafted": block - 1,
        "parameters": summary["parameters"] / 1e6,
        "layers": recipe["layers"],
        "layer_ids": ", ".join(map(str, recipe["target_layer_ids"])),
        "shortened": recipe["shortened"],
    }
    return TEMPLATE.format(
        title=title,
        method=method,
        introduction=INTRODUCTIONS[method].format(**about),
        laid_out=LAID_OUT[method].format(**about),
        particular=PARTICULARS[method].format(**about),
        k=min(block - 1, 5) if block == 8 else block - 1,
        vocab=recipe["draft_vocab"],
        sequences=summary["sequences"],
        tokens=summary["tokens"] / 1e6,
        answers=summary["answer_tokens"] / 1e6,
        greedy=100 * summary["greedy_answer_tokens"] / summary["answer_tokens"],
        anchors=summary["anchor_tokens"] / 1e6,
        coverage=100 * summary["label_coverage"],
        gamma=recipe["gamma"],
        soft=recipe["soft"],
        matrix_lr=recipe["matrix_lr"],
        vector_lr=recipe["vector_lr"],
        steps=last["step"],
        sequences_step=recipe["sequences"],
        anchors_step=recipe["anchors"],
        device=summary["device"],
        generation=summary["generation_seconds"],
        seconds=last["seconds"],
        note=summary.get("note", ""),
        command=(
            "python -m training.run "
            + ("" if method == "dflash" else f"--method {method} ")
            + f"--out OUT --generate-seconds {summary['generation_seconds']}{options}"
        ),
        figures=figures_text(rows, summary["log"], measured),
    )


def write_card(drafter: Path, figures_file: Path | None, measured: str = "evaluate") -> None:
    """Write ``README.md`` beside ``training.json``, with figures that ``measured`` wrote."""
    summary = json.loads((drafter / "training.json").read_text())
    rows = json.loads(figures_file.read_text()) if figures_file else []
    (drafter / "README.md").write_text(render(drafter.resolve().name, summary, rows, measured))


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--drafter", type=Path, required=True)
    parser.add_argument("--figures", type=Path, help="JSON file of training.evaluate")
    parser.add_argument("--by", choices=MEASURED, default="evaluate", help="module that wrote the file")
    args = parser.parse_args()
    write_card(args.drafter, args.figures, args.by)


if __name__ == "__main__":
    main()
