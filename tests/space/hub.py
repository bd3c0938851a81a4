"""A small Hub on loopback: the endpoints that deploying a Space calls, and what they keep."""

from __future__ import annotations

import base64
import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

TOKEN = "hf_" + "t" * 20


@dataclass
class Space:
    """One Space, as the Hub keeps it."""

    hardware: str
    sleep_time: int | None
    variables: dict[str, str]
    secrets: dict[str, str]
    sdk: str
    files: dict[str, bytes] = field(default_factory=lambda: {".gitattributes": b""})
    commits: int = 0

    def runtime(self) -> dict[str, Any]:
        return {
            "stage": "RUNNING",
            "hardware": {"current": "cpu-basic", "requested": self.hardware},
            "gcTimeout": self.sleep_time,
        }


@dataclass
class Hub:
    """``faults`` maps the last part of a path to the status, code and message it is answered with."""

    spaces: dict[str, Space] = field(default_factory=dict)
    faults: dict[str, tuple[int, str, str]] = field(default_factory=dict)
    requests: list[str] = field(default_factory=list)
    url: str = ""

    def writes(self) -> list[str]:
        """The requests that changed something, in their order."""
        asked = {"POST /api/validate-yaml", "preupload"}
        return [one for one in self.requests if one.startswith("POST") and not any(a in one for a in asked)]


class RefusedError(Exception):
    """A request is answered with a status, the Hub's code for it, and its message."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status, self.code, self.message = status, code, message


@contextmanager
def running_hub() -> Iterator[Hub]:
    """A Hub that answers until the block ends."""
    hub = Hub()
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(hub))
    hub.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _handler(hub: Hub) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: object) -> None:
            pass

        def do_GET(self) -> None:
            self._answer(b"")

        def do_POST(self) -> None:
            self._answer(self.rfile.read(int(self.headers["Content-Length"])))

        def _answer(self, body: bytes) -> None:
            path = urlsplit(self.path).path
            hub.requests.append(f"{self.command} {path}")
            try:
                if self.headers.get("Authorization") != f"Bearer {TOKEN}":
                    raise RefusedError(401, "", "Invalid credentials in Authorization header")
                for part, fault in hub.faults.items():
                    if f"{self.command} {path}".endswith(part):
                        raise RefusedError(*fault)
                self._send(200, _result(hub, self.command, path, body), {})
            except RefusedError as refused:
                headers = {"X-Error-Code": refused.code, "X-Error-Message": refused.message}
                self._send(refused.status, {"error": refused.message}, headers)

        def _send(self, status: int, result: Any, headers: dict[str, str]) -> None:
            content = json.dumps(result).encode()
            self.send_response(status)
            for name, value in {"Content-Type": "application/json", **headers}.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

    return Handler


def _result(hub: Hub, method: str, path: str, body: bytes) -> Any:
    if path == "/api/repos/create":
        return _create(hub, json.loads(body))
    if path == "/api/validate-yaml":
        return {"errors": [], "warnings": []}
    _, _, _, owner, name, *rest = path.split("/")
    space = hub.spaces.get(f"{owner}/{name}")
    if space is None:
        raise RefusedError(404, "RepoNotFound", "Repository not found")
    action = rest[0] if rest else "info"
    if action == "preupload":
        return {"files": [_mode(space, file["path"]) for file in json.loads(body)["files"]]}
    if action == "commit":
        return _commit(space, f"{hub.url}/spaces/{owner}/{name}", body)
    if method == "POST":
        return _set(space, action, json.loads(body))
    return _get(space, f"{owner}/{name}", action)


def _create(hub: Hub, asked: dict[str, Any]) -> dict[str, str]:
    name = f"{asked['organization']}/{asked['name']}"
    if name in hub.spaces:
        raise RefusedError(409, "", "You already created this space repo")
    hub.spaces[name] = Space(
        asked["hardware"],
        asked.get("sleepTimeSeconds"),
        {one["key"]: one["value"] for one in asked["variables"]},
        {one["key"]: one["value"] for one in asked["secrets"]},
        asked["sdk"],
    )
    return {"url": f"{hub.url}/spaces/{name}"}


def _get(space: Space, name: str, action: str) -> Any:
    if action in ("info", "revision"):
        siblings = [{"rfilename": path} for path in space.files]
        return {"id": name, "sha": f"{space.commits:040x}", "sdk": space.sdk, "siblings": siblings}
    if action == "runtime":
        return space.runtime()
    if action == "variables":
        return {key: {"value": value} for key, value in space.variables.items()}
    if action == "secrets":
        return {key: {} for key in space.secrets}
    assert action == "tree", action
    return [
        {"type": "file", "path": path, "size": len(content), "oid": _oid(content)}
        for path, content in space.files.items()
    ]


def _set(space: Space, action: str, asked: dict[str, Any]) -> Any:
    if action in ("variables", "secrets"):
        kept = space.variables if action == "variables" else space.secrets
        kept[asked["key"]] = asked["value"]
        return _get(space, "", action)
    if action == "hardware":
        space.hardware = asked["flavor"]
        space.sleep_time = asked.get("sleepTimeSeconds", space.sleep_time)
    else:
        assert action == "sleeptime", action
        space.sleep_time = asked["seconds"]
    return space.runtime()


def _mode(space: Space, path: str) -> dict[str, Any]:
    known = {"oid": _oid(space.files[path])} if path in space.files else {}
    return {"path": path, "uploadMode": "regular", "shouldIgnore": False, **known}


def _commit(space: Space, address: str, body: bytes) -> dict[str, str]:
    for line in map(json.loads, body.splitlines()):
        if line["key"] == "file":
            space.files[line["value"]["path"]] = base64.b64decode(line["value"]["content"])
        elif line["key"] == "deletedFile":
            del space.files[line["value"]["path"]]
    space.commits += 1
    oid = f"{space.commits:040x}"
    return {"commitUrl": f"{address}/commit/{oid}", "commitOid": oid}


def _oid(content: bytes) -> str:
    """What git calls a file of this content."""
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()
