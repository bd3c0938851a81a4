"""Generated text on disk and on the training device."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

KINDS = ("maths", "code", "chat", "free")
"""What the first user turn of a sequence asks for; ``free`` is invented by the target alone."""
GREEDY, SAMPLED = 1, 2
"""Marks of answer tokens; 0 marks everything that was forced or belongs to a user turn."""


@dataclass
class Corpus:
    """N sequences of T tokens."""

    tokens: Tensor
    """[N, T], int32."""
    marks: Tensor
    """[N, T], uint8: 0, ``GREEDY`` or ``SAMPLED``."""
    kinds: Tensor
    """[N], uint8, index into ``KINDS``."""
    seconds: Tensor
    """Device seconds each file took to write, [files]."""

    def save(self, path: Path) -> None:
        """Write one file of the data folder."""
        parts = vars(self)
        save_file({name: part.cpu().contiguous() for name, part in parts.items()}, path)

    @classmethod
    def load(cls, folder: Path, device: str) -> Corpus:
        """Read all files of the data folder in a fixed order and mix their sequences."""
        files = [load_file(path) for path in sorted(folder.glob("*.safetensors"))]
        if not files:
            raise FileNotFoundError(f"no generated data in {folder}")
        merged = {name: torch.cat([part[name] for part in files]) for name in files[0]}
        order = torch.randperm(len(merged["kinds"]), generator=torch.Generator().manual_seed(0))
        seconds = merged.pop("seconds")
        mixed = {name: part[order].to(device) for name, part in merged.items()}
        return cls(**mixed, seconds=seconds)

    def split(self, held_out: int) -> tuple[Corpus, Corpus]:
        """Training part and the first ``held_out`` sequences for validation."""

        def part(where: slice) -> Corpus:
            return Corpus(self.tokens[where], self.marks[where], self.kinds[where], self.seconds)

        return part(slice(held_out, None)), part(slice(held_out))


def loop_mask(tokens: Tensor, longest: int = 64, least: int = 24) -> Tensor:
    """True where text [N, T] repeats itself: the last max(``least``, period) tokens equal those
    one period earlier, for any period up to ``longest``.

    Greedy answers of a small model often end in such loops; they teach a drafter nothing.
    """
    looping = torch.zeros_like(tokens, dtype=torch.bool)
    for period in range(1, longest + 1):
        same = torch.zeros_like(looping)
        same[:, period:] = tokens[:, period:] == tokens[:, :-period]
        total = same.int().cumsum(1)
        window = max(least, period)
        looping[:, window:] |= (total[:, window:] - total[:, :-window]) == window
    return looping


def frequent_tokens(corpus: Corpus, count: int, vocab: int, always: list[int]) -> Tensor:
    """The ``count`` most frequent answer tokens, ``always`` among them, in ascending order."""
    answers = corpus.tokens[corpus.marks > 0]
    frequency = torch.bincount(answers.long(), minlength=vocab)
    frequency[torch.tensor(always, device=frequency.device)] = frequency.max() + 1
    return frequency.topk(min(count, vocab)).indices.sort().values


def draft_index(draft_ids: Tensor, vocab: int) -> Tensor:
    """Table from target id to draft id, -1 for tokens that cannot be drafted: [vocab]."""
    table = torch.full((vocab,), -1, dtype=torch.long, device=draft_ids.device)
    table[draft_ids] = torch.arange(len(draft_ids), device=draft_ids.device)
    return table
