"""Train a drafter on generated text."""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import asdict, replace
from pathlib import Path

import torch
from torch import Tensor

from training.acceptance import run_lengths, walk
from training.blocks import GROUP, gather_ahead, label_weights, sample_lengths, sample_starts
from training.card import write_card
from training.data import GREEDY, KINDS, Corpus, draft_index, frequent_tokens, loop_mask
from training.drafter import DrafterConfig
from training.export import export
from training.loss import block_loss, draft_labels
from training.methods import METHODS
from training.optim import build_optimisers, cosine
from training.recipe import OPTIONS, RECIPES, Recipe
from training.target import Target


class Trainer:
    """Target, drafter, data and the loop over batches."""

    def __init__(self, target: Target, corpus: Corpus, recipe: Recipe, compiled: bool) -> None:
        self.target, self.recipe = target, recipe
        self.train_part, self.valid_part = corpus.split(recipe.held_out)
        vocab = target.config.vocab
        always = [0, 1, 2]  # end of text, beginning and end of a turn
        ids = frequent_tokens(self.train_part, min(recipe.draft_vocab, vocab), vocab, always)
        self.to_draft = draft_index(ids, vocab)
        self.answers, self.labels_ok = self.usable(self.train_part)
        self.generator = torch.Generator(target.device).manual_seed(recipe.seed)
        config = DrafterConfig(
            target.config,
            recipe.layers,
            recipe.block_size,
            recipe.target_layer_ids,
            recipe.mask_token_id,
        )
        drafter = METHODS[recipe.method](config, target.embedding, target.head, ids)
        drafter.initialise(torch.Generator().manual_seed(recipe.seed))
        self.drafter = drafter.to(target.device)
        self.measure_features()
        self.optimisers = build_optimisers(self.drafter, recipe.matrix_lr, recipe.vector_lr)
        self.run_target = torch.compile(target.forward) if compiled else target.forward
        self.run_loss = torch.compile(self.loss) if compiled else self.loss
        self.log: list[dict[str, float]] = []

    def usable(self, corpus: Corpus) -> tuple[Tensor, Tensor]:
        """Where anchors may be, and which tokens count as labels: [N, T] each."""
        chunks = zip(corpus.tokens.split(8192), corpus.marks.split(8192), strict=True)
        answers = torch.cat([(marks > 0) & ~loop_mask(tokens) for tokens, marks in chunks])
        return answers, answers & (self.to_draft[corpus.tokens.long()] >= 0)

    @torch.no_grad()
    def measure_features(self) -> None:
        """Set the drafter's ``feature_scale`` to each channel's deviation over some sequences."""
        tokens = self.train_part.tokens[: self.recipe.sequences].long()
        features, _ = self.target.forward(tokens, self.recipe.target_layer_ids)
        # Position 0 is an outlier of its own and would set the scale alone.
        deviation = features[:, 1:].float().flatten(0, 1).std(0)
        self.drafter.feature_scale.copy_(deviation.clamp_min(1e-3))

    def autocast(self) -> torch.autocast:
        """bfloat16 matrix products on a GPU, plain float32 elsewhere."""
        device = self.target.device.type
        return torch.autocast(device, torch.bfloat16, enabled=device == "cuda")

    def loss(
        self, features: Tensor, last: Tensor, tokens: Tensor, starts: Tensor, lengths: Tensor, weights: Tensor
    ) -> Tensor:
        """Loss of one batch; ``last`` [B, T, hidden] are the teacher's states."""
        size = self.recipe.block_size
        labels = draft_labels(gather_ahead(tokens, starts, size, 0), self.to_draft)
        with self.autocast():
            hidden = self.drafter.draft(features, tokens, starts, lengths, size).flatten(0, 2)
            logits = self.drafter.logits(hidden)
            with torch.no_grad():
                ahead = starts[..., None] + torch.arange(size - 1, device=last.device)
                rows = ahead.clamp_max(last.shape[1] - 1).flatten(1)[..., None]
                seen = last.gather(1, rows.expand(-1, -1, last.shape[2])).flatten(0, 1)
                teacher = self.drafter.logits(seen)
        return block_loss(logits, labels.flatten(), teacher, weights.flatten(), self.recipe.soft)

    def step(self, progress: float) -> Tensor:
        """One batch: target forward, loss, update. Returns the loss, still on the device."""
        r, device = self.recipe, self.target.device
        count = len(self.train_part.tokens)
        rows = torch.randint(count, (r.sequences,), generator=self.generator, device=device)
        tokens = self.train_part.tokens[rows].long()
        answers, labels_ok = self.answers[rows], self.labels_ok[rows]
        starts = sample_starts(answers, r.anchors, self.generator)
        lengths = sample_lengths(starts, r.block_size, r.shortened, self.generator)
        weights = label_weights(starts, lengths, answers, labels_ok, r.block_size, r.gamma)
        with torch.no_grad(), self.autocast():
            features, last = self.run_target(tokens, r.target_layer_ids)
        loss = self.run_loss(features, last, tokens, starts, lengths, weights)
        loss.backward()
        self.update(cosine(progress, r.warmup))
        return loss.detach()

    def update(self, factor: float) -> None:
        """Clip the gradient's norm and step both optimisers at ``factor`` of their rates."""
        torch.nn.utils.clip_grad_norm_(self.drafter.parameters(), self.recipe.clip)
        for optimiser, rate in zip(
            self.optimisers, (self.recipe.matrix_lr, self.recipe.vector_lr), strict=True
        ):
            for group in optimiser.param_groups:
                group["lr"] = rate * factor
            optimiser.step()
            optimiser.zero_grad(set_to_none=True)

    @torch.no_grad()
    def validate(self, limit: int = 128) -> dict[str, float]:
        """Pooled acceptance length of greedy decoding over held-out first greedy answers.

        Walks along each answer's first ``limit`` tokens; by kind of prompt and over all.
        """
        size, columns = self.recipe.block_size, self.valid_part.tokens.shape[1]
        everywhere = torch.arange(columns - columns % GROUP, device=self.target.device)
        with self.autocast():
            runs = torch.cat(
                [
                    run_lengths(self.target, self.drafter, rows, everywhere.expand(len(rows), -1), size)
                    for rows in self.valid_part.tokens.long().split(8)
                ]
            )
        steps: dict[str, list[int]] = {kind: [] for kind in KINDS}
        for marks, kind, lengths in zip(
            self.valid_part.marks.cpu(), self.valid_part.kinds, runs.cpu(), strict=True
        ):
            greedy = (marks == GREEDY).long()
            first = int(greedy.argmax())
            if greedy[first]:
                length = int(greedy[first : first + limit].cumprod(0).sum())
                steps[KINDS[int(kind)]] += walk(lengths, first, first + length - 1)
        steps["all"] = [count for counts in steps.values() for count in counts]
        return {kind: 1 + sum(c) / len(c) for kind, c in steps.items() if c}

    def note(self, step: int, seconds: float, loss: float) -> None:
        """Validate, print and remember."""
        figures = {"step": step, "seconds": round(seconds, 1), "loss": round(loss, 4)}
        figures |= {f"AL {kind}": round(value, 3) for kind, value in self.validate().items()}
        self.log.append(figures)
        print("train:", json.dumps(figures), flush=True)

    def summary(self) -> dict[str, object]:
        """What the model card needs to know."""
        part = self.train_part
        return {
            "recipe": asdict(self.recipe),
            "device": torch.cuda.get_device_name() if torch.cuda.is_available() else "CPU",
            "sequences": len(part.tokens),
            "tokens": part.tokens.numel(),
            "answer_tokens": int((part.marks > 0).sum()),
            "greedy_answer_tokens": int((part.marks == GREEDY).sum()),
            "anchor_tokens": int(self.answers.sum()),
            "label_coverage": float(self.labels_ok.sum() / self.answers.sum()),
            "generation_seconds": round(float(part.seconds.sum())),
            "parameters": sum(p.numel() for p in self.drafter.parameters()),
            "log": self.log,
        }

    def train(self, out: Path, every: float = 120.0) -> None:
        """Train until the recipe's seconds or steps are spent; export every ``every`` seconds.

        The clock starts behind the first step, which may compile for a minute.
        """
        r = self.recipe
        self.step(0.0)
        began = time.monotonic()
        spent, step, noted = 0.0, 1, 0.0
        loss = torch.zeros((), device=self.target.device)
        while spent < r.seconds and step < r.steps:
            now = self.step(max(spent / r.seconds, step / r.steps))
            step += 1
            loss.lerp_(now, max(0.02, 1 / step))
            spent = time.monotonic() - began
            if spent - noted > every:
                noted = spent
                self.note(step, spent, float(loss))
                export(self.drafter, out, self.summary())
        self.note(step, spent, float(loss))
        export(self.drafter, out, self.summary())


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options that ``training.run`` shares; what is not given is the method's recipe's."""
    parser.add_argument("--method", choices=sorted(RECIPES), default="dflash")
    parser.add_argument("--layers", type=int, help="DFlash only: EAGLE-3 has one")
    parser.add_argument("--block-size", type=int, help="drafted tokens and the anchor")
    parser.add_argument("--gamma", type=float, help="decay of the weights")
    parser.add_argument("--soft", type=float, help="share of soft targets")
    parser.add_argument("--anchors", type=int, help="per sequence")
    parser.add_argument("--matrix-lr", type=float)
    parser.add_argument("--train-seconds", type=float, dest="seconds")


def train_from_arguments(args: argparse.Namespace, target_folder: Path, data: Path, out: Path) -> None:
    """Load target and data, train and export to ``out`` with a model card."""
    cuda = args.device.startswith("cuda")
    target = Target.load(target_folder, args.device, torch.bfloat16 if cuda else torch.float32)
    base = RECIPES[args.method]
    given = {name: getattr(args, name) for name in OPTIONS if getattr(args, name) is not None}
    recipe = replace(base, **given)
    Trainer(target, Corpus.load(data, args.device), recipe, compiled=cuda).train(out)
    write_card(out, figures_file=None)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    add_arguments(parser)
    parser.add_argument("--target", type=Path, required=True, help="folder of the target")
    parser.add_argument("--data", type=Path, required=True, help="folder of generated text")
    parser.add_argument("--out", type=Path, required=True, help="drafter to write")
    parser.add_argument("--device", default="cuda")
    args = parser.parse_args()
    train_from_arguments(args, args.target, args.data, args.out)


if __name__ == "__main__":
    main()
