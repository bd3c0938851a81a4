"""The app as its users meet it: its own process, real engines, a real browser."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from playwright.sync_api import Browser, Page

from dflash_viz.lanes import load_preset
from dflash_viz.lanes.server import free_port
from dflash_viz.trace import Trace, read_trace
from dflash_viz.weights import embedded_target_dir, resolve_model

ROOT = Path(__file__).resolve().parents[2]
LANES = tuple(lane.name for lane in load_preset("embedded-cpu").lanes)


class App:
    """A running app: its process, its address, and the folder of its traces."""

    def __init__(self, cache: Path, *arguments: str) -> None:
        self.cache = cache
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}/"
        self.log = cache / "app.log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "app.py", "--port", str(self.port), *arguments],
                cwd=ROOT,
                env={**os.environ, "DFLASH_VIZ_CACHE": str(cache), "PYTHONUNBUFFERED": "1"},
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        self._wait_for_page()

    def _wait_for_page(self) -> None:
        deadline = time.monotonic() + 60
        while "DFlash Viz is at" not in self.log.read_text():
            assert self.process.poll() is None, self.log.read_text()
            assert time.monotonic() < deadline, "the app does not answer"
            time.sleep(0.2)

    def files(self) -> list[Path]:
        """The trace files of its runs, oldest first."""
        return sorted((self.cache / "runs").glob("*/*.jsonl"), key=lambda file: file.stat().st_ctime)

    def last(self, lane: str = "dflash") -> Trace:
        """The newest trace of a lane."""
        return read_trace([file for file in self.files() if file.stem == lane][-1])

    def descendants(self) -> list[psutil.Process]:
        """Every process below the app."""
        return psutil.Process(self.process.pid).children(recursive=True)

    def engine_processes(self, lane: str) -> list[psutil.Process]:
        """The processes of one lane's vLLM: server, engine core, worker."""
        keepers = [
            p for p in psutil.Process(self.process.pid).children() if f"/{lane}-" in " ".join(p.cmdline())
        ]
        return [p for keeper in keepers for p in keeper.children(recursive=True)]

    def close(self) -> None:
        """End it as Ctrl-C would."""
        self.process.terminate()
        self.process.wait(60)


def make_cache(folder: Path) -> Path:
    """A cache of the test's own, which shares the converted target with the user's."""
    models = folder / "models"
    models.mkdir(parents=True)
    target = resolve_model("embedded")
    (models / embedded_target_dir().name).symlink_to(target)
    return folder


@pytest.fixture(scope="session")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[App]:
    """The app on the embedded lanes."""
    app = App(make_cache(tmp_path_factory.mktemp("cache")))
    yield app
    app.close()


@pytest.fixture(scope="session")
def viewer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[App]:
    """The app without an engine."""
    app = App(tmp_path_factory.mktemp("viewer"), "--no-engine")
    yield app
    app.close()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A fresh tab that fails the test when a script of the page throws or a dialog opens."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    page = context.new_page()
    troubles: list[str] = []
    page.on("pageerror", lambda error: troubles.append(str(error)))
    page.on("dialog", lambda dialog: (troubles.append(f"dialog: {dialog.message}"), dialog.dismiss()))
    yield page
    context.close()
    assert not troubles
