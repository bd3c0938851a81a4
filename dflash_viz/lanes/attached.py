"""A lane on a server that somebody else has started: found, watched, never stopped.

With our hooks and their token there, everything is as in a lane of our own. Without, there are counts
only, and the lane says why.
"""

from __future__ import annotations

import re
import threading
import traceback
from contextlib import suppress
from typing import Any

import httpx
import msgspec

from dflash_viz.hooks.wire import ROUTE
from dflash_viz.lanes.access import RIGHT_KEY, Server, credentials, verified
from dflash_viz.lanes.client import LaneClient
from dflash_viz.lanes.errors import LaneError
from dflash_viz.lanes.face import LaneFace, LaneStatus
from dflash_viz.lanes.prints import Told, fingerprint, misfit, model_print, read_told
from dflash_viz.lanes.remote_tokens import find_tokens
from dflash_viz.lanes.spec import LaneSpec
from dflash_viz.trace import PLAIN, UNKNOWN, ModelPrint
from dflash_viz.trace.counters import read_prometheus

# One look a second, and at once a second one where the first finds nothing: gone after 4 s at most.
LOOK_EVERY_S = 1.0
LOOK_TIMEOUT_S = 1.5
MISSES_ALLOWED = 1
TIMEOUT_S = 10.0
# The hooks are installed between two engine steps of whatever runs there.
HELLO_TIMEOUT_S = 60.0
CLOSE_TIMEOUT_S = 5.0

NO_HOOKS = (
    "This server runs without the hooks of DFlash Viz, so its steps cannot be shown: the text, and what "
    "vLLM counts (README, “Watch a server that already runs”)."
)
NO_TOKEN = (
    "This server has the hooks of DFlash Viz, but this app was started without their token, so its steps "
    "cannot be shown: set DFLASH_VIZ_TOKEN or give --token-file."
)
WRONG_TOKEN = (
    "This server refuses the app's token, so its steps cannot be shown: give both the same DFLASH_VIZ_TOKEN."
)
BROKEN_HOOKS = (
    "The hooks on this server do not answer as they should (status {status}), so its steps cannot be shown. "
    "Was it started with --worker-extension-cls dflash_viz.hooks.probe.Probe too?"
)

NO_COUNTS = (
    "this server does not report per-step counts: for that start it with --per-request-spec-decode-metrics "
    "detailed (vLLM 0.26 does not have it)"
)


class _Model(msgspec.Struct):
    id: str
    owned_by: str = ""
    root: str | None = None
    parent: str | None = None


class _Models(msgspec.Struct):
    """What we read of ``/v1/models``."""

    data: list[_Model]


class AttachedLane(LaneFace):
    """Speaks to a server of somebody else's. ``start`` returns at once; ``status`` says how it is.

    A server that goes away is said in its status; when it answers again, the lane is ready again.
    """

    shares_machine = False

    def __init__(self, server: Server) -> None:
        super().__init__(LaneSpec(server.name, UNKNOWN))
        self.server = server
        self._closing = threading.Event()
        self._wake = threading.Event()
        self._thread: threading.Thread | None = None
        # Whether it has answered before.
        self._found = False

    def start(self) -> None:
        """Begin to watch the server."""
        self._thread = threading.Thread(target=self._live, name=f"lane-{self.spec.name}", daemon=True)
        self._thread.start()

    def queue(self) -> bool:
        """Look at the server now; there is nothing to start."""
        self._wake.set()
        return False

    def pause(self) -> bool:
        """Nothing of it takes time on this machine."""
        return False

    def resume(self) -> None:
        """There is nothing to resume."""

    @property
    def paused(self) -> bool:
        """Never."""
        return False

    def close(self) -> None:
        """Look away. The server goes on."""
        self._closing.set()
        self._wake.set()
        if self._thread is not None:
            self._thread.join(CLOSE_TIMEOUT_S)
        self.client = None
        self.status = LaneStatus("stopped", "stopped")

    def _live(self) -> None:
        self.status = LaneStatus("loading", f"connecting to {self.server.url}")
        while not self._closing.is_set():
            try:
                self._found_again(self._connect())
                self._watch()
            except LaneError as error:
                self.fail(str(error))
            except Exception as error:  # the watch must go on, whatever a server answers
                traceback.print_exc()
                self.fail(f"{type(error).__name__}: {error}")
            finally:
                self.client = None
            self._wake.wait(LOOK_EVERY_S)
            self._wake.clear()

    def _found_again(self, client: LaneClient) -> None:
        self._found = True
        if client.counts_only:
            self.tell(f"counts only: {client.counts_only}")
        self.answer_with(client)

    def _watch(self) -> None:
        """Returns when the lane is closed; raises ``LaneError`` when the server has gone."""
        misses = 0
        with self._http(LOOK_TIMEOUT_S) as http:
            while not self._closing.is_set():
                misses = 0 if _is_healthy(http) else misses + 1
                if misses > MISSES_ALLOWED:
                    raise LaneError(self._silent())
                if not misses:
                    self._wake.wait(LOOK_EVERY_S)
                    self._wake.clear()

    def _silent(self) -> str:
        any_more = " any more" if self._found else ""
        return (
            f"The server at {self.server.url} does not answer{any_more}. The lane goes on as soon as it does."
        )

    def _http(self, timeout: float) -> httpx.Client:
        secrets, url = self.server.secrets, self.server.url
        headers = credentials(secrets.token, secrets.api_key)
        return httpx.Client(base_url=url, headers=headers, timeout=timeout, verify=verified(url))

    def _connect(self) -> LaneClient:
        """Find out what the server is. Raises ``LaneError`` in words for the page."""
        with self._http(TIMEOUT_S) as http:
            try:
                model = _model(http, self.server)
                told, why = _hello(http, self.server.secrets.token)
                if why:
                    told = _from_outside(http, told)
            except httpx.HTTPError as error:
                raise LaneError(self._silent()) from error
        name, k = model.root or model.id, told.num_speculative_tokens
        self.spec = LaneSpec(self.server.name, told.method, name, num_speculative_tokens=k)
        target = told.target if told.target.name else msgspec.structs.replace(told.target, name=name)
        client = LaneClient(
            self.server.name,
            self.server.url,
            self.server.secrets.token,
            fingerprint(told, model_print(target.name, target), _drafter(told, target)),
            find_tokens(self.server, target.name, model.id, steps=not why),
            model.id,
            api_key=self.server.secrets.api_key,
            counts_only=why,
        )
        client.counts_answers, client.who = told.per_request_counts, "server"
        if not told.per_request_counts and told.method != PLAIN:
            client.why_uncounted = NO_COUNTS
        return client


def _drafter(told: Told, target: ModelPrint) -> ModelPrint | None:
    """Who drafts. vLLM names the target where the method has no model of its own (n-gram)."""
    drafter = told.drafter
    if drafter is None:
        return None
    return model_print("" if drafter.name == target.name else drafter.name, drafter)


def _is_healthy(http: httpx.Client) -> bool:
    try:
        return http.get("/health").status_code == 200
    except httpx.HTTPError:
        return False


def _model(http: httpx.Client, server: Server) -> _Model:
    """The model that the server serves."""
    answer, url = http.get("/v1/models"), server.url
    if answer.status_code in (401, 403):
        if server.secrets.api_key:
            raise LaneError(f"The server at {url} refuses the API key. {RIGHT_KEY}")
        raise LaneError(f"The server at {url} wants an API key: give --api-key-file or set VLLM_API_KEY.")
    if answer.is_redirect:
        raise LaneError(f"The server at {url} sends elsewhere: give the address where it really is.")
    if answer.status_code >= 500:
        raise LaneError(f"The server at {url} is not ready (status {answer.status_code}).")
    with suppress(msgspec.MsgspecError):
        models = msgspec.json.decode(answer.content, type=_Models).data
        own = [model for model in models if model.owned_by == "vllm" and model.parent is None]
        if answer.status_code == 200 and own:
            return own[0]
    raise LaneError(f"What answers at {url} is no vLLM server.")


def _hello(http: httpx.Client, token: str) -> tuple[Told, str]:
    """What the hooks tell, and why there will be no steps, if so."""
    answer = http.get(f"{ROUTE}/hello", timeout=HELLO_TIMEOUT_S)
    if answer.status_code in (401, 403):
        return Told(), WRONG_TOKEN if token else NO_TOKEN
    if answer.status_code == 404:
        return Told(), NO_HOOKS
    if answer.status_code != 200:
        return Told(), BROKEN_HOOKS.format(status=answer.status_code)
    try:
        told = read_told(_json(answer))
    except LaneError as error:
        return Told(), f"{error} Its steps cannot be shown."
    return told, "" if told.steps else misfit(told)


def _json(answer: httpx.Response) -> Any:
    try:
        return answer.json()
    except ValueError:
        return None


def _from_outside(http: httpx.Client, told: Told) -> Told:
    """What a server shows of itself to everybody, where the hooks have not told it."""
    metrics = http.get("/metrics")
    found = told
    if told.method == UNKNOWN and metrics.status_code == 200 and "vllm:" in metrics.text:
        drafts = "vllm:spec_decode_num_drafts" in metrics.text
        k = len(read_prometheus(metrics.text).accepted_per_position)
        found = msgspec.structs.replace(found, method=UNKNOWN if drafts else PLAIN, num_speculative_tokens=k)
        if caching := re.search(
            r'vllm:cache_config_info\{[^}]*enable_prefix_caching="(True|False)"', metrics.text
        ):
            found = msgspec.structs.replace(found, prefix_caching=caching[1] == "True")
    answer = _json(http.get("/version"))
    number = answer.get("version") if isinstance(answer, dict) else None
    if isinstance(number, str) and not told.versions:
        found = msgspec.structs.replace(found, versions={"vllm": number})
    return found
