"""Where results lie: in the cache, beside the app's runs, so that the app lists them."""

from __future__ import annotations

from pathlib import Path

from dflash_viz.trace.ids import new_id
from dflash_viz.weights.resolver import cache_dir


def results_dir() -> Path:
    """Where the results of this user's benchmarks lie."""
    return cache_dir() / "results"


def new_result() -> Path:
    """The folder for a result that begins now; it is made by whoever writes into it."""
    return results_dir() / new_id()
