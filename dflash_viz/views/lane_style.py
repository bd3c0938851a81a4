"""How a lane looks, the same in every view: its title, colour, line, marker and sign."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class LaneStyle:
    """``light`` and ``dark`` are the colour on either theme (AA contrast); ``dash`` and ``marker`` are
    plotly's names, ``sign`` the marker as text: whoever sees no colours tells lanes apart by these."""

    title: str
    light: str
    dark: str
    dash: str
    marker: str
    sign: str


_BY_METHOD = {
    "dflash": LaneStyle("DFlash", "#0072b2", "#4aa8e0", "solid", "circle", "●"),
    "eagle3": LaneStyle("EAGLE-3", "#a84a00", "#ff8f3f", "dash", "square", "■"),
    "ngram": LaneStyle("n-gram", "#006b4f", "#3ec79d", "dot", "triangle-up", "▲"),
    "none": LaneStyle("no speculation", "#57606a", "#a3acb8", "dashdot", "diamond", "◆"),
}
_OTHERS = (
    LaneStyle("", "#8a3f73", "#d68fc0", "longdash", "cross", "✚"),
    LaneStyle("", "#7a6300", "#e0c33a", "longdashdot", "x", "✖"),
    LaneStyle("", "#3d5a99", "#9ab3e6", "5px,2px", "star", "★"),
    LaneStyle("", "#99334d", "#f08ba3", "2px,4px", "pentagon", "⬟"),
)


def lane_styles(lanes: Sequence[tuple[str, str]]) -> dict[str, LaneStyle]:
    """The style of each lane, given as (name, method) in the order of the page.

    The first lane of a known method gets that method's style, and its title too when it is named
    after it; every other lane gets one of the rest, in turn.
    """
    free, spare, styles = dict(_BY_METHOD), 0, {}
    for name, method in lanes:
        style = free.pop(method, None)
        if style is None:
            style = _OTHERS[spare % len(_OTHERS)]
            spare += 1
        title = style.title if name == method and style.title else name
        styles[name] = LaneStyle(title, style.light, style.dark, style.dash, style.marker, style.sign)
    return styles
