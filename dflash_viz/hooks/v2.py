"""Adapter for vLLM's V2 model runner (``v1/worker/gpu/model_runner.py``; read in 0.26.0, 0.32.0 and
0.33.0).

One engine step is ``execute_model`` (the target's pass, often one CUDA graph) and ``sample_tokens``,
which samples, starts the copy of the sampled ids to the host (``AsyncOutput``) and has the speculator
draft the blocks of the NEXT step; a record joins the previous proposal with this verification.

- ``sample`` has the batch and the outcome, with and without drafts. The drafted ids are the tokens
  that the target's pass has just read; the scheduler knows only placeholders.
- The target's logits are seen by stand-ins of the two samplers, which change them in place.
- The drafter's logits are there only with ``draft_sample_method: probabilistic``, in a buffer indexed
  by request state, filled inside the drafter's graph.
- The sampled ids and their numbers are read from the engine's own copy; beyond a request's number
  there is rubbish.

The uniform numbers live in a Triton kernel's registers and cannot be had: there are no ``draws``.
With adaptive verification (0.32 on) only the device knows which rows are whose: no probabilities.
"""

from __future__ import annotations

import functools
import inspect
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

from dflash_viz.hooks.adapter import (
    Adapter,
    Emit,
    HookUnsupportedError,
    Outcome,
    Step,
    asked_top_k,
    real,
    require,
    require_one_stage,
)
from dflash_viz.hooks.tops import Pinned, Positions, Span, Tops, to_device, to_host

# What is read of ``InputBatch`` (``v1/worker/gpu/input_batch.py``) and set by ``AsyncOutput``'s
# constructor (``v1/worker/gpu/async_utils.py``).
BATCH_FIELDS = {
    "req_ids", "num_reqs", "idx_mapping", "num_tokens", "num_draft_tokens", "input_ids",
    "query_start_loc_np", "logits_indices", "cu_num_logits", "cu_num_logits_np",
}  # fmt: skip
OUTPUT_FIELDS = {"sampled_token_ids", "num_sampled_tokens_np", "copy_event"}


class V2Adapter(Adapter):
    """Wraps methods of one runner instance and of its speculator, and stands in for its samplers."""

    runner_version = "V2"
    deferred = True

    def __init__(self, runner: Any, emit: Emit) -> None:
        super().__init__(runner, emit)
        # Requests that ask for probabilities, and how many.
        self._asked: dict[str, int] = {}
        self._pinned = Pinned(torch.int32)
        self._pending: tuple[Step, _Blocks] | None = None
        # Of the running verification, and of the blocks that the next one verifies.
        self._target: Tops | None = None
        self._drafter: Tops | None = None

    @staticmethod
    def check(runner: Any) -> None:
        """Raise ``HookUnsupportedError`` unless the runner has what we wrap and read, as we know it."""
        require_one_stage(runner)
        require(runner, "sample", ["hidden_states", "input_batch", "grammar_output"])
        require(runner, "sample_tokens", ["grammar_output"])
        first = ["scheduler_output", "intermediate_tensors", "dummy_run"]
        require(runner, "execute_model", first, exact=False)
        require(runner.sampler, "__call__", ["logits", "input_batch"])
        if runner.speculator is not None:
            require(runner.speculator, "propose", ["input_batch"], exact=False)
            first = ["logits", "input_batch", "draft_logits"]
            require(runner.rejection_sampler, "__call__", first, exact=False)
        _require_fields(runner)

    def install(self) -> None:
        """Put the wrappers on."""
        self._wrap(self.runner, "execute_model", self._around_execute)
        self._wrap(self.runner, "sample", self._around_sample)
        self._wrap(self.runner, "sample_tokens", self._around_tokens)
        self._stand_in("sampler")
        if self.runner.speculator is not None:
            self._stand_in("rejection_sampler")
            self._wrap(self.runner.speculator, "propose", self._around_propose)

    def _stand_in(self, name: str) -> None:
        inner = getattr(self.runner, name)
        self._replace(self.runner, name, StandIn(inner, self._around_sampler))

    def _around_execute(self, original: Any, scheduler_output: Any, *args: Any, **kw: Any) -> Any:
        if not kw.get("dummy_run", any(args[1:2])):
            self._guarded(self._begin, scheduler_output)
        return original(scheduler_output, *args, **kw)

    def _begin(self, scheduler_output: Any) -> None:
        self._began = self.clock.host()
        for request_id in scheduler_output.finished_req_ids:
            self._asked.pop(request_id, None)
        self._finished |= scheduler_output.finished_req_ids
        for new in scheduler_output.scheduled_new_reqs:  # a resumed request comes again
            if k := asked_top_k(new.sampling_params):
                self._asked[new.req_id] = k

    def _around_sampler(self, original: Any, logits: Any, input_batch: Any, *args: Any, **kw: Any) -> Any:
        if self._asked:
            self._target = self._guarded(self._target_tops, logits, input_batch)
        return original(logits, input_batch, *args, **kw)

    def _around_sample(self, original: Any, hidden_states: Any, input_batch: Any, grammar_output: Any) -> Any:
        self._target = None
        result = original(hidden_states, input_batch, grammar_output)
        self._pending = self._guarded(self._note, input_batch)
        # A proposal belongs to one verification.
        self._draft = self._drafter = None
        return result

    def _around_tokens(self, original: Any, *args: Any, **kw: Any) -> Any:
        self._pending = None
        output = original(*args, **kw)
        if self._pending is not None:
            step, blocks = self._pending
            step.read = functools.partial(self._read, output, blocks)
            self._on_output(output, step)
        return output

    def _around_propose(self, original: Any, input_batch: Any, *args: Any, **kw: Any) -> Any:
        if kw.get("dummy_run"):
            return original(input_batch, *args, **kw)
        began = self.clock.host()
        drafted = original(input_batch, *args, **kw)
        self._draft = (began, self.clock.mark())
        if self._asked:
            self._drafter = self._guarded(self._drafter_tops, input_batch, drafted)
        return drafted

    def _note(self, batch: Any) -> tuple[Step, _Blocks]:
        """Everything of this verification that a record needs; what is on the device follows."""
        drafting = batch.num_draft_tokens > 0
        blocks = self._blocks(batch) if drafting else _Blocks(batch.req_ids)
        finished, self._finished = self._finished, set()
        step = Step(
            read=_nothing,
            began=self._began,
            end=self.clock.mark(),
            draft=self._draft,
            drafted=drafting,
            batch_size=batch.num_reqs,
            finished=finished,
            target=self._target,
            drafter=self._drafter,
        )
        return step, blocks

    def _blocks(self, batch: Any) -> _Blocks:
        """The blocks of a batch that verifies any. The input buffer is overwritten by the next step, so
        it is copied now: whole, as to choose from it would cost as much again."""
        if self._adaptive:
            read = batch.input_ids.index_select(0, batch.logits_indices)
            bounds = to_host(batch.cu_num_logits)
            return _Blocks(batch.req_ids, self._pinned.copy(read), bounds[1:], bounds)
        read = self._pinned.copy(batch.input_ids[: batch.num_tokens])
        ends = batch.query_start_loc_np[1 : batch.num_reqs + 1]
        return _Blocks(batch.req_ids, read, ends, batch.cu_num_logits_np)

    @property
    def _adaptive(self) -> bool:
        return getattr(self.runner, "adaptive_verification", None) is not None

    def _target_tops(self, logits: torch.Tensor, batch: Any) -> Tops | None:
        """The target's top-k at the positions of the requests of this batch that asked."""
        rows: list[int] = []
        spans: dict[str, Span] = {}
        bounds = batch.cu_num_logits_np.tolist()
        for i, request_id in enumerate(batch.req_ids):
            if k := self._asked.get(request_id):
                spans[request_id] = Span(len(rows), k)
                rows += range(bounds[i], bounds[i + 1])
        if not rows or self._adaptive:
            return None
        # The token drafted at a row is the one that the next row has read.
        index = to_device(rows, logits.device) if len(rows) < len(logits) else None
        at = Positions(logits, len(rows), batch.input_ids, index=index, reads=batch.logits_indices)
        return self.tops.find(at, spans)

    def _drafter_tops(self, batch: Any, drafted: torch.Tensor) -> Tops | None:
        """The drafter's top-k at the positions of the blocks just drafted, [requests, K]."""
        speculator = self.runner.speculator
        logits = getattr(speculator, "draft_logits", None)
        rows = [i for i, request_id in enumerate(batch.req_ids) if request_id in self._asked]
        if logits is None or not rows:
            return None
        states = batch.idx_mapping[: batch.num_reqs]
        if len(rows) < batch.num_reqs:
            chosen = to_device(rows, states.device)
            states, drafted = states.index_select(0, chosen), drafted.index_select(0, chosen)
        k = drafted.shape[1]
        # 0.26 keeps the logits after division by the temperature, later versions before.
        scale = None if hasattr(speculator, "draft_logits_spec") else speculator.temperature
        spans = {batch.req_ids[r]: Span(i * k, self._asked[batch.req_ids[r]]) for i, r in enumerate(rows)}
        at = Positions(logits, len(rows) * k, drafted, per=k, index=states, scale=scale)
        return self.tops.find(at, spans)

    def _read(self, output: Any, blocks: _Blocks) -> Iterator[Outcome]:
        """The outcomes, from the engine's own copy; a chunk of a long prompt has emitted nothing."""
        sampled, counts = output.sampled_token_ids.tolist(), output.num_sampled_tokens_np.tolist()
        drafted = blocks.lists()
        if blocks.read is not None:
            self._pinned.give(blocks.read)
        for request_id, ids, count, block in zip(blocks.request_ids, sampled, counts, drafted, strict=True):
            if count > 0:
                yield request_id, ids[:count], block


class StandIn:
    """Passes for a sampler: calls go through ``around``, everything else to the sampler itself."""

    def __init__(self, inner: Any, around: Callable[..., Any]) -> None:
        self.__dict__.update(_inner=inner, _around=around)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._around(self._inner, *args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._inner, name, value)

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        """The runner asks its sampler for its kind (``isinstance``)."""
        return type(self._inner)


@dataclass
class _Blocks:
    """What the target's pass has read, on the host when it has arrived there (a buffer with more room;
    None without drafts): for each request, before ``ends``, as many tokens as it has rows of logits,
    its last token and then what was drafted for it; ``bounds`` counts these rows."""

    request_ids: list[str]
    read: torch.Tensor | None = None
    ends: Any = None
    bounds: Any = None

    def lists(self) -> list[list[int]]:
        """The block of every request."""
        if self.read is None:
            return [[] for _ in self.request_ids]
        ends, bounds = self.ends.tolist(), self.bounds.tolist()
        tokens = self.read.numpy()[: ends[-1]].tolist()
        rows = [last - first for first, last in itertools.pairwise(bounds)]
        return [real(tokens[end - n + 1 : end]) for end, n in zip(ends, rows, strict=False)]


def _nothing() -> Iterator[Outcome]:
    return iter(())


def _require_fields(runner: Any) -> None:
    """Look up the classes that the runner's own module uses for its batches and its output."""
    module = inspect.unwrap(type(runner).sample).__globals__
    batch, output = module.get("InputBatch"), module.get("AsyncOutput")
    fields = set(getattr(batch, "__dataclass_fields__", ()))
    if missing := sorted(BATCH_FIELDS - fields):
        raise HookUnsupportedError(f"The V2 runner's InputBatch has no {', '.join(missing)}")
    constructor = getattr(getattr(output, "__init__", None), "__code__", None)
    if missing := sorted(OUTPUT_FIELDS - set(getattr(constructor, "co_names", ()))):
        raise HookUnsupportedError(f"The V2 runner's AsyncOutput sets no {', '.join(missing)}")
