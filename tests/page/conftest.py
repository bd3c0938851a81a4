"""A browser with the page's scripts in it, and documents to feed them.

The documents are test data of the renderer only: made by hand, they claim nothing about any model.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

ASSETS = Path(__file__).resolve().parents[2] / "assets"
DESKTOP = {"width": 1280, "height": 900}
PHONE = {"width": 390, "height": 844}


class Document:
    """Builds a document line by line; tokens are given as bytes or text and get ids on the way."""

    def __init__(self, k: int = 7, lane: str = "dflash", pace: float = 0.05, **run):
        self.pace = pace  # seconds a step
        self.k, self.lane, self.lines, self.ids, self.clock, self.index = k, lane, [], {}, 0.0, 0
        self.add("run", **{"origin": "live", "prompt": "Count.", "play": False, **run})

    def add(self, kind: str, **fields) -> Document:
        self.lines.append({"type": kind, **fields})
        return self

    def header(self) -> Document:
        print_ = {
            "method": self.lane,
            "target": {"name": "org/Target-135M"},
            "drafter": {"name": "drafters/dflash-small"},
            "num_speculative_tokens": self.k,
            "device": "CPU",
        }
        base = {"schema": "1.0", "trace_id": "t1", "recorded_at": "2026-01-01T00:00:00Z"}
        asked = {"messages": [], "prompt_token_ids": [], "sampling": {}}
        return self.add("header", lane=self.lane, fingerprint=print_, **base, **asked)

    def _ids(self, tokens) -> tuple[list[int], dict[str, str]]:
        raw = [t if isinstance(t, bytes) else t.encode() for t in tokens]
        new = {}
        for token in raw:
            if token not in self.ids:
                self.ids[token] = 100 + len(self.ids)
                new[str(self.ids[token])] = token.decode("latin-1")
        return [self.ids[token] for token in raw], new

    def _step(self, emitted, drafted=(), seconds=None, **fields) -> Document:
        seconds = seconds or self.pace
        ids, new = self._ids([*drafted, *emitted])
        start, self.clock = self.clock, self.clock + seconds
        times = {"start": start, "end": self.clock, "verify_s": seconds * 0.7}
        if drafted:
            fields |= {"drafted": ids[: len(drafted)], "draft_s": seconds * 0.2}
        step = {"index": self.index, "emitted": ids[len(drafted) :], "tokens": new, **times, **fields}
        self.index += 1
        return self.add("step", lane=self.lane, **{k: v for k, v in step.items() if v != {}})

    def prefill(self, token="The", **fields) -> Document:
        return self._step([token], prefill=True, last="plain", **fields)

    def block(self, drafted, accepted: int, own=None, emit: int | None = None, **fields) -> Document:
        """A step with a draft; without ``own`` a stop condition cut it after ``emit`` tokens."""
        last = None if own is None else "bonus" if accepted == len(drafted) else "recovered"
        emitted = list(drafted[:accepted])[: emit if emit is not None else accepted]
        extra = {"num_accepted": accepted} if accepted else {}
        if last:
            extra["last"] = last
        return self._step([*emitted, *([own] if own else [])], drafted, **extra, **fields)

    def figures(self, al="3.41") -> Document:
        figure = {"key": "al", "label": "AL", "value": al, "unit": "tokens"}
        figure["definition"] = "Acceptance length: 1 + sum accepted / steps."
        rate = {"key": "rate", "label": "acceptance rate", "value": "49 %", "unit": ""}
        rate["definition"] = "Acceptance rate: accepted / drafted."
        speed = {"key": "tps", "label": "speed", "value": "62.1", "unit": "tokens/s"}
        speed["definition"] = "Emitted tokens after prefill / decode time."
        return self.add("figures", lane=self.lane, figures=[figure, rate, speed])

    def end(self, agrees=True, message="12 steps compared.", reason="stop", **fields) -> Document:
        check = {"agrees": agrees, "message": message}
        base = {"finish_reason": reason, "text": "", "num_output_tokens": 20, "check": check}
        return self.add("end", lane=self.lane, **base, **fields)

    @property
    def text(self) -> str:
        return "".join(json.dumps(line) + "\n" for line in self.lines)


WORDS = [" sum", " of", " two", " odd", " num", "bers", " is"]


def sample(**run) -> Document:
    """One step of every kind, then the end."""
    document = Document(**{"prompt": "Is the sum of two odd numbers even?"} | run)
    document.add("engine", state="ready", message="answering", progress=None).header().prefill()
    document.block(WORDS, 4, " even").figures("5.00")
    document.block([",", " be", "cause", " each", " is", " one", " more"], 7, " than").figures("6.50")
    document.block([" an", " even", "\n", "\t", " ", " numb", "er"], 0, " its").figures("4.67")
    for accepted in (3, 5, 1, 7, 2, 6):
        own = " x" if accepted < 7 else " y"
        document.block([f" w{i}" for i in range(7)], accepted, own).figures("4.80")
    document.block([" done", ".", "<|im_end|>", " a", " b", " c", " d"], 3, None)
    return document.figures("4.70").end()


@pytest.fixture(scope="session")
def make_document():
    """The document builder."""
    return Document


@pytest.fixture(scope="session")
def make_sample():
    """A document with one step of every kind."""
    return sample


def script_order() -> list[Path]:
    """The order that page.js itself states."""
    stated = re.findall(r"^//   (\S+\.js)$", (ASSETS / "page.js").read_text(), re.M)
    return [ASSETS / name for name in stated]


@pytest.fixture(scope="session")
def scripts():
    """The page's scripts in order, page.js last."""
    return script_order()


def plotly_script() -> Path:
    """The script that the plotly package brings."""
    plotly = pytest.importorskip("plotly")
    return Path(plotly.__file__).parent / "package_data" / "plotly.min.js"


def document_html(dark: bool) -> str:
    """The whole page in one text: loading file by file takes most of a test's time."""
    style = (ASSETS / "page.css").read_text()
    code = "\n".join(path.read_text() for path in script_order())
    return (
        "<!doctype html><html lang=en><head><title>page</title>"
        "<meta name=viewport content='width=device-width,initial-scale=1'>"
        f"<style>{style}</style></head><body style='margin:0' class='{'dark' if dark else ''}'>"
        f"<main><div class=dv-root></div></main><script>{code}</script></body></html>"
    )


@pytest.fixture
def open_page(browser):
    """Opens a page with the view mounted: ``open_page(phone=True, dark=True, plotly=True)``."""
    contexts = []

    def open_(phone=False, dark=False, plotly=False, motion=True):
        context = browser.new_context(
            viewport=PHONE if phone else DESKTOP,
            has_touch=phone,
            is_mobile=phone,
            reduced_motion="no-preference" if motion else "reduce",
        )
        contexts.append(context)
        page = context.new_page()
        page.problems = []
        page.on("pageerror", lambda error: page.problems.append(str(error)))
        page.set_content(document_html(dark))
        if plotly:
            page.add_script_tag(path=plotly_script())
        page.evaluate("window.view = DFlashViz.mount(document.querySelector('.dv-root'))")
        return page

    yield open_
    for context in contexts:
        context.close()


@pytest.fixture
def feed():
    """Feeds a value and waits until it is drawn."""

    def feed_(page, document):
        text = document if isinstance(document, str) else document.text
        page.evaluate(
            "async (text) => { view.feed(text); "
            "await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))); }",
            text,
        )

    return feed_
