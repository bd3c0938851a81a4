"""Let the target write its own training text, thousands of conversations in lockstep.

Every row starts at column 0 and runs to the last column: scripted tokens are fed one by one like
sampled ones, so there is no prefill, no padding and no mask, and the cache is a plain slice.
"""

from __future__ import annotations

import argparse
import math
import random
import time
from dataclasses import dataclass
from pathlib import Path

import torch
from tokenizers import Tokenizer
from torch import Tensor

from training.conversation import Segment, TurnSource, script
from training.data import GREEDY, SAMPLED, Corpus
from training.prompts import user_turn
from training.target import Cache, Target

TURNS = 7
"""User turns scripted per row; more than fit into a row's columns."""


@dataclass
class Plan:
    """Scripts of B rows with S segments each, as tensors on the device."""

    table: Tensor
    """Forced tokens of all segments, one after the other."""
    offsets: Tensor
    """Where a segment's forced tokens begin in ``table``, [B, S]."""
    lengths: Tensor
    """How many there are, [B, S]."""
    limits: Tensor
    """Tokens to sample behind them at most, [B, S]."""
    temperatures: Tensor
    """[B, S]."""
    floors: Tensor
    """temperature * ln(min-p), -inf for none: how far below the best score a token may be."""
    answers: Tensor
    """Whether the sampled tokens answer the user, [B, S]."""


def make_plan(scripts: list[list[Segment]], tokenizer: Tokenizer, device: str) -> Plan:
    """Tokenise scripts (padded to one length with an endless end-of-turn segment)."""
    longest = max(map(len, scripts)) + 1
    ending = Segment("<|im_end|>" * 2048, 0, 0.0, 0.0, answer=False)
    rows = [row + [ending] * (longest - len(row)) for row in scripts]
    flat = [segment for row in rows for segment in row]
    texts = sorted({segment.text for segment in flat})
    encoded = tokenizer.encode_batch(texts, add_special_tokens=False)
    start, where, table = 0, {}, []
    for text, item in zip(texts, encoded, strict=True):
        where[text] = (start, len(item.ids))
        table += item.ids
        start += len(item.ids)

    def tensor(values: list[float], dtype: torch.dtype) -> Tensor:
        return torch.tensor(values, dtype=dtype, device=device).view(len(rows), longest)

    floors = [s.temperature * math.log(s.min_p) if s.min_p else -math.inf for s in flat]
    return Plan(
        table=torch.tensor(table, dtype=torch.long, device=device),
        offsets=tensor([where[s.text][0] for s in flat], torch.long),
        lengths=tensor([where[s.text][1] for s in flat], torch.long),
        limits=tensor([s.limit for s in flat], torch.long),
        temperatures=tensor([s.temperature for s in flat], torch.float32),
        floors=tensor(floors, torch.float32),
        answers=tensor([s.answer for s in flat], torch.bool),
    )


def sample(logits: Tensor, temperature: Tensor, floor: Tensor) -> Tensor:
    """Draw one token per row: argmax of the scores plus Gumbel noise times the temperature.

    logits [B, vocab]; temperature, floor [B]. Temperature 0 is plain argmax; scores more than
    ``-floor`` below the best are left out (min-p).
    """
    noise = torch.empty_like(logits, dtype=torch.float32).exponential_().log_().neg_()
    scores = logits.float()
    kept = scores >= scores.amax(-1, keepdim=True) + floor[:, None]
    noisy = torch.where(kept, scores + temperature[:, None] * noise, -math.inf)
    return noisy.argmax(-1)


class Scribe:
    """Where every row stands in its script, and the choice of its next token."""

    def __init__(self, plan: Plan, end_of_turn: int) -> None:
        self.plan, self.end = plan, end_of_turn
        self.sample = torch.compile(sample) if plan.table.is_cuda else sample
        rows = len(plan.offsets)
        self.segment, self.forced, self.sampled = (
            torch.zeros(rows, dtype=torch.long, device=plan.table.device) for _ in range(3)
        )

    def _of(self, field: Tensor, segment: Tensor) -> Tensor:
        return field.gather(1, segment[:, None]).squeeze(1)

    def next(self, logits: Tensor) -> tuple[Tensor, Tensor]:
        """Next tokens [B] and their marks [B], given the scores [B, vocab] behind the last ones.

        An end of turn that the target samples is replaced by the next segment's first forced
        token: mostly the same token, but text written behind an invented beginning may follow.
        """
        plan, segment = self.plan, self.segment
        writing = self.forced < self._of(plan.lengths, segment)
        reading = self._of(plan.offsets, segment) + self.forced
        script_token = plan.table[reading.clamp_max(len(plan.table) - 1)]
        temperature = self._of(plan.temperatures, segment)
        chosen = self.sample(logits, temperature, self._of(plan.floors, segment))
        stopped = ~writing & (chosen == self.end)
        full = ~writing & ~stopped & (self.sampled + 1 >= self._of(plan.limits, segment))
        ended = stopped | full
        following = torch.where(ended, segment + 1, segment)
        first_of_next = plan.table[self._of(plan.offsets, following)]
        token = torch.where(writing, script_token, torch.where(stopped, first_of_next, chosen))
        answer = ~writing & self._of(plan.answers, segment)
        mark = answer * torch.where(temperature > 0, SAMPLED, GREEDY)
        self.segment = following
        self.forced = torch.where(ended, stopped.long(), self.forced + writing)
        self.sampled = torch.where(ended | writing, 0, self.sampled + 1)
        return token, mark


class Decoder:
    """Decode steps of a fixed number of rows; on a GPU recorded once and replayed."""

    def __init__(self, target: Target, rows: int, columns: int) -> None:
        self.target = target
        self.cache = Cache.empty(target, rows, columns)
        self.tokens = torch.zeros(rows, dtype=torch.long, device=target.device)
        self.column = torch.zeros(1, dtype=torch.long, device=target.device)
        self.graph = torch.cuda.CUDAGraph() if self.tokens.is_cuda else None
        if self.graph is not None:
            self._run()  # compiles kernels, which a recording must not do
            torch.cuda.synchronize()
            with torch.cuda.graph(self.graph):
                self.logits = self._run()

    def _run(self) -> Tensor:
        return self.target.decode(self.tokens, self.column, self.cache)

    def step(self, tokens: Tensor, column: int) -> Tensor:
        """Feed ``tokens`` [B] at ``column``; returns logits [B, vocab], overwritten next time."""
        self.tokens.copy_(tokens)
        self.column.fill_(column)
        if self.graph is None:
            return self._run()
        self.graph.replay()
        return self.logits


@torch.no_grad()
def run_wave(decoder: Decoder, plan: Plan, columns: int, end_of_turn: int) -> tuple[Tensor, Tensor]:
    """Fill ``columns`` tokens of every row; returns tokens [B, T] int32 and marks [B, T] uint8."""
    target, rows = decoder.target, len(plan.offsets)
    scribe = Scribe(plan, end_of_turn)
    tokens = torch.empty(rows, columns, dtype=torch.int32, device=target.device)
    marks = torch.empty(rows, columns, dtype=torch.uint8, device=target.device)
    logits = torch.zeros(rows, target.config.vocab, dtype=target.dtype, device=target.device)
    for column in range(columns):
        token, mark = scribe.next(logits)
        tokens[:, column], marks[:, column] = token, mark
        logits = decoder.step(token, column)
    return tokens, marks


def scripts_of(source: TurnSource, rows: int, seed: int) -> tuple[Tensor, list[list[Segment]]]:
    """Kinds [rows] and scripts of ``rows`` conversations."""
    rng = random.Random(seed)
    pairs = [script(source, TURNS, rng) for _ in range(rows)]
    kinds = torch.tensor([kind for kind, _ in pairs], dtype=torch.uint8)
    return kinds, [segments for _, segments in pairs]


def generate(
    target: Target,
    tokenizer: Tokenizer,
    out: Path,
    *,
    rows: int,
    columns: int,
    seconds: float,
    seed: int,
    source: TurnSource = user_turn,
) -> None:
    """Write waves of ``rows`` conversations until another would exceed ``seconds``."""
    out.mkdir(parents=True, exist_ok=True)
    end_of_turn = tokenizer.token_to_id("<|im_end|>")
    torch.manual_seed(seed)
    began, waves, answers, spent = time.monotonic(), 0, 0, 0.0
    with torch.no_grad():
        decoder = Decoder(target, rows, columns)
    while waves == 0 or spent * (waves + 1) / waves < seconds:
        kinds, scripts = scripts_of(source, rows, seed * 1000 + waves)
        plan = make_plan(scripts, tokenizer, str(target.device))
        tokens, marks = run_wave(decoder, plan, columns, end_of_turn)
        answers += int((marks > 0).sum())
        took, spent = time.monotonic() - began - spent, time.monotonic() - began
        wave = Corpus(tokens, marks, kinds, torch.tensor([took]))
        wave.save(out / f"wave-{seed:03d}-{waves:03d}.safetensors")
        waves += 1
        print(
            f"generate: {waves} waves, {waves * rows * columns / 1e6:.1f} M tokens, "
            f"{answers / 1e6:.1f} M of answers, {spent:.0f} s",
            flush=True,
        )


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    add_arguments(parser)
    parser.add_argument("--target", type=Path, required=True, help="folder of the target")
    parser.add_argument("--out", type=Path, required=True, help="data folder")
    parser.add_argument("--device", default="cuda")
    args = parser.parse_args()
    generate_from_arguments(args, args.target, args.out)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options that ``training.run`` shares."""
    parser.add_argument("--rows", type=int, default=6144, help="conversations at a time")
    parser.add_argument("--columns", type=int, default=640, help="tokens of each")
    parser.add_argument("--generate-seconds", type=float, default=282, help="time to write text")
    parser.add_argument("--seed", type=int, default=0)


def generate_from_arguments(args: argparse.Namespace, target_folder: Path, out: Path) -> None:
    """Load the target and write the data folder."""
    dtype = torch.bfloat16 if args.device.startswith("cuda") else torch.float32
    target = Target.load(target_folder, args.device, dtype)
    tokenizer = Tokenizer.from_file(str(target_folder / "tokenizer.json"))
    generate(
        target,
        tokenizer,
        out,
        rows=args.rows,
        columns=args.columns,
        seconds=args.generate_seconds,
        seed=args.seed,
    )


if __name__ == "__main__":
    main()
