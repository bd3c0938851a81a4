"""Where a server is, and what opens it: addresses, keys and tokens, none of them ever shown."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from dflash_viz.hooks.wire import TOKEN_ENV, TOKEN_HEADER
from dflash_viz.lanes.errors import LaneError

API_KEY_ENV = "VLLM_API_KEY"
RIGHT_KEY = "Give the right one: --api-key-file or VLLM_API_KEY."
LOOPBACK = ("127.0.0.1", "localhost", "::1")


class Secrets(msgspec.Struct, frozen=True):
    """What opens a server: ``token`` the routes of our hooks, ``api_key`` vLLM's own; empty where there
    is none."""

    token: str = ""
    api_key: str = ""

    def __repr__(self) -> str:
        return "Secrets(...)"


class Server(msgspec.Struct, frozen=True):
    """A server that somebody else has started: its lane's name, and its address without a path behind."""

    name: str
    url: str
    secrets: Secrets = Secrets()

    @property
    def on_this_machine(self) -> bool:
        """Whether the folders that it names are folders here."""
        return urlsplit(self.url).hostname in LOOPBACK


def credentials(token: str, api_key: str) -> dict[str, str]:
    """The headers that open a server. The token has one of its own, so that both fit into a request."""
    key = {"Authorization": f"Bearer {api_key}"} if api_key else {}
    return key | ({TOKEN_HEADER: token} if token else {})


def verified(url: str) -> bool:
    """Whether certificates are needed: for plain http they would be read from disk for nothing."""
    return url.startswith("https:")


def read_secrets(token_file: Path | None, api_key_file: Path | None) -> Secrets:
    """The token and the key from these files, else from ``DFLASH_VIZ_TOKEN`` and ``VLLM_API_KEY``.

    Raises ``LaneError`` for a file that cannot be read, or holds what no header can carry.
    """
    return Secrets(_secret(token_file, TOKEN_ENV), _secret(api_key_file, API_KEY_ENV))


def _secret(file: Path | None, variable: str) -> str:
    source = str(file) if file is not None else f"The environment variable {variable}"
    try:
        text = (file.read_text("utf-8") if file is not None else os.environ.get(variable, "")).strip()
    except (OSError, UnicodeDecodeError) as error:
        raise LaneError(f"{source} cannot be read: {error}.") from error
    if file is not None and not text:
        raise LaneError(f"{source} is empty.")
    if not text.isascii() or not all("!" <= letter <= "~" for letter in text):
        raise LaneError(f"{source} must hold one line of visible ASCII characters.")
    return text


def read_servers(given: Sequence[str], secrets: Secrets) -> list[Server]:
    """The servers of ``URL`` or ``NAME=URL`` arguments.

    Raises ``LaneError`` for what is no address, and when two lanes would have one name.
    """
    servers = [_server(text, secrets) for text in given]
    names = [server.name for server in servers]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise LaneError(f"Several servers are named {twice!r}: name each, for example --server fast={twice}.")
    return servers


def _server(text: str, secrets: Secrets) -> Server:
    name, equals, url = text.partition("=")
    if not equals or "://" in name:
        name, url = "", text
    url = url.strip().rstrip("/").removesuffix("/v1")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise LaneError(f"{url!r} is no address: {error}.") from error
    if parts.scheme not in ("http", "https") or not parts.hostname or not url.isprintable() or " " in url:
        raise LaneError(f"{url!r} is no http or https address, such as http://localhost:8000.")
    if parts.username is not None or parts.password is not None:
        raise LaneError("An address must not hold a password: use --api-key-file or VLLM_API_KEY.")
    if parts.query or parts.fragment:
        raise LaneError(f"{url!r} must end before the '?' or '#'.")
    own = parts.hostname if port is None else f"{parts.hostname}:{port}"
    return Server(name.strip() or own, url, secrets)
