"""Engines that sleep, without vLLM: each is a small HTTP server with the routes that a lane uses.

They share a device that has room for one, and notes everything that is done to it.
"""

from __future__ import annotations

import http.server
import json
import queue
import struct
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import msgspec
import pytest
from tokenizers import Tokenizer, models

from dflash_viz.hooks.wire import TOKEN_HEADER, EngineStep, Row
from dflash_viz.lanes import Fleet, LaneError, LaneSpec
from dflash_viz.lanes.lane import Lane
from dflash_viz.lanes.room import Room
from dflash_viz.trace import PLAIN

K = 3
STEPS = 4
TOKEN = "a-token"
PROMPT = [1, 2]
# What plain decoding writes; the others write another token first.
PLAIN_TOKEN, OTHER_TOKEN = 3, 4
WHY = "One engine awake at a time: 3 engines need 9 GB of GPU memory, 5 GB are free for them."


@dataclass
class Device:
    """What has been done to the engines, in order, and who has the memory."""

    done: list[tuple[str, str]] = field(default_factory=list)
    awake: set[str] = field(default_factory=set)
    faults: list[str] = field(default_factory=list)
    engines: dict[str, Engine] = field(default_factory=dict)
    # Whether it has room for all.
    roomy: bool = False
    # How many drafted tokens the next engine of a lane will get right; 2 where nothing is said.
    accepted: dict[str, list[int]] = field(default_factory=dict)

    def note(self, what: str, lane: str) -> None:
        """Something was done to a lane's engine."""
        self.done.append((what, lane))

    def take(self, lane: str) -> None:
        """An engine takes its memory."""
        if not self.roomy and (others := self.awake - {lane}):
            self.faults.append(f"{lane} beside {sorted(others)}")
        self.awake.add(lane)

    def since(self, number: int, *kinds: str) -> list[tuple[str, str]]:
        """What was done after the first so many things, of some kinds."""
        return [(what, lane) for what, lane in self.done[number:] if what in kinds]


class Engine:
    """Stands in for ``EngineServer``. Its behaviour can be changed while it runs."""

    keeper_pid = None

    def __init__(self, device: Device, spec: LaneSpec) -> None:
        self.spec = spec
        self.device = device
        self.token = TOKEN
        self.accepted = (device.accepted.get(spec.name) or [2]).pop(0)
        self.accepted_after_sleep = self.accepted
        self.refuses: dict[str, int] = {}  # route: status
        self.silent = False
        self.gates: dict[str, threading.Event] = {}  # route: answered once it is set
        self.stopped = False
        self.miscounted = 0
        self.num_drafts = 0
        self.num_accepted = 0
        self.streams: dict[str, queue.Queue[bytes | None]] = {}
        self._http = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._http.server_port}"
        device.engines[spec.name] = self

    def start(self, report: Any) -> None:
        """Take the memory and answer."""
        self.device.note("start", self.spec.name)
        self.device.take(self.spec.name)
        report(0.5, "loading the target")
        if (gate := GATES.get(self.spec.name)) is not None:
            gate.wait(30)
        if self.stopped:
            raise LaneError("The engine did not start.")
        threading.Thread(target=self._http.serve_forever, args=(0.01,), daemon=True).start()

    def stop(self) -> None:
        """End it, as often as one likes."""
        if (gate := self.gates.get("stop")) is not None:
            gate.wait(30)
        if not self.stopped:
            self.stopped = True
            self.device.note("stop", self.spec.name)
            self.device.awake.discard(self.spec.name)
            for gate in (*self.gates.values(), *GATES.values()):
                gate.set()
            threading.Thread(target=self._http.shutdown, daemon=True).start()
            self._http.server_close()

    def health(self) -> str:
        """As ``EngineServer.health``."""
        return "dead" if self.stopped else "silent" if self.silent else "good"

    def failure(self) -> str:
        """Why it ended."""
        return "Log: none"

    def metrics(self) -> str:
        """As vLLM's server tells its counters: nothing of drafts where there are none."""
        if self.spec.method == PLAIN:
            return 'vllm:num_requests_running{a="b"} 0.0'
        counts = {"drafts": self.num_drafts, "draft_tokens": K * self.num_drafts}
        counts["accepted_tokens"] = self.num_accepted + self.miscounted
        lines = [f'vllm:spec_decode_num_{name}_total{{a="b"}} {n}' for name, n in counts.items()]
        for position in range(K):
            reached = self.num_drafts if position < self.accepted else 0
            name = "vllm:spec_decode_num_accepted_tokens_per_pos_total"
            lines.append(f'{name}{{position="{position}"}} {reached}')
        return "\n".join([*lines, 'vllm:num_requests_running{a="b"} 0.0'])

    def rows(self, request_id: str) -> Iterator[Row]:
        """The steps of an answer."""
        plain = self.spec.method == PLAIN
        first = PLAIN_TOKEN if plain else OTHER_TOKEN
        yield Row(request_id, 0, [first], prefill=True)
        for index in range(1, STEPS + 1):
            if plain:
                yield Row(request_id, index, [0])
            else:
                yield Row(request_id, index, [0] * (self.accepted + 1), [0] * K)


# By lane: holds its start until it is set.
GATES: dict[str, threading.Event] = {}


def _handler(engine: Engine) -> type[http.server.BaseHTTPRequestHandler]:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            if parts.path == "/dflash_viz/hello":
                spec = engine.spec
                told = {"steps": True, "method": spec.method, "num_speculative_tokens": K}
                self._json({**told, "target": {"name": "t", "dtype": "float32"}})
            elif parts.path == "/dflash_viz/steps":
                self._steps(parse_qs(parts.query)["prefix"][0])
            elif parts.path == "/metrics":
                self._head()
                self.wfile.write(engine.metrics().encode())
            else:
                self._json({}, 404)

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or "{}")
            parts, lane = urlsplit(self.path), engine.spec.name
            route = parts.path.rpartition("/")[2]
            engine.device.note("ask" if parts.path.startswith("/v1/") else route, lane)
            if (gate := engine.gates.get(route)) is not None:
                gate.wait(30)
            if engine.stopped:
                return
            if (status := engine.refuses.get(route)) is not None:
                self._json({"error": "RuntimeError: no"}, status)
            elif self.headers.get(TOKEN_HEADER) != TOKEN:
                self._json({"error": "The token is wrong."}, 401)
            elif route in ("sleep", "wake"):
                self._switch(route)
            elif lane not in engine.device.awake:
                engine.device.faults.append(f"{lane} was asked while it slept")
                self._json({"error": {"message": "asleep"}}, 400)
            elif route == "completions" and "messages" in body:
                self._chat()
            else:
                tops = {f"token_id:{PLAIN_TOKEN}": -0.1, f"token_id:{OTHER_TOKEN}": -3.0}
                self._json({"choices": [{"logprobs": {"top_logprobs": [tops]}}]})

        def _switch(self, route: str) -> None:
            if route == "sleep":
                engine.device.awake.discard(engine.spec.name)
            else:
                engine.device.take(engine.spec.name)
                engine.accepted = engine.accepted_after_sleep
            self._json({})

        def _steps(self, prefix: str) -> None:
            engine.streams[prefix] = events = queue.Queue()
            self._head()
            self.wfile.write(b": watching\n\n")
            while (event := events.get()) is not None:
                self.wfile.write(event)

        def _chat(self) -> None:
            request_id = f"chatcmpl-{self.headers['X-Request-Id']}-"
            self._head()
            self._chunk({"prompt_token_ids": PROMPT, "choices": [{"delta": {"content": ""}}]})
            rows = list(engine.rows(request_id + "0"))
            for seq, row in enumerate(rows):
                step = EngineStep(seq, seq + 0.0, seq + 0.5, [row], draft_start=0.1, draft_end=0.2)
                engine.streams[request_id].put(b"data: " + msgspec.json.encode(step) + b"\n\n")
                engine.num_drafts += bool(row.drafted)
                engine.num_accepted += len(row.sampled) - 1
                choice = {"token_ids": row.sampled, "delta": {"content": "x"}}
                last = {"finish_reason": "length"} if row is rows[-1] else {}
                self._chunk({"choices": [{**choice, **last}]})
            self.wfile.write(b"data: [DONE]\n\n")
            engine.streams.pop(request_id).put(None)

        def _chunk(self, chunk: dict[str, Any]) -> None:
            self.wfile.write(b"data: " + json.dumps(chunk).encode() + b"\n\n")

        def _head(self, status: int = 200) -> None:
            self.send_response(status)
            self.end_headers()

        def _json(self, answer: Any, status: int = 200) -> None:
            self._head(status)
            self.wfile.write(json.dumps(answer).encode())

        def log_message(self, *_: object) -> None:
            """Nothing."""

    return Handler


def spec(name: str) -> LaneSpec:
    """A lane that drafts without a model; "plain" is the one that does not draft."""
    return LaneSpec(name, PLAIN if name == "plain" else "ngram", num_speculative_tokens=K)


@dataclass
class Made:
    """Makes fleets on one device, with one awake unless it is roomy; all are closed at the end."""

    device: Device
    fleets: list[Fleet] = field(default_factory=list)

    @property
    def room(self) -> Room:
        """What a fleet finds."""
        return Room() if self.device.roomy else Room(True, WHY)

    def __call__(self, *lanes: str, start: bool = True) -> Fleet:
        """A fleet of these lanes; started and waited for, unless it is not to start yet."""
        fleet = Fleet([spec(name) for name in lanes])
        self.fleets.append(fleet)
        if start:
            fleet.start()
            for lane in fleet.lanes.values():
                lane.wait_ready(20)
            while fleet.starting:
                time.sleep(0.01)
        return fleet


def make_folder(folder: Path, size: int = 3 * 10**9) -> Path:
    """A model's folder: a tokenizer, and weights of so many bytes."""
    folder.mkdir()
    words = models.WordLevel({str(i): i for i in range(5)}, unk_token="0")
    Tokenizer(words).save(str(folder / "tokenizer.json"))
    (folder / "config.json").write_text("{}")
    header = json.dumps({"w": {"dtype": "F16", "shape": [size // 2], "data_offsets": [0, size]}}).encode()
    with (folder / "model.safetensors").open("wb") as file:
        file.write(struct.pack("<Q", len(header)) + header)
        file.truncate(8 + len(header) + size)  # a hole: nothing of it is on the disk
    return folder


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Made]:
    """Fleets of stand-ins."""
    making, folder = Made(Device()), make_folder(tmp_path / "model")

    def engine(spec: LaneSpec, target: Path, drafter: Path | None) -> Engine:
        assert target == folder
        assert ("enable-sleep-mode" in spec.engine) is not making.device.roomy
        return Engine(making.device, spec)

    monkeypatch.setenv("DFLASH_VIZ_CACHE", str(tmp_path))
    monkeypatch.setattr("dflash_viz.lanes.lane.EngineServer", engine)
    monkeypatch.setattr("dflash_viz.lanes.sleeper.EngineServer", engine)
    monkeypatch.setattr("dflash_viz.lanes.fleet.find_room", lambda specs: making.room)
    monkeypatch.setattr("dflash_viz.lanes.lane.WATCH_INTERVAL_S", 0.02)
    # Engines beside these tests leave too little for what the stand-ins say that they need.
    monkeypatch.setattr("dflash_viz.lanes.sleeper.free_ram", lambda: 64 * 10**9)
    monkeypatch.setattr(Lane, "_weights", lambda self, name: (folder, "hash"))
    yield making
    for fleet in making.fleets:
        fleet.close()
    GATES.clear()
    assert making.device.faults == []


def states(fleet: Fleet, lanes: Sequence[str] = ()) -> list[str]:
    """Where the lanes stand."""
    return [fleet.lanes[name].status.state for name in lanes or fleet.lanes]
