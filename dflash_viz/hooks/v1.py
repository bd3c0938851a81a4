"""Adapter for vLLM's V1 model runner (``v1/worker/gpu_model_runner.py``; the CPU build's runner
inherits it; read in 0.32.0).

``_sample`` is the one place that sees request ids, drafted ids, the target's logits and the
rejection sampler's result together. The proposer runs right after it and drafts the blocks that
the NEXT engine step verifies, so a record joins the previous proposal with this verification.
The hooks only read, and a failing hook never stops the engine.
"""

from __future__ import annotations

import inspect
import itertools
import time
from collections.abc import Callable
from typing import Any

import torch
from vllm.v1.sample import rejection_sampler

from dflash_viz.hooks.wire import TOP_K_ARG, Draw, EngineStep, Fault, Record, Row, TopK

MAX_TOP_K = 20

Emit = Callable[[Record], None]
_ABSENT = object()


class HookUnsupportedError(RuntimeError):
    """This model runner does not look like the one the hooks were written for."""


class V1Adapter:
    """Wraps methods of one runner instance, its drafter's ``compute_logits`` and the functions that
    draw in vLLM's rejection sampler; ``remove`` takes every wrapper off again."""

    runner_version = "V1"

    def __init__(self, runner: Any, emit: Emit) -> None:
        self.runner = runner
        self._emit = emit
        self._seq = 0
        self._indices: dict[str, int] = {}
        self._verify_start = 0.0
        self._draft = (0.0, 0.0)
        # One tensor per call of the drafter's head: one for a whole block drafted in parallel
        # [requests * K, vocabulary], or K of them [requests, vocabulary] for a chain.
        self._draft_logits: list[torch.Tensor] = []
        self._draft_rows: dict[str, int] = {}
        # Of the running verification, [drafted tokens of the batch] each: p and q of every drafted
        # token, and the uniform numbers they are held against.
        self._odds: tuple[torch.Tensor, torch.Tensor] | None = None
        self._uniform: torch.Tensor | None = None
        self._wrapped: list[tuple[Any, str, Any]] = []

    @staticmethod
    def check(runner: Any) -> None:
        """Raise ``HookUnsupportedError`` unless the runner has the methods we wrap, as we know them."""
        expected = {
            "_sample": ["logits", "spec_decode_metadata"],
            "execute_model": ["scheduler_output", "intermediate_tensors"],
        }
        if runner.parallel_config.pipeline_parallel_size > 1:
            raise HookUnsupportedError("With pipeline parallelism the first stage samples nothing.")
        for name, parameters in expected.items():
            method = getattr(runner, name, None)
            if method is None or list(inspect.signature(method).parameters) != parameters:
                raise HookUnsupportedError(
                    f"{type(runner).__module__}.{type(runner).__name__}.{name} is not the one of "
                    "the V1 model runner; steps cannot be recorded, counts still can."
                )

    def install(self) -> None:
        """Put the wrappers on."""
        self.check(self.runner)
        self._wrap(self.runner, "execute_model", self._around_execute)
        self._wrap(self.runner, "_sample", self._around_sample)
        if hasattr(self.runner, "drafter"):
            self._wrap(self.runner, "propose_draft_token_ids", self._around_propose)
            model = getattr(self.runner.drafter, "model", None)
            if hasattr(model, "compute_logits"):
                self._wrap(model, "compute_logits", self._around_draft_logits)
        if all(hasattr(rejection_sampler, name) for name in ("rejection_sample", "generate_uniform_probs")):
            self._wrap(rejection_sampler, "rejection_sample", self._around_rejection)
            self._wrap(rejection_sampler, "generate_uniform_probs", self._around_uniform)

    def remove(self) -> None:
        """Take the wrappers off: what stood there before stands there again, or the class's method."""
        while self._wrapped:
            owner, name, before = self._wrapped.pop()
            if before is _ABSENT:
                owner.__dict__.pop(name, None)
            else:
                owner.__dict__[name] = before

    def _wrap(self, owner: Any, name: str, around: Callable[..., Any]) -> None:
        original = getattr(owner, name)
        # Through __dict__: torch modules refuse nothing there, and removal is one pop.
        self._wrapped.append((owner, name, owner.__dict__.get(name, _ABSENT)))
        owner.__dict__[name] = lambda *args, **kwargs: around(original, *args, **kwargs)

    def _around_execute(self, original: Any, scheduler_output: Any, *args: Any, **kw: Any) -> Any:
        self._verify_start = time.monotonic()
        for request_id in scheduler_output.finished_req_ids:
            self._indices.pop(request_id, None)
        return original(scheduler_output, *args, **kw)

    def _around_sample(self, original: Any, logits: Any, spec_decode_metadata: Any) -> Any:
        # The sampler may divide the logits by the temperature in place, so top-k is read before.
        tops = self._guarded(self._target_tops, logits, spec_decode_metadata) or {}
        self._odds = self._uniform = None
        output = original(logits, spec_decode_metadata)
        self._guarded(self._record, output.sampled_token_ids, spec_decode_metadata, tops)
        # A proposal belongs to one verification. Where none follows (near the end of the context
        # vLLM skips the proposer and verifies zeros), nothing of the last one must be reported.
        self._draft = (0.0, 0.0)
        self._draft_logits = []
        return output

    def _around_propose(self, original: Any, *args: Any, **kw: Any) -> Any:
        start = time.monotonic()
        result = original(*args, **kw)
        self._draft = (start, time.monotonic())
        self._draft_rows = {r: i for i, r in enumerate(self.runner.input_batch.req_ids)}
        return result

    def _around_draft_logits(self, original: Any, *args: Any, **kw: Any) -> Any:
        logits = original(*args, **kw)
        if self._guarded(self._anyone_asks):
            # A copy: a drafter that samples divides its logits by the temperature in place.
            self._draft_logits.append(logits.clone())
        return logits

    def _around_rejection(self, original: Any, *args: Any, **kw: Any) -> Any:
        if self._guarded(self._anyone_asks):
            self._guarded(self._note_odds, original, args, kw)
        return original(*args, **kw)

    def _note_odds(self, original: Any, args: Any, kw: Any) -> None:
        """From the arguments of vLLM's ``rejection_sample``, where p and q decide about any token."""
        given = inspect.signature(original).bind(*args, **kw).arguments
        if given["sampling_metadata"].all_greedy or given.get("synthetic_mode"):
            return
        # -1 marks a padded draft, which is rejected whatever its odds.
        index = given["draft_token_ids"].long().clamp(min=0).unsqueeze(1)
        target_logits, draft_probs = given["target_logits"].float(), given["draft_probs"]
        # No second buffer of [tokens, vocabulary]: logits that top-p has left out are -inf.
        p = (target_logits.gather(1, index).squeeze(1) - target_logits.logsumexp(dim=-1)).exp()
        q = torch.ones_like(p) if draft_probs is None else draft_probs.gather(1, index).squeeze(1)
        self._odds = (p, q)

    def _around_uniform(self, original: Any, *args: Any, **kw: Any) -> Any:
        self._uniform = original(*args, **kw)
        return self._uniform

    def _anyone_asks(self) -> bool:
        return any(self._top_k(request_id) for request_id in self.runner.input_batch.req_ids)

    def _guarded(self, function: Callable[..., Any], *args: Any) -> Any:
        try:
            return function(*args)
        except Exception as error:  # the engine must outlive any fault of ours, and say so
            self._emit(Fault(self._next_seq(), f"{type(error).__name__}: {error}"))
            return None

    def _next_seq(self) -> int:
        self._seq += 1
        return self._seq - 1

    def _record(self, sampled: torch.Tensor, metadata: Any, tops: dict[int, Any]) -> None:
        sampled_ids = sampled.tolist()
        end = time.monotonic()
        batch = self.runner.input_batch
        discarded = self.runner.discard_request_mask.np
        blocks = _split_drafts(metadata, batch.num_reqs)
        draws = self._draws(blocks)
        rows = []
        for i, ids in enumerate(sampled_ids):
            if discarded[i]:  # a chunk of a long prompt: nothing was emitted
                continue
            emitted = [t for t in ids if 0 <= t < batch.vocab_size]
            drafted = _real(blocks[i])
            row = self._row(batch.req_ids[i], drafted, emitted)
            if i in tops:
                row.target_top, row.drafter_top = tops[i]
                row.draws = draws[i][: len(drafted)] if self._is_drawn(row.request_id) else []
            rows.append(row)
        if rows:
            start, stop = self._draft if any(blocks) else (0.0, 0.0)
            self._emit(
                EngineStep(
                    seq=self._next_seq(),
                    verify_start=self._verify_start,
                    verify_end=end,
                    rows=rows,
                    draft_start=start,
                    draft_end=stop,
                    batch_size=batch.num_reqs,
                )
            )

    def _row(self, request_id: str, block: list[int], emitted: list[int]) -> Row:
        index = self._indices.get(request_id, 0)
        self._indices[request_id] = index + 1
        return Row(request_id, index, emitted, block, index == 0)

    def _draws(self, blocks: list[list[int]]) -> list[list[Draw]]:
        """Per request of the batch, what decided about its drafted tokens; empty where nothing did."""
        if self._odds is None or self._uniform is None:
            return [[] for _ in blocks]
        columns = [column.tolist() for column in (*self._odds, self._uniform)]
        flat = [Draw(p, q, u) for p, q, u in zip(*columns, strict=True)]
        ends = list(itertools.accumulate(map(len, blocks)))
        return [flat[end - len(block) : end] for block, end in zip(blocks, ends, strict=True)]

    def _is_drawn(self, request_id: str) -> bool:
        """Whether a request's tokens are drawn; in a mixed batch the others are not."""
        return bool(self.runner.requests[request_id].sampling_params.temperature > 0)

    def _top_k(self, request_id: str) -> int:
        """How many tokens per position a request asks for; any client can send anything here."""
        parameters = self.runner.requests[request_id].sampling_params
        asked = (getattr(parameters, "extra_args", None) or {}).get(TOP_K_ARG, 0)
        return min(max(asked, 0), MAX_TOP_K) if isinstance(asked, int) else 0

    def _target_tops(self, logits: torch.Tensor, metadata: Any) -> dict[int, tuple[TopK, TopK | None]]:
        """Per batch row that asked: the target's and the drafter's top-k at each block position."""
        batch = self.runner.input_batch
        wanted = [self._top_k(request_id) for request_id in batch.req_ids]
        tops: dict[int, tuple[TopK, TopK | None]] = {}
        if not any(wanted):
            return tops
        first = 0
        for i, block in enumerate(_split_drafts(metadata, batch.num_reqs)):
            if k := wanted[i]:
                # Rows of one request lie together: its drafted positions, then the bonus position.
                drafted = _real(block)
                target = _top(logits[first : first + len(drafted) + 1], k, drafted)
                tops[i] = (target, self._drafter_top(batch.req_ids[i], drafted, k))
            first += len(block) + 1
        return tops

    def _drafter_top(self, request_id: str, drafted: list[int], k: int) -> TopK | None:
        row = self._draft_rows.get(request_id)
        if not self._draft_logits or row is None or not drafted:
            return None
        calls, requests = torch.stack(self._draft_logits), len(self._draft_rows)
        # [calls, rows, vocabulary] -> [requests, K, vocabulary]; one of calls and K / requests is 1.
        blocks = calls.view(len(calls), requests, -1, calls.shape[-1]).transpose(0, 1).flatten(1, 2)
        return _top(blocks[row, : len(drafted)], k, drafted)


def _split_drafts(metadata: Any, num_reqs: int) -> list[list[int]]:
    """The drafted ids of each request of the batch, from vLLM's flat ``SpecDecodeMetadata``."""
    if metadata is None:
        return [[] for _ in range(num_reqs)]
    flat, blocks, first = metadata.draft_token_ids.tolist(), [], 0
    for count in metadata.num_draft_tokens:
        blocks.append(flat[first : first + count])
        first += count
    return blocks


def _real(block: list[int]) -> list[int]:
    """A block without the -1 that vLLM fills short ones up with."""
    return [token for token in block if token >= 0]


def _top(logits: torch.Tensor, k: int, drafted: list[int]) -> TopK:
    """Top-k of softmax(logits), logits [positions, vocabulary]; temperature 1, before top-p."""
    probabilities = torch.softmax(logits.float(), dim=-1)
    values, ids = probabilities.topk(k, dim=-1)
    index = torch.tensor(drafted, dtype=torch.long, device=logits.device).unsqueeze(1)
    own = probabilities[: len(drafted)].gather(1, index).squeeze(1)
    return TopK(ids.tolist(), values.tolist(), own.tolist())
