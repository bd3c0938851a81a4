"""Data sets of the Hugging Face hub, fetched with the optional package ``datasets``."""

from __future__ import annotations

import contextlib
import importlib
import threading
from collections.abc import Iterator
from typing import Any

from dflash_viz.bench.formats import HubPlace, Row

PROBE_S = 10.0
_one_at_a_time = threading.Lock()


class HubError(RuntimeError):
    """The data set cannot be had; the message, whole sentences, says why."""


def hub_rows(place: HubPlace) -> list[Row]:
    """All lines of a data set: from the hub, or from the cache of ``datasets`` when the hub is out of reach.

    Blocks while it downloads. Without network it gives up at once, with one that swallows requests after
    little more than ``PROBE_S`` seconds. Raises ``HubError``.
    """
    try:
        datasets = importlib.import_module("datasets")
    except ImportError as error:
        raise HubError(
            "It is fetched with the package datasets, which is not installed here: pip install datasets."
        ) from error
    unreachable = _unreachable(place.repository)
    with _offline(datasets) if unreachable else contextlib.nullcontext():
        return _load(datasets, place, unreachable)


def _unreachable(repository: str) -> str:
    """Why the hub does not give this data set; empty when it does.

    Asked first because ``datasets`` repeats failing requests for half a minute.
    """
    from huggingface_hub import HfApi

    try:
        HfApi().dataset_info(repository, timeout=PROBE_S)
    except Exception as error:  # The client's own errors, and those of whichever HTTP library it uses.
        return type(error).__name__
    return ""


def _load(datasets: Any, place: HubPlace, unreachable: str) -> list[Row]:
    try:
        return list(datasets.load_dataset(place.repository, place.configuration, split=place.split))
    except Exception as error:  # From the network to pyarrow and the disk: a dozen libraries' errors.
        why = unreachable or f"{type(error).__name__}: {error}"[:300]
        message = f"{place.repository} could not be fetched from the hub ({why}). Check the network."
        raise HubError(message) from error


@contextlib.contextmanager
def _offline(datasets: Any) -> Iterator[None]:
    """Let ``datasets`` look into its cache at once, instead of trying the hub again and again."""
    with _one_at_a_time:
        before = datasets.config.HF_HUB_OFFLINE
        datasets.config.HF_HUB_OFFLINE = True
        try:
            yield
        finally:
            datasets.config.HF_HUB_OFFLINE = before
