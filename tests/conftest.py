"""What the tests share. Engines are real: one lane serves every engine test of a run."""

from __future__ import annotations

import os
from collections.abc import Iterator

import hypothesis
import msgspec
import pytest
from playwright.sync_api import Browser, sync_playwright

from dflash_viz.lanes import Fleet, Lane, LaneSpec, load_preset
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

# No time limits: two cores do much else beside. The same examples each time, so that a failure is the
# change's.
hypothesis.settings.register_profile("make", deadline=None, derandomize=True)
hypothesis.settings.load_profile("make")


def in_dtype(spec: LaneSpec, dtype: str) -> LaneSpec:
    """The lane with its engine computing in another number format."""
    return msgspec.structs.replace(spec, engine={**spec.engine, "dtype": dtype})


def exact_lanes() -> list[LaneSpec]:
    """The shipped lanes in float32, where drafting must leave the greedy text unchanged."""
    return [in_dtype(lane, "float32") for lane in load_preset("embedded-cpu").lanes]


# Engines start while the tests run that need none; those that do come last.
_starting: list[Fleet] = []


@pytest.hookimpl(tryfirst=True)  # before tests are chosen by their markers
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "app" in _fixtures(item):
            item.add_marker("engine")
    items.sort(key=_place)


def _place(item: pytest.Item) -> int:
    """Tests that watch engines start, that need none, that need the first one, that need them all."""
    if item.get_closest_marker("early") is not None:
        return 0
    needed = _fixtures(item)
    if "fleet" in needed or "app" in needed:
        return 3
    return 2 if "lane" in needed else 1


def _fixtures(item: pytest.Item) -> set[str]:
    """The fixtures of a test; arguments of the same name that it gives itself are none."""
    given = item.callspec.params if hasattr(item, "callspec") else {}
    return set(getattr(item, "fixturenames", ())) - set(given)


def pytest_collection_finish(session: pytest.Session) -> None:
    if any(map(_needs_fleet, session.items)) and not session.config.option.collectonly:
        _starting.append(Fleet(exact_lanes()))
        _starting[0].start()


def pytest_sessionfinish() -> None:
    for fleet in _starting:
        fleet.close()


def _needs_fleet(item: pytest.Item) -> bool:
    return not {"fleet", "lane"}.isdisjoint(_fixtures(item))


@pytest.fixture(scope="session")
def fleet() -> Fleet:
    """The shipped lanes, all ready."""
    for lane in _starting[0].lanes.values():
        lane.wait_ready()
    return _starting[0]


@pytest.fixture(scope="session")
def lane() -> Lane:
    """The embedded DFlash lane, ready; it is the first to start."""
    lane = _starting[0].lanes["dflash"]
    lane.wait_ready()
    return lane


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
