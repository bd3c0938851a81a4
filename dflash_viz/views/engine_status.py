"""The lanes' states in words, with their progress; everything from outside is escaped."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from dflash_viz.views.lane_style import LaneStyle

# State -> mark and words; the mark repeats in form what the colour says.
_STATES = {
    "queued": ("○", "queued"),
    "weights": ("◔", "preparing the weights"),
    "loading": ("◑", "loading"),
    "ready": ("●", "ready"),
    "asleep": ("☾", "asleep"),
    "waking": ("◓", "waking"),
    "running": ("▶", "running"),
    "paused": ("‖", "paused while a question is answered"),
    "failed": ("✗", "failed"),
    "stopped": ("■", "stopped"),
}
# What is not plain from the words.
_MEANINGS = {
    "asleep": "Its weights wait in this machine's memory, and another engine has the GPU. It wakes for a "
    "question that is for it; the seconds that this takes are in nobody's times.",
    "waking": "It takes the GPU back from the engine that had it, and drafts a fixed answer: its acceptance "
    "length must be what it was before it slept.",
}
NO_ENGINE = (
    '<div class="dv-chips"><div class="dv-engine dv-absent">○ No engine: recorded runs only</div></div>'
)


@dataclass(frozen=True)
class Chip:
    """One lane's state; ``progress`` from 0 to 1 and ``seconds_left`` while it starts."""

    style: LaneStyle
    state: str
    message: str = ""
    progress: float | None = None
    seconds_left: float | None = None


def chips_html(chips: Sequence[Chip], note: str = "") -> str:
    """One chip a lane: sign, name, state, and while it starts a bar and the time left; ``note`` is
    about all of them."""
    if not chips:
        return NO_ENGINE
    below = f'<div class="dv-chips-note">{escape(note)}</div>' if note else ""
    return f'<div class="dv-chips">{"".join(map(_chip, chips))}</div>{below}'


def _chip(chip: Chip) -> str:
    mark, words = _STATES[chip.state]
    detail = "" if chip.message in ("", words) else f": {chip.message}"
    left = f" (about {chip.seconds_left:.0f} s left)" if chip.seconds_left else ""
    text = escape(f"{words}{detail}{left}")
    meaning = _MEANINGS.get(chip.state)
    title = f' title="{escape(meaning)}"' if meaning else ""
    return (
        f'<div class="dv-engine dv-{chip.state}"{title} style="--lane-light:{chip.style.light};--lane-dark:'
        f'{chip.style.dark}"><span class="dv-sign" aria-hidden="true">{chip.style.sign}</span> '
        f'<strong>{escape(chip.style.title)}</strong> <span class="dv-words">'
        f'<span class="dv-mark" aria-hidden="true">{mark}</span> {text}</span>'
        f"{_bar(chip.progress, words)}</div>"
    )


def _bar(progress: float | None, words: str) -> str:
    if progress is None:
        return ""
    percent = round(100 * progress)
    return (
        f'<div class="dv-progress" role="progressbar" aria-label="{escape(words)}" aria-valuemin="0" '
        f'aria-valuemax="100" aria-valuenow="{percent}"><div style="width:{percent}%"></div></div>'
    )
