"""``python -m dflash_viz.bench.expect RESULT``: make what was measured the pair's expectation.

For recording again after a drafter was replaced by a better one. The published rows are written by hand,
and stay.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from dflash_viz.metrics.measured.expectations import (
    EXPECTATIONS,
    Expectation,
    read_expectations,
    recorded_expectations,
    write_expectations,
)
from dflash_viz.results import read_result

TOLERANCE = 0.9
"""As vLLM's own checks: two number formats or machines differ by a few per cent, a fault by much more."""


def main() -> None:
    """Read results and replace the pair's recorded rows on their data sets."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("results", type=Path, nargs="+", help="folders of complete results")
    parser.add_argument("--pair", default="embedded")
    parser.add_argument("--note", default="", help="the machine, for example")
    options = parser.parse_args()
    fresh = [
        row
        for folder in options.results
        for row in recorded_expectations(read_result(folder), options.pair, TOLERANCE, options.note)
    ]
    write_expectations(_merged(read_expectations(EXPECTATIONS), fresh, options.pair), _file(options.pair))
    for row in fresh:
        print(f"{row.pair}: {row.dataset}, {row.method}, K = {row.num_speculative_tokens}: AL {row.al:.2f}")


def _merged(known: list[Expectation], fresh: list[Expectation], pair: str) -> list[Expectation]:
    """The pair's rows; of those on the fresh ones' data sets, the published ones alone."""
    replaced = {row.dataset for row in fresh}
    kept = [row for row in known if row.pair == pair and not (_recorded(row) and row.dataset in replaced)]
    return kept + fresh


def _recorded(row: Expectation) -> bool:
    """Whether a row was made here, and not published by others."""
    return row.source.startswith("recorded")


def _file(pair: str) -> Path:
    return EXPECTATIONS / f"{pair}.json"


if __name__ == "__main__":
    main()
