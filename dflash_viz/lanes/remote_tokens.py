"""Where the texts of a server's tokens come from: its tokenizer, if it can be had here, else the server."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import httpx
import msgspec

from dflash_viz.lanes.access import Server, credentials, verified
from dflash_viz.lanes.detokenize import Detokenizer, TokenTable
from dflash_viz.lanes.prints import is_hub_id

# So many questions at a time, and so many tokens of one event: a long prompt is not worth thousands.
AT_ONCE = 16
MOST = 512
TIMEOUT_S = 5.0
_SPECIAL = re.compile(r"<\|[^|]*\|>|</?s>|<(?:pad|bos|eos|unk)>")


class _Prompt(msgspec.Struct):
    """vLLM's answer to ``/detokenize``."""

    prompt: str


class ServerTokens:
    """Asks the server for each token's text (vLLM's ``/detokenize``), once.

    A token that is part of a character has no text of its own there: it is shown as U+FFFD. What the
    server does not tell is shown as its id.
    """

    remote = True

    def __init__(self, server: Server, model: str) -> None:
        self._server = server
        self._model = model
        self._known: dict[int, str] = {}

    async def prepare(self, tokens: set[int]) -> None:
        """Fetch what is not known of these tokens yet."""
        if not (missing := sorted(tokens - set(self._known))[:MOST]):
            return
        turns = asyncio.Semaphore(AT_ONCE)
        secrets, url = self._server.secrets, self._server.url
        async with httpx.AsyncClient(
            base_url=url,
            headers=credentials(secrets.token, secrets.api_key),
            timeout=TIMEOUT_S,
            verify=verified(url),
        ) as http:
            await asyncio.gather(*(self._fetch(http, turns, token) for token in missing))

    async def _fetch(self, http: httpx.AsyncClient, turns: asyncio.Semaphore, token: int) -> None:
        async with turns:
            try:
                answer = await http.post("/detokenize", json={"model": self._model, "tokens": [token]})
                text = msgspec.json.decode(answer.raise_for_status().content, type=_Prompt).prompt
            except (httpx.HTTPError, msgspec.MsgspecError):
                text = f"[{token}]"
        self._known[token] = text

    def is_special(self, token: int) -> bool:
        """Whether the token looks like one that vLLM leaves out of the text."""
        return _SPECIAL.fullmatch(self._known.get(token, "")) is not None

    def to_bytes(self, token: int) -> bytes:
        """The bytes of one token; its id in brackets when nobody told them."""
        return self._known.get(token, f"[{token}]").encode()

    def latin1(self, tokens: set[int]) -> dict[int, str]:
        """The trace's form: bytes written as latin-1."""
        return {token: self.to_bytes(token).decode("latin-1") for token in sorted(tokens)}


def find_tokens(server: Server, target: str, model: str, steps: bool) -> TokenTable:
    """The texts of the target's tokens; ``target`` is its folder or hub id as the server knows it.

    Without ``steps`` no token is ever asked for, and nothing is fetched.
    """
    file = _tokenizer_file(server, target) if steps else None
    if file is not None:
        try:
            return Detokenizer.from_folder(file.parent)
        except Exception:  # the tokenizer's library raises nothing narrower for a file that it cannot read
            return ServerTokens(server, model)
    return ServerTokens(server, model)


def _tokenizer_file(server: Server, target: str) -> Path | None:
    """``tokenizer.json`` of the target, from its folder on this machine or from the hub; None without."""
    if server.on_this_machine and target and (Path(target) / "tokenizer.json").is_file():
        return Path(target) / "tokenizer.json"
    if not is_hub_id(target):
        return None
    from huggingface_hub import hf_hub_download, hf_hub_url, try_to_load_from_cache
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError

    try:
        if isinstance(kept := try_to_load_from_cache(target, "tokenizer.json"), str):
            return Path(kept)
        # The hub's client tries again for half a minute where there is no way to the hub.
        httpx.head(hf_hub_url(target, "tokenizer.json"), timeout=TIMEOUT_S)
        return Path(hf_hub_download(target, "tokenizer.json", etag_timeout=TIMEOUT_S))
    except (HfHubHTTPError, HFValidationError, httpx.HTTPError, OSError, ValueError):
        return None  # no such model, closed to us, or no way to the hub
