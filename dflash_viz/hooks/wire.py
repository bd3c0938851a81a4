"""The records that the worker hands out, one per engine step; times on its monotonic clock (s)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

# Extra sampling argument (OpenAI field ``vllm_xargs``) by which a request asks for its top-k.
TOP_K_ARG = "dflash_viz_top_k"
ROUTE = "/dflash_viz"
TOKEN_ENV = "DFLASH_VIZ_TOKEN"
# A header of our own, so that the server's API key can have ``Authorization``.
TOKEN_HEADER = "X-DFlash-Viz-Token"


def layer_ids(drafter: Mapping[str, Any]) -> list[int] | None:
    """The target layers that a drafter reads, as its ``config.json`` counts them; None if it does
    not say. DFlash, EAGLE-3 and speculators' format each have their own key."""
    parts = [drafter.get("dflash_config"), drafter.get("eagle_config"), drafter]
    keys = ("target_layer_ids", "eagle_aux_hidden_state_layer_ids", "aux_hidden_state_layer_ids")
    found = [part[key] for part in parts if part for key in keys if part.get(key)]
    return list(found[0]) if found else None


class TopK(msgspec.Struct, array_like=True):
    """One model's probabilities at the positions of one block: ids and p are [positions][k];
    ``p_drafted`` is its probability of each drafted token."""

    ids: list[list[int]]
    p: list[list[float]]
    p_drafted: list[float] = []


class Draw(msgspec.Struct, array_like=True):
    """What decided about one drafted token: the target's probability ``p`` of it after temperature
    and top-p, the probability ``q`` with which it was drafted, the uniform number ``u``. It is
    accepted when u <= min(1, p / q) (``v1/sample/rejection_sampler.py``)."""

    p: float
    q: float
    u: float


class Row(msgspec.Struct, omit_defaults=True):
    """One request's part of an engine step; ``prefill`` marks the one that emits its first token.

    ``index`` counts the request's own records from 0, so that a lost one is noticed. ``sampled`` is
    what the rejection sampler returned: the accepted prefix and the target's own token, before any
    stop condition; ``drafted`` what it verified. ``draws`` has an entry per drafted token above
    temperature 0, when the request asks for probabilities.
    """

    request_id: str
    index: int
    sampled: list[int]
    drafted: list[int] = []
    prefill: bool = False
    target_top: TopK | None = None
    drafter_top: TopK | None = None
    draws: list[Draw] = []


class EngineStep(msgspec.Struct, omit_defaults=True, tag="step"):
    """One engine step; ``draft_start``/``draft_end`` belong to the pass that drafted its blocks, and
    are 0 when no drafter ran (blocks without a drafter's pass are vLLM's placeholders).

    ``seq`` counts the records of one engine; with data parallelism ``engine`` says which one (its
    rank), as each has a clock and a count of its own.
    """

    seq: int
    verify_start: float
    verify_end: float
    rows: list[Row]
    draft_start: float = 0.0
    draft_end: float = 0.0
    batch_size: int = 1
    engine: int = 0


class Fault(msgspec.Struct, tag="fault"):
    """Something of an engine step could not be recorded; the engine itself went on."""

    seq: int
    message: str
    engine: int = 0


Record = EngineStep | Fault
