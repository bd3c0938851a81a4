"""A trace in a notebook: every mark is a form with words, and nothing from a file is code."""

from __future__ import annotations

import html.parser
from itertools import pairwise

import msgspec
import pytest

from dflash_viz.trace import Step, Trace
from dflash_viz.trace.notebook import EDGE_STEPS
from tests.conftest import make_header

HOSTILE = "</div><script>alert(1)</script><img src=x onerror=alert(1)> \"'&\u202e"


class Reader(html.parser.HTMLParser):
    """Collects tags, attributes and text; knows when tags do not match."""

    def __init__(self, trace: Trace) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.open: list[tuple[str, bool]] = []  # and whether it lies in a token's cell
        self.attributes: dict[str, list[str]] = {}
        self.cells: list[tuple[str, str]] = []
        self.text = ""
        self.feed(trace._repr_html_())
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        title = dict(attrs).get("title") or ""
        inside = bool(self.open) and self.open[-1][1]
        self.open.append((tag, inside or "token id" in title))
        for name, value in attrs:
            self.attributes.setdefault(name, []).append(value or "")
        if "token id" in title:
            self.cells.append((title, ""))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop()[0] == tag

    def handle_data(self, data: str) -> None:
        self.text += data
        if self.open[-1][1]:
            self.cells[-1] = (self.cells[-1][0], self.cells[-1][1] + data.replace("\xa0", " "))


def cells(trace: Trace) -> list[tuple[str, str]]:
    """The kind and the text of every cell."""
    return [(title.partition(" ")[0].strip(":"), text) for title, text in Reader(trace).cells]


def test_every_step_is_a_block(trace: Trace) -> None:
    trace.header = make_header(tokens={6: " six", 7: "\n", 8: "acht", 9: "\xe2\x82", 2: "<|im_end|>"})
    assert cells(trace) == [
        ("plain", "x"),
        ("accepted", "✓ ␣six"), ("rejected", "✗ acht"), ("discarded", "· \\xe2\\x82"), ("recovered", "↻ ↵"),
        ("accepted", "✓ ␣six"), ("accepted", "✓ ↵"), ("accepted", "✓ acht"), ("bonus", "★ \\xe2\\x82"),
        ("accepted", "✓ ␣six"), ("accepted", "✓ <|im_end|>"), ("rejected", "✗ acht"),
    ]  # fmt: skip


def test_accepted_tokens_that_the_end_cut_off_say_so(trace: Trace) -> None:
    cut = msgspec.structs.replace(trace.steps[3], emitted=[6])
    seen = Reader(Trace(trace.header, [cut])).cells
    assert ["cut off" in title for title, _ in seen] == [False, True, False]


def test_the_head_says_what_the_figures_mean(trace: Trace) -> None:
    seen = Reader(trace)
    for part in ("dflash", "K = 3", "AL 3.00", "3 steps, 9 tokens", "ended: stop"):
        assert part in seen.text.replace("\xa0", " ")
    assert any("1 + accepted tokens / steps that drafted" in title for title in seen.attributes["title"])
    for kind in ("accepted", "rejected", "discarded", "recovered", "bonus"):
        assert kind in seen.text


def test_nothing_recorded_yet() -> None:
    trace = Trace(make_header(), notices=["The recording was cut short: its end is missing."])
    seen = Reader(trace)
    assert "AL –" in seen.text
    assert "cut short" in seen.text
    assert not seen.cells


def test_hostile_text_is_text(trace: Trace) -> None:
    fingerprint = msgspec.structs.replace(make_header().fingerprint, method=HOSTILE)
    trace.header = make_header(
        lane=HOSTILE, fingerprint=fingerprint, tokens={6: HOSTILE[:-1], 5: HOSTILE[:-1]}
    )
    trace.end = msgspec.structs.replace(trace.end, finish_reason=HOSTILE)
    trace.notices.append(HOSTILE)
    seen = Reader(trace)
    assert set(seen.tags) == {"div", "span", "b", "bdi"}
    assert set(seen.attributes) == {"style", "title"}
    assert "<script>" in seen.text
    assert "\u202e" not in seen.text, "it would turn the text around"


@pytest.mark.parametrize("count", [2 * EDGE_STEPS, 2 * EDGE_STEPS + 1, 5000])
def test_long_traces_show_their_two_ends(count: int) -> None:
    steps = [Step(i, float(i), i + 1.0, 1.0, [i], last="plain", offset=i) for i in range(count)]
    seen = Reader(Trace(make_header(), steps))
    shown = [int(title.rpartition(" ")[2]) for title, _ in seen.cells]
    left_out = count - 2 * EDGE_STEPS
    assert len(shown) == 2 * EDGE_STEPS
    assert shown == [*range(EDGE_STEPS), *range(count - EDGE_STEPS, count)]
    assert sum(b - a > 1 for a, b in pairwise(shown)) == (left_out > 0)
    assert (f"{left_out:,} steps left out" in seen.text) == (left_out > 0)


def test_huge_blocks_and_tokens_are_shortened() -> None:
    drafted = list(range(1000))
    step = Step(0, 0.0, 1.0, 1.0, [*drafted, 7], 0.1, drafted, 1000, "bonus")
    page = Trace(make_header(tokens={0: "x" * 10_000}), [step])._repr_html_()
    assert "937 more" in page
    assert len(page) < 40_000
