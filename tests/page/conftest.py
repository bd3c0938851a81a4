"""A browser with the page's scripts in it, and documents to feed them.

The documents are test data of the renderer only: made by hand, they claim nothing about any model.
"""

from __future__ import annotations

import json
import re
from itertools import pairwise
from pathlib import Path

import pytest

ASSETS = Path(__file__).resolve().parents[2] / "assets"
DESKTOP = {"width": 1280, "height": 900}
PHONE = {"width": 390, "height": 844}


STYLES = {
    "dflash": ("DFlash", "●", "circle", "solid", "#0072b2", "#4aa8e0"),
    "eagle3": ("EAGLE-3", "■", "square", "dash", "#a84a00", "#ff8f3f"),
    "ngram": ("n-gram", "▲", "triangle-up", "dot", "#006b4f", "#3ec79d"),
    "none": ("no speculation", "◆", "diamond", "dashdot", "#57606a", "#a3acb8"),
}
FIGURES = [("al", "AL", "tokens"), ("rate", "acceptance rate", ""), ("speed", "speed", "tokens/s")]
CHARTS = ["al", "histogram", "positions", "race", "split"]


def style_of(name: str) -> dict[str, str]:
    """A lane as the document announces it; unknown names look like no lane of the product."""
    title, *style = STYLES.get(name, (name, "✚", "cross", "longdash", "#6f4c9b", "#b79ce0"))
    keys = ("sign", "marker", "dash", "light", "dark")
    return {"name": name, "title": title, "method": name, **dict(zip(keys, style, strict=True))}


class Document:
    """Builds a document line by line; tokens are given as bytes or text and get ids on the way.

    ``on(lane)`` changes the lane that the following lines are about.
    """

    def __init__(self, k: int = 7, lane: str = "dflash", pace: float = 0.05, **run):
        self.pace = pace  # seconds a step
        self.k, self.lines, self.ids, self.lanes = k, [], {}, {}
        self.add("run", **{"origin": "live", "prompt": "Count.", "play": False, **run})
        self.on(lane)

    def add(self, kind: str, **fields) -> Document:
        self.lines.append({"type": kind, **fields})
        return self

    def on(self, lane: str, k: int | None = None, pace: float | None = None) -> Document:
        self.lane, self.k, self.pace = lane, self.k if k is None else k, pace or self.pace
        self.state = self.lanes.setdefault(lane, {"clock": 0.0, "index": 0, "known": set(), "told": 0})
        return self

    def define(self, figures=FIGURES, charts=CHARTS) -> Document:
        rows = [
            {"key": k, "label": label, "unit": u, "definition": f"{label}: defined."}
            for k, label, u in figures
        ]
        titles = [
            {"key": key, "title": f"Chart {key}", "definition": f"Chart {key}: defined."} for key in charts
        ]
        return self.add("definitions", figures=rows, charts=titles)

    def announce(self, *names: str) -> Document:
        return self.add("lanes", lanes=[style_of(name) for name in names])

    def turn(self, state: str, message: str = "", progress=None, seconds_left=None) -> Document:
        fields = {"state": state, "message": message, "progress": progress, "seconds_left": seconds_left}
        return self.add("turn", lane=self.lane, **fields)

    def text_line(self, verdict: str, message: str = "", at: int | None = None) -> Document:
        return self.add("text", lane=self.lane, verdict=verdict, message=message, at=at)

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
            number = self.ids.setdefault(token, 100 + len(self.ids))
            if number not in self.state["known"]:
                self.state["known"].add(number)
                new[str(number)] = token.decode("latin-1")
        return [self.ids[token] for token in raw], new

    def _step(self, emitted, drafted=(), seconds=None, **fields) -> Document:
        seconds, state = seconds or self.pace, self.state
        ids, new = self._ids([*drafted, *emitted])
        start, state["clock"] = state["clock"], state["clock"] + seconds
        times = {"start": start, "end": state["clock"], "verify_s": seconds * 0.7}
        if drafted:
            fields |= {"drafted": ids[: len(drafted)], "draft_s": seconds * 0.2}
        step = {"index": state["index"], "emitted": ids[len(drafted) :], "tokens": new, **times, **fields}
        state["index"] += 1
        return self.add("step", lane=self.lane, **{k: v for k, v in step.items() if v != {}})

    def prefill(self, token="The", **fields) -> Document:
        return self._step([token], prefill=True, last="plain", **fields)

    def plain(self, token, **fields) -> Document:
        """A decode step of a lane without a drafter."""
        return self._step([token], last="plain", **fields)

    def block(self, drafted, accepted: int, own=None, emit: int | None = None, **fields) -> Document:
        """A step with a draft; without ``own`` a stop condition cut it after ``emit`` tokens."""
        last = None if own is None else "bonus" if accepted == len(drafted) else "recovered"
        emitted = list(drafted[:accepted])[: emit if emit is not None else accepted]
        extra = {"num_accepted": accepted} if accepted else {}
        if last:
            extra["last"] = last
        return self._step([*emitted, *([own] if own else [])], drafted, **extra, **fields)

    @property
    def steps(self) -> list[dict]:
        return [line for line in self.lines if line["type"] == "step" and line["lane"] == self.lane]

    def figures(self, al="3.41", rate="49 %", speed="62.1") -> Document:
        """The values, and what the charts need of the lane's steps since the last time."""
        steps, told = self.steps, self.state["told"]
        self.state["told"] = len(steps)
        drafted = [step for step in steps if "drafted" in step]
        lengths = [step.get("num_accepted", 0) + 1 for step in drafted]
        points = [
            [step["index"], length, sum(lengths[: i + 1]) / (i + 1)]
            for i, (step, length) in enumerate(zip(drafted, lengths, strict=True))
        ]
        counts = [sum(len(step["emitted"]) for step in steps[: i + 1]) for i in range(len(steps))]
        reached = [sum(length > i for length in lengths) for i in range(self.k + 1)] if lengths else []
        return self.add(
            "figures",
            lane=self.lane,
            values={"al": al, "rate": rate, "speed": speed},
            al=[point for point in points if point[0] >= told],
            race=[[steps[i]["end"], counts[i]] for i in range(told, len(steps))],
            histogram=[lengths.count(i + 1) for i in range(self.k + 1)] if lengths else [],
            positions={
                "unconditional": [n / reached[0] for n in reached[1:]],
                "conditional": [b / a if a else None for a, b in pairwise(reached)],
            },
            split={
                "draft": sum(step.get("draft_s", 0) for step in steps),
                "verify": sum(step["verify_s"] for step in steps),
                "rest": 0.1 * len(steps) * self.pace,
            },
        )

    def speedup(self, value: str) -> Document:
        """What is known only when all lanes have ended."""
        return self.add("figures", lane=self.lane, values={"speedup": value})

    def end(self, agrees=True, message="12 steps compared.", reason="stop", **fields) -> Document:
        check = {"agrees": agrees, "message": message}
        base = {"finish_reason": reason, "text": "", "num_output_tokens": 20, "check": check}
        return self.add("end", lane=self.lane, **base, **fields)

    def compare(self) -> Document:
        """The speedups and verdicts at the end of a run, and the end itself."""
        verdicts = ["same", "near-tie", "differs", "reference"]
        for place, lane in enumerate(self.lanes):
            verdict = "reference" if lane == "none" else verdicts[place % 3]
            at = {"near-tie": 9, "differs": 4}.get(verdict)
            self.on(lane).speedup(f"{2.5 - 0.5 * place:.2f}").text_line(verdict, f"This text: {verdict}.", at)
        return self.add("finish")

    @property
    def text(self) -> str:
        return "".join(json.dumps(line) + "\n" for line in self.lines)


WORDS = [" sum", " of", " two", " odd", " num", "bers", " is"]


OTHERS = [",", " be", "cause", " each", " is", " one", " more"]


def sample(**run) -> Document:
    """One step of every kind, then the end."""
    document = Document(**{"prompt": "Is the sum of two odd numbers even?"} | run).define().announce("dflash")
    document.turn("running").header().prefill()
    document.block(WORDS, 4, " even").figures("5.00")
    document.block(OTHERS, 7, " than").figures("6.50")
    document.block([" an", " even", "\n", "\t", " ", " numb", "er"], 0, " its").figures("4.67")
    for accepted in (3, 5, 1, 7, 2, 6):
        own = " x" if accepted < 7 else " y"
        document.block([f" w{i}" for i in range(7)], accepted, own).figures("4.80")
    document.block([" done", ".", "<|im_end|>", " a", " b", " c", " d"], 3, None)
    return document.figures("4.70").end().turn("done").add("finish")


def race(steps: int = 12, lanes=tuple(STYLES), finish: bool = True, **run) -> Document:
    """Several lanes of one prompt, one after another, then what compares them."""
    document = Document(lane=lanes[0], **{"prompt": "Is the sum of two odd numbers even?"} | run)
    document.define([*FIGURES, ("speedup", "speedup", "×")]).announce(*lanes)
    for lane in lanes:
        document.on(lane).turn("waiting", "waits for its turn")
    for place, lane in enumerate(lanes):
        document.on(lane, k=0 if lane == "none" else 7 - place, pace=0.04 + 0.01 * place)
        document.turn("running").header().prefill(seconds=0.1)
        for index in range(steps):
            if document.k:
                accepted = (3 * index + place) % (document.k + 1)
                document.block((WORDS, OTHERS)[index % 2][: document.k], accepted, " x")
            else:
                document.plain(WORDS[index % 7])
            document.figures(f"{5 - place}.{index:02d}")
        document.end().turn("done")
    if finish:
        document.compare()
    return document


@pytest.fixture(scope="session")
def make_document():
    """The document builder."""
    return Document


@pytest.fixture(scope="session")
def make_race():
    """A document with several lanes, complete unless told otherwise."""
    return race


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
    style = "\n".join((ASSETS / name).read_text() for name in ("page.css", "inspector.css"))
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
    """Feeds a value and waits until it is drawn, cards out of sight too."""

    def feed_(page, document):
        text = document if isinstance(document, str) else document.text
        page.evaluate(
            "async (text) => { view.feed(text); "
            "await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))); }",
            text,
        )
        page.wait_for_function("[...view.deck.cards.values()].every((card) => !card.stale)")

    return feed_
