"""Lanes on servers that run already: real engines, behind doors that the tests open and shut."""

from __future__ import annotations

import asyncio
import http.server
import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import gradio as gr
import httpx
import msgspec
import pytest

from dflash_viz.lanes import Fleet, Lane, LaneError, LaneFace, Race, Server, Text
from dflash_viz.lanes.access import Secrets
from dflash_viz.lanes.attached import AttachedLane
from dflash_viz.lanes.lane import connect
from dflash_viz.lanes.remote_tokens import ServerTokens
from dflash_viz.lanes.server import free_port
from dflash_viz.metrics import count, counted_values
from dflash_viz.metrics.counted import SHORTEST_S
from dflash_viz.trace import End, Header, Message, Sampling, Step, Trace
from dflash_viz.trace.counters import Counters, read_load
from dflash_viz.ui.api import make_stream
from tests.lanes.proxy import Proxy
from tests.lanes.test_engine import assert_true_to_engine, counters, record
from tests.lanes.test_fleet import until

PROMPT = "What is 12 times 7? Think step by step."


def port_of(lane: LaneFace) -> int:
    assert isinstance(lane, Lane)
    assert lane._server is not None
    return urlsplit(lane._server.url).port or 0


def token_of(lane: LaneFace) -> str:
    assert isinstance(lane, Lane)
    assert lane._server is not None
    return lane._server.token


@pytest.fixture
def door(lane: Lane) -> Iterator[Proxy]:
    """A door in front of the DFlash engine."""
    proxy = Proxy(port_of(lane))
    yield proxy
    proxy.shut()


def attach(url: str, token: str = "", name: str = "there") -> AttachedLane:
    attached = AttachedLane(Server(name, url, Secrets(token)))
    attached.start()
    return attached


async def counted(lane: AttachedLane, prompt: str, sampling: Sampling) -> tuple[Trace, list[str]]:
    """A trace without steps, and the pieces of text that came before its end."""
    assert lane.client is not None
    lines = [line async for line in lane.client.run([Message("user", prompt)], sampling)]
    header, *pieces, end = lines
    assert isinstance(header, Header)
    assert isinstance(end, End)
    return Trace(header, [], end), [piece.text for piece in pieces if isinstance(piece, Text)]


class Answering:
    """A server of some JSON documents, by path."""

    def __init__(self, documents: dict[str, object], status: int = 200) -> None:
        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                found = self.path in documents
                self.send_response(status if found else 404)
                self.send_header("Location", "http://127.0.0.1:9/")
                self.end_headers()
                self.wfile.write(msgspec.json.encode(documents.get(self.path, {})))

            def log_message(self, *_: object) -> None:
                """Nothing."""

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)

    def __enter__(self) -> str:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return f"http://127.0.0.1:{self._server.server_port}"

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


def essence(step: Step) -> tuple[object, ...]:
    """What two runs of one prompt have in common: all but the times."""
    return step.index, step.drafted, step.emitted, step.num_accepted, step.last, step.prefill, step.tokens


@pytest.mark.engine
async def test_with_the_token_everything_is_as_in_a_lane_of_our_own(lane: Lane) -> None:
    there = attach(f"http://127.0.0.1:{port_of(lane)}", token_of(lane))
    try:
        await asyncio.to_thread(there.wait_ready, 60)
        ours = await record(lane, PROMPT, Sampling(max_tokens=40), 3)
        theirs = await record(there, PROMPT, Sampling(max_tokens=40), 3)  # type: ignore[arg-type]
        assert_true_to_engine(lane, theirs)
        assert list(map(essence, theirs.steps)) == list(map(essence, ours.steps))
        assert theirs.steps[1].positions
        assert theirs.header.tokens == ours.header.tokens
        own, told = (msgspec.to_builtins(one.header.fingerprint) for one in (ours, theirs))
        for models in ("target", "drafter"):
            for field in ("name", "content_hash"):
                own[models].pop(field, None)
                told[models].pop(field, None)
        own.pop("chat_template_hash", None)
        assert told == own
        assert (there.spec.method, there.spec.num_speculative_tokens) == (
            "dflash",
            lane.spec.num_speculative_tokens,
        )
    finally:
        there.close()
    assert (await record(lane, "Hi", Sampling(max_tokens=2))).steps, "the server went with the lane"


@pytest.mark.engine
@pytest.mark.parametrize(
    ("token", "hidden", "words"),
    [("wrong", False, "refuses the app's token"), ("", False, "without their token"),
     ("any", True, "without the hooks")],
)  # fmt: skip
async def test_without_steps_there_are_counts_and_the_reason(
    lane: Lane, token: str, hidden: bool, words: str
) -> None:
    proxy = Proxy(port_of(lane), hide=hidden)
    there = attach(proxy.url, token)
    try:
        await asyncio.to_thread(there.wait_ready, 60)
        assert there.client is not None
        assert words in there.client.counts_only
        assert there.status.message == "counts only"
        ours = await record(lane, PROMPT, Sampling(max_tokens=40))
        before = await counters(lane)
        trace, pieces = await counted(there, PROMPT, Sampling(max_tokens=40))
        gained = await counters(lane) - before
        assert_counted(trace, gained)
        assert ours.end is not None
        assert trace.end is not None
        assert "".join(pieces) == trace.end.text == ours.end.text
        assert len(pieces) > 3
        assert (trace.end.engine_accepted, trace.end.engine_drafted) == (
            ours.end.engine_accepted, ours.end.engine_drafted,
        )  # fmt: skip
        assert trace.header.counts_only == there.client.counts_only
        assert trace.header.prompt_token_ids == ours.header.prompt_token_ids
        assert trace.header.fingerprint.num_speculative_tokens == lane.spec.num_speculative_tokens
        with pytest.raises(LaneError, match="no steps to show"):
            there.stream("Hi")
    finally:
        there.close()
        proxy.shut()


def assert_counted(trace: Trace, gained: Counters) -> None:
    """The window is the difference of the server's counters, when nobody else asks."""
    assert trace.end is not None
    window = trace.end.window
    assert window is not None
    assert (
        Counters(
            window.num_drafts or 0,
            window.num_draft_tokens or 0,
            window.num_accepted or 0,
            tuple(window.accepted_per_position),
        )
        == gained
    )
    assert gained.num_drafts > 3
    assert window.output_tokens == trace.end.num_output_tokens == 40
    assert window.num_others == 0
    assert window.decode_tokens == 39
    assert window.decode_s > 0
    assert window.first_token_s > 0
    values = counted_values(trace.end)
    assert values["al"] == gained.acceptance_length
    # On a busy machine all pieces may come at once: that tells no speed.
    told = window.decode_s >= SHORTEST_S
    assert values["client_speed"] == (window.decode_tokens / window.decode_s if told else None)


@pytest.mark.engine
async def test_others_requests_are_in_the_window_and_said(lane: Lane) -> None:
    there = attach(f"http://127.0.0.1:{port_of(lane)}")
    try:
        await asyncio.to_thread(there.wait_ready, 60)
        other = asyncio.create_task(record(lane, "Write a long story.", Sampling(max_tokens=150)))
        assert lane.client is not None
        while read_load(await lane.client.metrics()).running == 0:
            assert not other.done()
        trace, _ = await counted(there, PROMPT, Sampling(max_tokens=20))
        await other
        assert trace.end is not None
        assert trace.end.window is not None
        assert trace.end.window.num_others == 1
        assert (trace.end.window.output_tokens or 0) > 20
    finally:
        there.close()


@pytest.mark.engine
async def test_stopping_ends_a_counted_answer(lane: Lane) -> None:
    there = attach(f"http://127.0.0.1:{port_of(lane)}")
    try:
        await asyncio.to_thread(there.wait_ready, 60)
        assert there.client is not None
        run = there.client.run([Message("user", "Write a long poem.")], Sampling(max_tokens=400))
        last = None
        async for line in run:
            last = line
            if isinstance(line, Text):
                await run.stop()
        assert isinstance(last, End)
        assert last.finish_reason == "abort"
        assert 0 < last.num_output_tokens < 400
        assert last.error is None
    finally:
        there.close()


@pytest.mark.engine
@pytest.mark.parametrize("token", ["right", "none"])
async def test_a_server_that_goes_away_is_said_and_found_again(lane: Lane, door: Proxy, token: str) -> None:
    there = attach(door.url, token_of(lane) if token == "right" else "")
    try:
        await asyncio.to_thread(there.wait_ready, 60)
        assert there.client is not None
        ends = []
        async for line in there.client.run([Message("user", "Tell me a story.")], Sampling(max_tokens=400)):
            if isinstance(line, Step | Text):
                await asyncio.to_thread(door.shut)
            if isinstance(line, End):
                ends.append(line)
        assert ends[0].finish_reason == "error"
        assert ends[0].error
        await asyncio.to_thread(until, lambda: there.status.state == "failed", 30)
        assert "does not answer any more" in there.status.message
        assert there.client is None
        door.open()
        await asyncio.to_thread(until, lambda: there.status.state == "ready", 30)
        assert there.client.counts_only == "" or token == "none"
        again = [line async for line in there.client.run([Message("user", "Hi")], Sampling(max_tokens=4))]
        assert isinstance(again[-1], End)
        assert again[-1].error is None
    finally:
        there.close()


@pytest.mark.engine
def test_a_server_that_says_nothing_is_said_too(lane: Lane, door: Proxy) -> None:
    there = attach(door.url, token_of(lane))
    try:
        there.wait_ready(60)
        door.silent = True
        until(lambda: there.status.state == "failed", 30)
        door.silent = False
        assert there.queue() is False  # the retry button
        until(lambda: there.status.state == "ready", 30)
    finally:
        there.close()


@pytest.mark.engine
def test_an_api_key_and_the_token_fit_into_one_request(lane: Lane) -> None:
    url = f"http://127.0.0.1:{port_of(lane)}/dflash_viz/hello"
    key = {"Authorization": "Bearer somebody's key"}
    assert httpx.get(url, headers={**key, "X-DFlash-Viz-Token": token_of(lane)}).status_code == 200
    assert httpx.get(url, headers={"Authorization": f"Bearer {token_of(lane)}"}).status_code == 200
    assert httpx.get(url, headers={**key, "X-DFlash-Viz-Token": "wrong"}).status_code == 401
    wrong = {"Authorization": f"Bearer {token_of(lane)}", "X-DFlash-Viz-Token": "wrong"}
    assert httpx.get(url, headers=wrong).status_code == 401
    assert httpx.get(url, headers=key).status_code == 401


@pytest.mark.engine
async def test_a_lane_of_our_own_whose_hooks_do_not_fit_counts_too(lane: Lane) -> None:
    """As with a runner that nobody has written hooks for: the answer of ``hello`` is the only stand-in."""
    assert lane._server is not None
    assert lane.client is not None
    said = {"steps": False, "why": "the runner is another one"}
    with Answering({"/dflash_viz/hello": said}) as url:
        server = type("Elsewhere", (), {"url": url, "token": "", "failure": lambda: ""})
        target = lane._server._command[lane._server._command.index("--model") + 1]
        client = connect(lane.spec, server, Path(target), ("hash", None))  # type: ignore[arg-type]
    assert "the runner is another one" in client.counts_only
    assert client.fingerprint.method == "dflash"
    assert client.fingerprint.num_speculative_tokens == lane.spec.num_speculative_tokens


@pytest.mark.engine
async def test_the_server_tells_the_texts_of_its_tokens(lane: Lane) -> None:
    server = Server("there", f"http://127.0.0.1:{port_of(lane)}")
    asked = ServerTokens(server, "target")
    assert lane.client is not None
    own = lane.client.detokenizer
    ids = {*range(0, 40), *range(400, 440), 9999}
    assert asked.to_bytes(9999) == b"[9999]"
    await asked.prepare(ids)
    whole = [
        i for i in ids if not own.is_special(i) and own.to_bytes(i).decode("utf-8", "replace").isprintable()
    ]
    assert len(whole) > 40
    assert {i: asked.latin1({i}) for i in whole} == {i: own.latin1({i}) for i in whole}
    assert asked.is_special(0) == own.is_special(0) is True
    assert not asked.is_special(430)


@pytest.mark.engine
async def test_the_named_endpoint_streams_the_text(lane: Lane) -> None:
    there = Fleet([], [Server("there", f"http://127.0.0.1:{port_of(lane)}")])
    there.start()
    try:
        stream = make_stream(there, None)
        lines = [line async for line in stream(gr.Request(), "What is 2 plus 2?", max_tokens=16)]
        assert {line["lane"] for line in lines} == {"there"}
        text = "".join(line["text"] for line in lines if line["type"] == "text")
        end = next(line for line in lines if line["type"] == "end")
        assert text == end["text"] != ""
        assert end["window"]["num_drafts"] > 0
        assert not any(line["type"] == "step" for line in lines)
    finally:
        there.close()


@pytest.mark.engine
async def test_servers_race(fleet: Fleet) -> None:
    """All of them attached, the first without its token: counts there, steps in the others."""
    names = list(fleet.lanes)
    servers = [
        Server(
            f"s-{n}",
            f"http://127.0.0.1:{port_of(fleet.lanes[n])}",
            Secrets("" if i == 0 else token_of(fleet.lanes[n])),
        )
        for i, n in enumerate(names)
    ]
    there = Fleet([], servers)
    there.start()
    assert not there.shares_machine
    traces: dict[str, Trace] = {}
    turns: list[tuple[str, str]] = []
    try:
        race = Race(there, list(there.lanes), [Message("user", PROMPT)], Sampling(max_tokens=12))
        async for name, event in race.events():
            if isinstance(event, Header):
                traces[name] = Trace(event)
            elif isinstance(event, Step | End):
                traces[name].add(event)
            elif not isinstance(event, Text):
                turns.append((name, event.state))
        ran = [(name, state) for name, state in turns if state in ("running", "done")]
        assert sorted(ran) == sorted((f"s-{name}", state) for name in names for state in ("running", "done"))
        assert [state for _, state in ran] == ["running", "done"] * len(names), "not one after another"
        assert {name: bool(trace.steps) for name, trace in traces.items()} == {
            f"s-{name}": i > 0 for i, name in enumerate(names)
        }
        ends = [trace.end for trace in traces.values() if trace.end is not None]
        assert len({end.text for end in ends}) == 1
        # In the order in which they were ready; the first server is not the first for certain.
        for trace in (traces[f"s-{name}"] for name in names[1:]):
            assert count(trace.steps).num_drafts == len(trace.end.engine_drafted if trace.end else [])
    finally:
        there.close()
    assert {lane.status.state for lane in there.lanes.values()} == {"stopped"}
    assert all(lane.status.state == "ready" for lane in fleet.lanes.values())


OTHER = {"data": [{"id": "m", "owned_by": "somebody"}]}


@pytest.mark.parametrize(
    ("content", "status", "words"),
    [({}, 200, "no vLLM server"), (OTHER, 200, "no vLLM server"), ([1], 200, "no vLLM server"),
     (OTHER, 404, "no vLLM server"), ({}, 401, "wants an API key: give "), ({}, 307, "sends elsewhere"),
     ({}, 503, "not ready")],
)  # fmt: skip
def test_what_is_no_vllm_server_is_said(content: object, status: int, words: str) -> None:
    with Answering({"/v1/models": content}, status) as url:
        there = attach(url)
        try:
            until(lambda: there.status.state == "failed")
            assert words in there.status.message
            assert url in there.status.message
        finally:
            there.close()


def test_nobody_there() -> None:
    there = attach(f"http://127.0.0.1:{free_port()}", "hidden-token")
    try:
        until(lambda: there.status.state == "failed")
        told = f"The server at {there.server.url} does not answer. The lane goes on as soon as it does."
        assert there.status.message == told
        with pytest.raises(LaneError) as refused:
            there.stream("Hi")
        assert str(refused.value) == f"Lane 'there' is not ready: {told}"
    finally:
        there.close()
    assert there.status.state == "stopped"


def test_a_wrong_key_is_told_from_a_missing_one() -> None:
    with Answering({"/v1/models": {}}, 401) as url:
        there = AttachedLane(Server("there", url, Secrets(api_key="hidden-key")))
        there.start()
        try:
            until(lambda: there.status.state == "failed")
            assert "refuses the API key. Give the right one: --api-key-file" in there.status.message
            assert "hidden-key" not in there.status.message
        finally:
            there.close()


SERVED = {"/v1/models": {"data": [{"id": "m", "owned_by": "vllm"}]}, "/health": {}}


@pytest.mark.parametrize(
    ("told", "named"),
    [({"method": "dflash"}, True), ({"method": "dflash", "per_request_counts": True}, False),
     ({"method": "none"}, False)],
)  # fmt: skip
def test_a_server_that_reports_no_counts_has_the_flag_named(told: dict[str, object], named: bool) -> None:
    served = {**SERVED, "/dflash_viz/hello": {"steps": True, **told}}
    with Answering(served) as url:
        there = attach(url, "token")
        try:
            there.wait_ready(30)
            assert there.client is not None
            flag = "--per-request-spec-decode-metrics detailed"
            assert (flag in there.client.why_uncounted) is named
            assert there.client.who == "server"
        finally:
            there.close()


@pytest.mark.parametrize("told", [7, {"steps": True, "method": 3}, {"steps": True, "target": []}])
def test_hooks_that_tell_nonsense_are_not_trusted(told: object) -> None:
    models = {"data": [{"id": "m", "owned_by": "vllm"}]}
    served = {"/v1/models": models, "/dflash_viz/hello": told, "/health": {}}
    with Answering(served) as url:
        there = attach(url, "token")
        try:
            there.wait_ready(30)
            assert there.client is not None
            assert "does not understand" in there.client.counts_only
        finally:
            there.close()
