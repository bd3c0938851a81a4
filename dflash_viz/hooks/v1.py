"""Adapter for vLLM's V1 model runner (``v1/worker/gpu_model_runner.py``; the CPU build's runner
inherits it; read in 0.26.0, 0.32.0 and 0.33.0).

``_sample`` is the one place that sees request ids, drafted ids, the target's logits and the
rejection sampler's result together. The proposer runs right after it and drafts the blocks that
the NEXT engine step verifies, so a record joins the previous proposal with this verification.
On the CPU a record is made in ``_sample`` itself; on CUDA when the output is taken (see ``adapter``).
"""

from __future__ import annotations

import functools
import inspect
import itertools
from collections.abc import Iterator
from typing import Any

import torch
from vllm.v1.sample import rejection_sampler

from dflash_viz.hooks.adapter import (
    Adapter,
    Draws,
    Emit,
    Outcome,
    Step,
    asked_top_k,
    real,
    require,
    require_one_stage,
)
from dflash_viz.hooks.tops import Positions, Span, Tops, to_device, to_host


class V1Adapter(Adapter):
    """Wraps methods of one runner instance, its drafter's ``compute_logits`` and the functions that
    draw in vLLM's rejection sampler."""

    runner_version = "V1"

    def __init__(self, runner: Any, emit: Emit) -> None:
        super().__init__(runner, emit)
        # Whether results are still on their way when ``_sample`` returns.
        self._deferred = runner.device.type == "cuda"
        self._pending: Step | None = None
        # One tensor per call of the drafter's head: one for a whole block drafted in parallel
        # [requests * K, vocabulary], or K of them [requests, vocabulary] for a chain.
        self._draft_logits: list[torch.Tensor] = []
        self._draft_rows: dict[str, int] = {}
        # Of the running verification, [drafted tokens of the batch] each: p and q of every drafted
        # token, and the uniform numbers they are held against.
        self._odds: tuple[torch.Tensor, torch.Tensor] | None = None
        self._uniform: torch.Tensor | None = None

    @staticmethod
    def check(runner: Any) -> None:
        """Raise ``HookUnsupportedError`` unless the runner has the methods we wrap, as we know them."""
        require_one_stage(runner)
        require(runner, "_sample", ["logits", "spec_decode_metadata"])
        require(runner, "execute_model", ["scheduler_output", "intermediate_tensors"])
        require(runner, "sample_tokens", ["grammar_output"])

    def install(self) -> None:
        """Put the wrappers on."""
        self._wrap(self.runner, "execute_model", self._around_execute)
        self._wrap(self.runner, "_sample", self._around_sample)
        if self._deferred:
            self._wrap(self.runner, "sample_tokens", self._around_tokens)
        if hasattr(self.runner, "drafter"):
            self._wrap(self.runner, "propose_draft_token_ids", self._around_propose)
            model = getattr(self.runner.drafter, "model", None)
            if hasattr(model, "compute_logits"):
                self._wrap(model, "compute_logits", self._around_draft_logits)
        if all(hasattr(rejection_sampler, name) for name in ("rejection_sample", "generate_uniform_probs")):
            self._wrap(rejection_sampler, "rejection_sample", self._around_rejection)
            self._wrap(rejection_sampler, "generate_uniform_probs", self._around_uniform)

    def _around_execute(self, original: Any, scheduler_output: Any, *args: Any, **kw: Any) -> Any:
        self._began = self.clock.host()
        self._finished |= scheduler_output.finished_req_ids
        return original(scheduler_output, *args, **kw)

    def _around_sample(self, original: Any, logits: Any, spec_decode_metadata: Any) -> Any:
        # The sampler may divide the logits by the temperature in place, so top-k is read before.
        tops = self._guarded(self._tops, logits, spec_decode_metadata) or (None, None)
        self._odds = self._uniform = None
        output = original(logits, spec_decode_metadata)
        step = self._guarded(self._note, output.sampled_token_ids, spec_decode_metadata, tops)
        # A proposal belongs to one verification. Where none follows (near the end of the context
        # vLLM skips the proposer and verifies zeros), nothing of the last one must be reported.
        self._draft = None
        self._draft_logits = []
        if self._deferred:
            self._pending = step
        elif step is not None:
            self._tell(step)
        return output

    def _around_tokens(self, original: Any, *args: Any, **kw: Any) -> Any:
        output = original(*args, **kw)
        step, self._pending = self._pending, None
        if step is not None:
            self._on_output(output, step)
        return output

    def _around_propose(self, original: Any, *args: Any, **kw: Any) -> Any:
        began = self.clock.host()
        result = original(*args, **kw)
        self._draft = (began, self.clock.mark())
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
        other_rule = given.get("synthetic_mode") or given.get("fly_window_size")
        if given["sampling_metadata"].all_greedy or other_rule:
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

    def _top_k(self, request_id: str) -> int:
        return asked_top_k(self.runner.requests[request_id].sampling_params)

    def _note(self, sampled: torch.Tensor, metadata: Any, tops: tuple[Tops | None, Tops | None]) -> Step:
        """Everything of this verification that a record needs; what is on the device follows."""
        batch = self.runner.input_batch
        counts = _counts(metadata, batch.num_reqs)
        read = functools.partial(
            _read,
            list(batch.req_ids),
            to_host(sampled),
            to_host(metadata.draft_token_ids) if metadata is not None else None,
            counts,
            self.runner.discard_request_mask.np[: batch.num_reqs].tolist(),
            batch.vocab_size,
        )
        target, drafter = tops
        draws = self._draws(counts) if target is not None else None
        finished, self._finished = self._finished, set()
        return Step(
            read=read,
            began=self._began,
            end=self.clock.mark(),
            draft=self._draft,
            drafted=any(counts),
            batch_size=batch.num_reqs,
            finished=finished,
            target=target,
            drafter=drafter,
            draws=draws,
        )

    def _draws(self, counts: list[int]) -> Draws | None:
        """What decided about the drafted tokens of the batch; None where nothing did."""
        if self._odds is None or self._uniform is None:
            return None
        firsts = itertools.accumulate(counts, initial=0)
        first = {
            r: f for r, f in zip(self.runner.input_batch.req_ids, firsts, strict=False) if self._is_drawn(r)
        }
        p, q = self._odds
        return Draws((to_host(p), to_host(q), to_host(self._uniform)), first)

    def _is_drawn(self, request_id: str) -> bool:
        """Whether a request's tokens are drawn; in a mixed batch the others are not."""
        return bool(self.runner.requests[request_id].sampling_params.temperature > 0)

    def _tops(self, logits: torch.Tensor, metadata: Any) -> tuple[Tops | None, Tops | None]:
        """The target's and the drafter's top-k at the positions of the requests that asked."""
        batch = self.runner.input_batch
        wanted = {r: asked for r in batch.req_ids if (asked := self._top_k(r))}
        if not wanted:
            return None, None
        counts = _counts(metadata, batch.num_reqs)
        # One more, for the positions where nothing was drafted.
        none = logits.new_zeros(1, dtype=torch.int32)
        flat = none if metadata is None else torch.cat((metadata.draft_token_ids, none))
        rows: list[int] = []
        tokens: list[int] = []
        spans: dict[str, Span] = {}
        row = token = 0
        for request_id, count in zip(batch.req_ids, counts, strict=True):
            if k := wanted.get(request_id):
                # Rows of one request lie together: its drafted positions, then the bonus position.
                spans[request_id] = Span(len(rows), k)
                rows += range(row, row + count + 1)
                tokens += [*range(token, token + count), len(flat) - 1]
            row += count + 1
            token += count
        index = to_device(rows, logits.device) if len(rows) < len(logits) else None
        at = Positions(logits, len(rows), flat[to_device(tokens, flat.device)], index=index)
        return self.tops.find(at, spans), self._drafter_tops(flat, counts, wanted)

    def _drafter_tops(self, flat: torch.Tensor, counts: list[int], wanted: dict[str, int]) -> Tops | None:
        if not self._draft_logits:
            return None
        calls, requests = torch.stack(self._draft_logits), len(self._draft_rows)
        # [calls, rows, vocabulary] -> [requests, K, vocabulary]; one of calls and K / requests is 1.
        blocks = calls.view(len(calls), requests, -1, calls.shape[-1]).transpose(0, 1).flatten(1, 2)
        rows: list[int] = []
        tokens: list[int] = []
        spans: dict[str, Span] = {}
        firsts = itertools.accumulate(counts, initial=0)
        for request_id, count, first in zip(self.runner.input_batch.req_ids, counts, firsts, strict=False):
            at, k = self._draft_rows.get(request_id), wanted.get(request_id)
            if count and k and at is not None:
                spans[request_id] = Span(len(rows), k)
                rows += range(at * blocks.shape[1], at * blocks.shape[1] + count)
                tokens += range(first, first + count)
        if not spans:
            return None
        index = to_device(rows, flat.device)
        drafted = flat[to_device(tokens, flat.device)]
        return self.tops.find(Positions(blocks.flatten(0, 1), len(rows), drafted, index=index), spans)


def _counts(metadata: Any, num_reqs: int) -> list[int]:
    """How many tokens were drafted for each request of the batch, placeholders included."""
    return list(metadata.num_draft_tokens) if metadata is not None else [0] * num_reqs


def _read(
    request_ids: list[str],
    sampled: torch.Tensor,
    flat: torch.Tensor | None,
    counts: list[int],
    discarded: list[bool],
    vocab_size: int,
) -> Iterator[Outcome]:
    """The outcomes, from what has arrived on the host; ``flat`` holds the blocks one after another."""
    drafted, first = flat.tolist() if flat is not None else [], 0
    for request_id, ids, count, discard in zip(request_ids, sampled.tolist(), counts, discarded, strict=True):
        block = drafted[first : first + count]
        first += count
        if not discard:  # a chunk of a long prompt: nothing was emitted
            yield request_id, [t for t in ids if 0 <= t < vocab_size], real(block)
