"""What the tests share. Engines are real: one lane serves every engine test of a run."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, sync_playwright

from dflash_viz.lanes import Lane, load_preset
from dflash_viz.trace import (
    SCHEMA_VERSION,
    Check,
    End,
    Fingerprint,
    Header,
    Message,
    ModelPrint,
    Sampling,
    Step,
    Trace,
)


@pytest.fixture(scope="session")
def lane() -> Iterator[Lane]:
    """The embedded DFlash lane, ready."""
    lane = Lane(load_preset("embedded-cpu").lanes[0])
    lane.start()
    try:
        lane.wait_ready()
        yield lane
    finally:
        lane.close()


CHROMIUM = os.environ.get("DFLASH_VIZ_CHROMIUM", "/usr/bin/chromium")
CHROMIUM_FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """One chromium for all tests of a run. While it is up its event loop owns this thread, which is
    why `make test` runs the browser's tests apart from the asynchronous ones."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=CHROMIUM_FLAGS)
        yield browser
        browser.close()


def make_header(**changes: object) -> Header:
    """A header for traces that tests make by hand."""
    fields: dict[str, object] = {
        "schema": SCHEMA_VERSION,
        "trace_id": "t1",
        "recorded_at": "2026-01-01T00:00:00+00:00",
        "lane": "dflash",
        "messages": [Message("user", "Hi")],
        "prompt_token_ids": [1, 2],
        "sampling": Sampling(),
        "fingerprint": Fingerprint("dflash", ModelPrint("target"), num_speculative_tokens=3),
        "tokens": {1: "a", 2: "b"},
    }
    return Header(**{**fields, **changes})  # type: ignore[arg-type]


@pytest.fixture
def trace() -> Trace:
    """A small trace: prefill, a rejection, a full block, a block cut by a stop condition."""
    steps = [
        Step(0, 0.0, 0.10, 0.10, [5], last="plain", prefill=True, tokens={5: "x"}),
        Step(1, 0.10, 0.15, 0.03, [6, 7], 0.01, [6, 8, 9], 1, "recovered", offset=1),
        Step(2, 0.15, 0.20, 0.03, [6, 7, 8, 9], 0.01, [6, 7, 8], 3, "bonus", offset=3),
        Step(3, 0.20, 0.25, 0.03, [6, 2], 0.01, [6, 2, 8], 2, None, offset=7),
    ]
    end = End("stop", "text", 9, Check(True, "agrees"), [1, 3, 2], [3, 3, 3])
    return Trace(make_header(), steps, end)
