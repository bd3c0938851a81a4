"""Reference decoding: the acceptance a drafter must reach in vLLM, computed in plain torch.

Greedy speculative decoding emits the target's greedy text whatever is drafted, so the text is
written first and the steps are walked along it; every step drafts from the hidden states of the
tokens before its anchor, exactly as an engine does.
"""

from __future__ import annotations

import torch
from tokenizers import Tokenizer
from torch import Tensor

from dflash_viz.weights import resolve_model
from training.acceptance import run_lengths, walk
from training.blocks import GROUP
from training.conversation import SYSTEM, Segment
from training.drafter import Drafter
from training.evaluate import Figures, figures, markdown, mean_of_sets, save
from training.export import load_drafter
from training.generate import Decoder, make_plan, run_wave
from training.sets import evaluation_parser, read_sets
from training.target import Target


@torch.no_grad()
def greedy_texts(
    target: Target, tokenizer: Tokenizer, prompts: list[str], new_tokens: int
) -> list[tuple[Tensor, int]]:
    """Prompt and ``new_tokens`` greedy tokens of each user turn, and where the answer begins.

    The text runs on behind an end of turn, as drafts there are still compared by an engine.
    """
    chats = [
        f"<|im_start|>system\n{SYSTEM}<|im_end|>\n<|im_start|>user\n{prompt}<|im_end|>\n"
        "<|im_start|>assistant\n"
        for prompt in prompts
    ]
    plan = make_plan(
        [[Segment(chat, new_tokens, 0.0, 0.0, answer=True)] for chat in chats],
        tokenizer,
        str(target.device),
    )
    starts = plan.lengths[:, 0].tolist()
    columns = max(starts) + new_tokens
    decoder = Decoder(target, len(prompts), columns)
    tokens, _ = run_wave(decoder, plan, columns, end_of_turn=-1)
    return [(row[: start + new_tokens].long(), start) for row, start in zip(tokens, starts, strict=True)]


def reference_steps(
    target: Target, drafter: Drafter, text: Tensor, start: int, k: int, new_tokens: int
) -> list[int]:
    """Accepted counts of the steps that emit up to ``new_tokens`` tokens from ``start`` on.

    ``text`` [T] reaches at least ``k`` tokens further; decoding ends early at an end of turn.
    """
    padded = torch.nn.functional.pad(text, (0, GROUP))[None]
    starts = start + torch.arange(new_tokens + -new_tokens % GROUP, device=text.device)[None]
    lengths = run_lengths(target, drafter, padded, starts, k + 1)[0]
    answer = text[start : start + new_tokens]
    ends = (answer == 2).nonzero()
    last = int(ends[0]) if len(ends) else new_tokens - 1
    return walk(lengths, 0, last)


def main() -> None:
    """Command line: the same table as ``training.evaluate``, without vLLM."""
    parser = evaluation_parser(__doc__)
    args = parser.parse_args()
    folder = resolve_model("embedded")
    target = Target.load(folder, "cpu", torch.float32)
    drafter = load_drafter(args.drafter, target)
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    texts = {
        name: greedy_texts(target, tokenizer, prompts, args.new_tokens + max(args.k))
        for name, prompts in read_sets(args.sets, args.prompts).items()
    }
    everything: list[Figures] = []
    for k in args.k:
        rows = [
            figures(
                name,
                k,
                [reference_steps(target, drafter, text, start, k, args.new_tokens) for text, start in pairs],
            )
            for name, pairs in texts.items()
        ]
        rows.append(mean_of_sets(rows))
        print("\n".join(map(markdown, rows)), flush=True)
        everything += rows
    save(everything, args.out)


if __name__ == "__main__":
    main()
