"""What a trace holds: a header, the steps in order, and how the request ended.

All times are seconds on the engine's monotonic clock, counted from the beginning of the engine step
that emitted the request's first token (the whole prompt, or the last chunk of a long one). Token
texts are raw bytes written as latin-1 strings (one character per byte), because a token need not be
valid UTF-8 on its own.
"""

from __future__ import annotations

from typing import Literal

import msgspec

SCHEMA_VERSION = "1.3"

PLAIN = "none"
"""The method of a lane that drafts nothing."""

UNKNOWN = "unknown"
"""The method of a lane whose server drafts and does not say how."""

Last = Literal["recovered", "bonus", "plain"]
Origin = Literal["live", "recorded"]


class Message(msgspec.Struct, frozen=True):
    """One turn of the chat that was sent."""

    role: Literal["system", "user", "assistant"]
    content: str


class Sampling(msgspec.Struct, frozen=True):
    """The sampling settings of one request; ``max_tokens`` limits the answer's tokens."""

    temperature: float = 0.0
    max_tokens: int = 256
    seed: int | None = None
    top_p: float = 1.0


class ModelPrint(msgspec.Struct, frozen=True, omit_defaults=True):
    """What identifies one model: its name, its content, and how it was loaded."""

    name: str
    content_hash: str | None = None
    dtype: str | None = None
    quantization: str | None = None
    vocab_size: int | None = None
    num_layers: int | None = None
    layer_ids: list[int] | None = None
    attention_backend: str | None = None
    causal: bool | None = None


class Fingerprint(msgspec.Struct, frozen=True, omit_defaults=True):
    """Everything about the engine that can change a figure; ``repairs`` names what the hooks mended
    in it (see ``dflash_viz.hooks.repair``). ``prompt_lookup_min`` and ``prompt_lookup_max``: how many
    tokens before the block n-gram looks up."""

    method: str
    target: ModelPrint
    drafter: ModelPrint | None = None
    num_speculative_tokens: int = 0
    trained_block_size: int | None = None
    draft_sample_method: str | None = None
    prompt_lookup_min: int | None = None
    prompt_lookup_max: int | None = None
    model_runner: str | None = None
    eager: bool | None = None
    graph_mode: str | None = None
    async_scheduling: bool | None = None
    prefix_caching: bool | None = None
    chat_template_hash: str | None = None
    device: str | None = None
    repairs: list[str] = []
    versions: dict[str, str] = {}


class Header(msgspec.Struct, frozen=True, omit_defaults=True, tag="header", tag_field="type"):
    """The first line of a trace: what was asked, of which engine.

    ``contended_with`` names the lanes that ran on the same device at the same time: the times of
    such a trace are not comparable with those of a lane that had the device to itself.
    ``counts_only`` says in a sentence why the steps could not be recorded; such a trace has none, and
    its end says what the server counted (``Window``).
    """

    schema: str
    trace_id: str
    recorded_at: str
    lane: str
    messages: list[Message]
    prompt_token_ids: list[int]
    sampling: Sampling
    fingerprint: Fingerprint
    origin: Origin = "live"
    contended_with: list[str] = []
    tokens: dict[int, str] = {}
    counts_only: str = ""

    @property
    def question(self) -> str:
        """What was asked last; empty if nobody asked anything."""
        return next((turn.content for turn in reversed(self.messages) if turn.role == "user"), "")


class TokenProb(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A token id with its probability."""

    id: int
    p: float


class Draw(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What decided about one drafted token above temperature 0: accepted when u <= min(1, p / q).

    ``p`` is the target's probability of it after temperature and top-p, ``q`` the probability with
    which it was drafted (1 where the drafter proposes its best token without a draw), ``u`` the
    uniform number drawn.
    """

    p: float
    q: float
    u: float


class Position(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """What drafter and target believed at one drafted position (temperature 1, before top-p).

    ``drafter`` and ``target`` are the k most probable tokens, best first; ``p_drafter_drafted`` and
    ``p_target_drafted`` their probabilities of the drafted token. The last position of a block has
    no drafter list: there the target alone spoke. ``draw`` is there where a draw decided.
    """

    target: list[TokenProb] = []
    drafter: list[TokenProb] = []
    p_target_drafted: float | None = None
    p_drafter_drafted: float | None = None
    draw: Draw | None = None


class Step(msgspec.Struct, frozen=True, omit_defaults=True, tag="step", tag_field="type", gc=False):
    """One engine step of one request: the block that was drafted, and what came of it.

    ``emitted`` is the accepted prefix and the target's own token, cut where a stop condition fell
    inside; ``last`` says what the final emitted token is, None when it was cut off. ``prefill``
    marks the engine step that read the prompt and emitted the first token: no step in the sense
    of the figures. ``draft_s`` and ``verify_s`` are durations; ``offset`` counts the answer's
    tokens before this step; ``batch_size`` the requests that shared the engine step. ``padded``:
    no drafter ran, the block holds zeros that vLLM verifies near the end of the context.
    """

    index: int
    start: float
    end: float
    verify_s: float
    emitted: list[int]
    draft_s: float = 0.0
    drafted: list[int] = []
    num_accepted: int = 0
    last: Last | None = None
    prefill: bool = False
    offset: int = 0
    batch_size: int = 1
    padded: bool = False
    positions: list[Position] = []
    tokens: dict[int, str] = {}

    @property
    def num_drafted(self) -> int:
        """K of this step: how many tokens were drafted."""
        return len(self.drafted)


class Check(msgspec.Struct, frozen=True):
    """Whether a trace agrees with what vLLM itself counted for the request.

    ``agrees`` is None when vLLM gave nothing to compare with.
    """

    agrees: bool | None
    message: str


class Window(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is known of an answer whose steps were not recorded.

    Times are on the clock of the app that asked, network included: ``first_token_s`` from sending the
    request to its first tokens, ``decode_s`` from there to the last, in which ``decode_tokens`` came.
    The counts are the server's ``/metrics`` after the answer less those before: of all its requests,
    of which up to ``num_others`` others ran meanwhile. They are None where the server keeps none.
    ``accepted_per_position[i]`` counts the drafts whose token i (from 0) was accepted.
    """

    first_token_s: float = 0.0
    decode_s: float = 0.0
    decode_tokens: int = 0
    num_others: int = 0
    output_tokens: int | None = None
    num_drafts: int | None = None
    num_draft_tokens: int | None = None
    num_accepted: int | None = None
    accepted_per_position: list[int] = []


class End(msgspec.Struct, frozen=True, omit_defaults=True, tag="end", tag_field="type"):
    """The last line of a trace: why the answer ended, its text, and the check against vLLM.

    ``window`` is there where the steps could not be recorded.
    """

    finish_reason: str
    text: str
    num_output_tokens: int
    check: Check
    engine_accepted: list[int] = []
    engine_drafted: list[int] = []
    num_cached_prompt_tokens: int | None = None
    error: str | None = None
    window: Window | None = None


Line = Header | Step | End


class Trace(msgspec.Struct):
    """A whole trace in memory. ``end`` is None while the request runs, or when its file was cut."""

    header: Header
    steps: list[Step] = []
    end: End | None = None
    notices: list[str] = []

    @property
    def decode_steps(self) -> list[Step]:
        """The steps after prefill: what every figure is about."""
        return [step for step in self.steps if not step.prefill]

    @property
    def output_token_ids(self) -> list[int]:
        """The answer's token ids, in order."""
        return [token for step in self.steps for token in step.emitted]

    @property
    def token_bytes(self) -> dict[int, bytes]:
        """The bytes of every token id the trace mentions."""
        known = dict(self.header.tokens)
        for step in self.steps:
            known.update(step.tokens)
        return {token: text.encode("latin-1") for token, text in known.items()}

    def add(self, line: Step | End) -> None:
        """Take in the next line after the header, as it was recorded."""
        if isinstance(line, Step):
            self.steps.append(line)
        else:
            self.end = line

    def lines(self) -> list[Line]:
        """The trace as its file's lines."""
        return [self.header, *self.steps, *([self.end] if self.end else [])]

    def _repr_html_(self) -> str:
        """What a notebook shows: every step's block."""
        from dflash_viz.trace.notebook import trace_html

        return trace_html(self)
