"""The engine's state in words, with its progress; everything from outside is escaped."""

from __future__ import annotations

from html import escape

# How lanes are called on the page, by the method in their name.
LANE_NAMES = {"dflash": "DFlash", "eagle3": "EAGLE-3", "ngram": "n-gram", "none": "no speculation"}

# State -> mark and words; the mark repeats in form what the colour says.
_STATES = {
    "queued": ("○", "queued"),
    "weights": ("◔", "preparing the weights"),
    "loading": ("◑", "loading"),
    "ready": ("●", "ready"),
    "failed": ("✗", "failed"),
    "stopped": ("■", "stopped"),
    "absent": ("○", "no engine"),
}


def engine_status(
    name: str, state: str, message: str, progress: float | None = None, seconds_left: float | None = None
) -> str:
    """HTML of one lane's chip: mark, lane, state, and while it starts a bar and the time left."""
    mark, words = _STATES[state]
    detail = "" if message in ("", words) else f": {message}"
    left = f" (about {seconds_left:.0f} s left)" if seconds_left else ""
    text = escape(f"{words}{detail}{left}")
    chip = (
        f'<span class="dv-mark" aria-hidden="true">{mark}</span> '
        f'<strong>{escape(name)}</strong> <span class="dv-words">{text}</span>'
    )
    return f'<div class="dv-engine dv-{state}">{chip}{_bar(progress, words)}</div>'


def _bar(progress: float | None, words: str) -> str:
    if progress is None:
        return ""
    percent = round(100 * progress)
    return (
        f'<div class="dv-progress" role="progressbar" aria-label="{escape(words)}" aria-valuemin="0" '
        f'aria-valuemax="100" aria-valuenow="{percent}"><div style="width:{percent}%"></div></div>'
    )
