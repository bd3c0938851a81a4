"""Several GPUs: what is started there, and the judgement of what was seen. A fault must fail."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from dflash_viz.hooks.wire import EngineStep, Fault, Row
from dflash_viz.lanes import LaneSpec, Server, load_preset
from dflash_viz.lanes.attached import AttachedLane
from dflash_viz.lanes.server import free_port
from dflash_viz.trace import Check, End, Window
from dflash_viz.trace.counters import Counters
from gpu.layouts import LAYOUTS, ONE, Layout, Running, Start, command, end, in_turn
from gpu.parallel import Reports, attach, compared, window_faults, written

ROOT = Path(__file__).parents[2]
PAIR = (Path("there/target"), Path("there/drafter"))
SPEC = LaneSpec("dflash", "dflash", num_speculative_tokens=5, engine={"enforce-eager": True, "dtype": "half"})


def typed(layout: Layout, spec: LaneSpec = SPEC) -> list[str]:
    return command(layout, spec, PAIR, 8000)[2:]


def test_it_is_started_as_somebody_else_would() -> None:
    module, *flags = typed(ONE)
    assert module == "vllm.entrypoints.openai.api_server"
    assert flags[flags.index("--model") + 1] == "there/target"
    assert '"model":"there/drafter"' in flags[flags.index("--speculative-config") + 1].replace(" ", "")
    assert flags[flags.index("--enforce-eager") + 1].startswith("--"), "a switch has no value"
    assert flags[flags.index("--dtype") + 1] == "half"
    assert flags[-4:] == [
        "--middleware", "dflash_viz.hooks.route.TraceRoute",
        "--worker-extension-cls", "dflash_viz.hooks.probe.Probe",
    ]  # fmt: skip


def test_the_layouts() -> None:
    tensor, data, bare = (typed(layout) for layout in LAYOUTS[1:])
    assert tensor[tensor.index("--tensor-parallel-size") + 1] == "2"
    assert "--disable-custom-all-reduce" in tensor
    assert data[0] == "gpu.serve"
    assert data[data.index("--data-parallel-size") + 1] == bare[bare.index("--data-parallel-size") + 1] == "2"
    assert "--middleware" in data
    assert "--middleware" not in bare
    assert "--worker-extension-cls" not in bare


def test_the_lanes_options_are_all_taken() -> None:
    spec = next(lane for lane in load_preset("embedded-cuda").lanes if lane.method == "dflash")
    flags = typed(ONE, spec)
    assert {f"--{name}" for name in spec.engine} < set(flags)
    assert '"cudagraph_capture_sizes": [1' in flags[flags.index("--compilation-config") + 1]


def step(seq: int, engine: int, *requests: str) -> EngineStep:
    return EngineStep(seq, 0.0, 1.0, [Row(r, 0, [1]) for r in requests], engine=engine)


@pytest.mark.parametrize(
    ("records", "engines", "good", "words"),
    [
        ([step(0, 0, "a", "b"), step(1, 0, "a")], 1, True, "engine 0: 2 requests"),
        ([step(0, 0, "a"), step(0, 1, "b")], 2, True, "engine 0: 1 requests, engine 1: 1 requests"),
        ([step(0, 0, "a")], 2, False, "engine 0: 1 requests"),
        ([step(0, 0, "a"), step(0, 1, "b")], 1, False, "engine 1: 1 requests"),
        ([step(0, 0, "a", "b"), step(0, 1, "a")], 2, False, "1 of them by several engines"),
        ([step(0, 0, "a"), Fault(1, "3 engine steps were lost")], 1, False, "3 engine steps were lost"),
        ([], 1, False, ""),
    ],
)
async def test_who_reports(records: list[EngineStep | Fault], engines: int, good: bool, words: str) -> None:
    heard = Reports()
    for record in records:
        heard.take(record)
    passed, shown, _ = await heard.judged(engines)
    assert passed is good
    assert words in shown


def test_what_each_engine_has_written() -> None:
    recorded = (ROOT / "tests/metrics/data_parallel.txt").read_text()
    assert written(recorded) == Counter({0: 715, 1: 611})
    assert written("") == Counter()


WINDOW = Window(0.1, 1.0, 9, 0, 10, 4, 12, 6, [4, 2, 0])
COUNTED = Counters(4, 12, 6, (4, 2, 0))


def ended(window: Window | None) -> End:
    return End("stop", "text", 10, Check(None, "counts only"), window=window)


def test_windows_that_add_up() -> None:
    assert window_faults([ended(WINDOW), ended(WINDOW)], COUNTED + COUNTED, True) == []
    assert window_faults([ended(WINDOW), ended(WINDOW)], COUNTED, False) == [], "they overlap"


@pytest.mark.parametrize(
    ("windows", "words"),
    [
        ([WINDOW], "the server counted"),
        ([WINDOW, msgspec.structs.replace(WINDOW, num_accepted=5)], "the server counted"),
        ([WINDOW, msgspec.structs.replace(WINDOW, num_drafts=None)], "1 answers have no counts"),
        ([WINDOW, None], "1 answers have no counts"),
    ],
)
def test_windows_that_do_not(windows: list[Window | None], words: str) -> None:
    assert words in window_faults(list(map(ended, windows)), COUNTED + COUNTED, True)[0]


@pytest.mark.parametrize(
    ("al", "reference", "good"), [(2.5, 2.5, True), (2.54, 2.5, True), (2.56, 2.5, False), (2.44, 2.5, False)]
)
async def test_the_acceptance_length_is_compared(al: float, reference: float, good: bool) -> None:
    assert (await compared(al, reference, 0.02))[0] is good
    assert (await compared(None, reference, 0.02))[0] is False
    assert (await compared(al, None, 0.02))[0] is False


def test_a_server_ends_with_all_its_processes() -> None:
    """Its child says the group's end by closing the pipe, which both hold."""
    script = "(trap '' TERM; exec sleep 600) & exec sleep 600"
    process = subprocess.Popen(["sh", "-c", script], stdout=subprocess.PIPE, start_new_session=True)
    assert process.stdout is not None
    end(process)
    assert process.returncode is not None
    assert process.stdout.read() == b""


@pytest.fixture
def failed(tmp_path: Path) -> Running:
    """A server that ends instead of starting."""
    process = subprocess.Popen([sys.executable, "-c", "raise SystemExit(3)"])
    return Running(Server("there", f"http://127.0.0.1:{free_port()}"), process, tmp_path / "log")


@pytest.mark.parametrize(
    ("ahead", "told"),
    [
        (0, ["+a", "a", "-a", "+b", "b", "-b", "+c", "c", "-c"]),
        (1, ["+a", "+b", "a", "-a", "+c", "b", "-b", "c", "-c"]),
        (9, ["+a", "+b", "+c", "a", "-a", "b", "-b", "c", "-c"]),
    ],
)
def test_servers_start_ahead_of_their_turn(failed: Running, ahead: int, told: list[str]) -> None:
    happened: list[str] = []
    turns = in_turn([Layout(name, {}) for name in "abc"], starting(failed, happened), ahead)
    for layout, _ in turns:
        happened.append(layout.name)
    assert happened == told


def test_all_that_have_started_are_ended(failed: Running) -> None:
    happened: list[str] = []
    turns = in_turn([Layout(name, {}) for name in "abc"], starting(failed, happened), 1)
    with contextlib.closing(turns):
        next(turns)
    assert sorted(happened) == ["+a", "+b", "-a", "-b"]


def starting(running: Running, happened: list[str]) -> Start:
    @contextlib.contextmanager
    def start(layout: Layout) -> Iterator[Running]:
        happened.append(f"+{layout.name}")
        try:
            yield running
        finally:
            happened.append(f"-{layout.name}")

    return start


async def test_a_server_that_does_not_start_is_said(failed: Running) -> None:
    lane = AttachedLane(failed.server)
    try:
        with pytest.raises(RuntimeError, match="ended with status 3"):
            await asyncio.wait_for(attach(lane, failed, True), 10)
    finally:
        await asyncio.to_thread(lane.close)


def test_it_needs_no_package_of_the_page() -> None:
    blocked = "gradio=None, plotly=None, pandas=None, typer=None, vllm=None"
    code = f"import sys; sys.modules.update({blocked}); import gpu.parallel, gpu.verify"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT, timeout=60)
