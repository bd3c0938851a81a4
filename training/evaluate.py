"""Acceptance length of a drafter in vLLM: greedy, per set and number of drafted tokens K."""

from __future__ import annotations

import json
import statistics
from dataclasses import asdict, dataclass
from pathlib import Path

from dflash_viz.weights import resolve_model
from training.server import accepted_per_step, serve
from training.sets import evaluation_parser, read_sets


@dataclass(frozen=True)
class Figures:
    """Acceptance length of one set at one K; an acceptance length counts the target's own token."""

    name: str
    k: int
    requests: int
    steps: int
    pooled: float
    """1 + accepted tokens of all requests / steps of all requests."""
    per_request: float
    """Mean of the requests' own acceptance lengths."""


def figures(name: str, k: int, requests: list[list[int]]) -> Figures:
    """Summarise the accepted counts of each request's steps."""
    requests = [steps for steps in requests if steps]
    counts = [count for steps in requests for count in steps]
    return Figures(
        name=name,
        k=k,
        requests=len(requests),
        steps=len(counts),
        pooled=1 + statistics.fmean(counts),
        per_request=statistics.fmean(1 + statistics.fmean(steps) for steps in requests),
    )


def mean_of_sets(rows: list[Figures]) -> Figures:
    """Unweighted mean over the sets of one K."""
    return Figures(
        name="mean",
        k=rows[0].k,
        requests=sum(row.requests for row in rows),
        steps=sum(row.steps for row in rows),
        pooled=statistics.fmean(row.pooled for row in rows),
        per_request=statistics.fmean(row.per_request for row in rows),
    )


def evaluate(drafter: Path, sets: dict[str, list[str]], k: int, dtype: str, new_tokens: int) -> list[Figures]:
    """Run all sets on one server with K = ``k`` and print each result."""
    rows = []
    with serve(resolve_model("embedded"), drafter, k, dtype) as url:
        for name, prompts in sets.items():
            rows.append(figures(name, k, accepted_per_step(url, prompts, new_tokens)))
            print(markdown(rows[-1]), flush=True)
    rows.append(mean_of_sets(rows))
    print(markdown(rows[-1]), flush=True)
    return rows


def markdown(row: Figures) -> str:
    """One line of a table."""
    return (
        f"| {row.name} | {row.k} | {row.requests} | {row.steps} | {row.pooled:.3f} | {row.per_request:.3f} |"
    )


def save(rows: list[Figures], out: Path | None) -> None:
    """Write the figures as JSON, if a file is given."""
    if out:
        out.write_text(json.dumps([asdict(row) for row in rows], indent=2) + "\n")


def main() -> None:
    """Command line."""
    parser = evaluation_parser(__doc__)
    parser.add_argument("--dtype", default="bfloat16", help="of the engine")
    args = parser.parse_args()
    sets = read_sets(args.sets, args.prompts)
    print("| set | K | requests | steps | AL, pooled | AL, mean of requests |")
    print("|---|---|---|---|---|---|")
    rows = [row for k in args.k for row in evaluate(args.drafter, sets, k, args.dtype, args.new_tokens)]
    save(rows, args.out)


if __name__ == "__main__":
    main()
