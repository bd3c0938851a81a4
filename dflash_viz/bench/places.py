"""Where results lie: in the cache, beside the app's runs, so that the app lists them."""

from __future__ import annotations

import secrets
from datetime import datetime
from pathlib import Path

from dflash_viz.weights.resolver import cache_dir


def results_dir() -> Path:
    """Where the results of this user's benchmarks lie."""
    return cache_dir() / "results"


def new_result() -> Path:
    """The folder for a result that begins now; whoever writes into it makes it."""
    return results_dir() / f"{datetime.now():%Y%m%d-%H%M%S}-{secrets.token_urlsafe(16)}"
