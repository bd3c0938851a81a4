"""The figures of an answer whose steps were not recorded, from what the server counted."""

from __future__ import annotations

from dflash_viz.metrics.counters import count_blocks
from dflash_viz.metrics.figures import Figure
from dflash_viz.trace import End
from dflash_viz.trace.counters import Counters

SHORTEST_S = 0.1
# Beside ``FIGURES``, where a lane shows no steps.
COUNTED_FIGURES = (
    Figure(
        "client_speed", "decode speed, app's clock", "tokens/s",
        "Only of lanes without steps: tokens after the first delivery / seconds from it to the last, on "
        "the clock of this app. The network is in it, and whatever else the server does meanwhile. Too "
        "short answers have none.",
    ),
)  # fmt: skip


def counted(end: End) -> Counters | None:
    """vLLM's counts of this answer alone where it gave them, else of all requests while it ran."""
    if end.engine_drafted:
        return count_blocks(end.engine_drafted, end.engine_accepted)
    window = end.window
    if window is None or window.num_drafts is None:
        return None
    return Counters(
        window.num_drafts,
        window.num_draft_tokens or 0,
        window.num_accepted or 0,
        tuple(window.accepted_per_position),
    )


def counted_acceptance(end: End) -> list[float]:
    """Per position of the block: accepted at it / drafts, from 0 to 1.

    Short drafts count as if they had been whole: nobody says how many tokens each had.
    """
    counts = counted(end)
    if counts is None or not counts.num_drafts:
        return []
    return [accepted / counts.num_drafts for accepted in counts.accepted_per_position]


def client_speed(end: End) -> float | None:
    """Tokens after the first delivery / seconds from it to the last, on the asking app's clock.

    None below ``SHORTEST_S``: what came in a moment tells when the app looked, not how fast it came.
    """
    window = end.window
    known = window is not None and window.decode_s >= SHORTEST_S
    return window.decode_tokens / window.decode_s if window is not None and known else None


def counted_values(end: End) -> dict[str, float | None]:
    """The figures of an answer without steps, by key (see ``FIGURES`` and ``COUNTED_FIGURES``)."""
    counts = counted(end)
    rate = counts.acceptance_rate if counts is not None else None
    return {
        "al": counts.acceptance_length if counts is not None else None,
        "rate": None if rate is None else 100.0 * rate,
        "client_speed": client_speed(end),
    }
