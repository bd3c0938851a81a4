"""Small stand-ins of vLLM's model runners, shaped like the real classes.

- ``Runner2`` and its parts: ``v1/worker/gpu/model_runner.py`` (``execute_model``, ``sample``,
  ``sample_tokens``), ``input_batch.py`` (``InputBatch``), ``async_utils.py`` (``AsyncOutput``),
  ``sample/sampler.py``, ``spec_decode/rejection_sampler.py`` and ``spec_decode/speculator.py`` of vLLM
  0.26.0; with ``Speculator33`` the speculator keeps its logits as 0.33.0 does.
- ``Runner1``: ``v1/worker/gpu_model_runner.py`` of vLLM 0.26.0, with an asynchronous output or without.

As in the real ones the input buffers are overwritten by the next step, the samplers divide the logits
by the temperature in place, and sampled ids beyond a request's number are rubbish.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

from dflash_viz.hooks.wire import TOP_K_ARG

VOCAB = 16
K = 3
RUBBISH = 7777
STATES = 8


@dataclass
class New:
    """``NewRequestData``."""

    req_id: str
    sampling_params: Any


@dataclass
class Scheduled:
    """``SchedulerOutput``: what a step is to do."""

    scheduled_new_reqs: list[New] = field(default_factory=list)
    finished_req_ids: set[str] = field(default_factory=set)


def parameters(top_k: Any = None, temperature: float = 0.0) -> SimpleNamespace:
    """``SamplingParams`` of a request."""
    extra = None if top_k is None else {TOP_K_ARG: top_k}
    return SimpleNamespace(extra_args=extra, temperature=temperature)


@dataclass
class InputBatch:
    """The fields of vLLM's that exist for every batch."""

    req_ids: list[str]
    num_reqs: int
    idx_mapping: torch.Tensor
    num_tokens: int
    num_draft_tokens: int
    query_start_loc_np: np.ndarray
    input_ids: torch.Tensor
    logits_indices: torch.Tensor
    cu_num_logits: torch.Tensor
    cu_num_logits_np: np.ndarray


@dataclass
class SamplerOutput:
    """What both samplers return."""

    sampled_token_ids: torch.Tensor
    num_sampled: torch.Tensor
    num_rejected: torch.Tensor


class AsyncOutput:
    """Copies the sampled ids; ``get_output`` waits for them."""

    def __init__(self, sampler_output: SamplerOutput, num_sampled_tokens: torch.Tensor) -> None:
        self.copy_event = object()
        self.sampled_token_ids = sampler_output.sampled_token_ids.numpy().copy()
        self.num_sampled_tokens_np = num_sampled_tokens.numpy().copy()

    def get_output(self) -> list[list[int]]:
        """The tokens of every request."""
        pairs = zip(self.sampled_token_ids.tolist(), self.num_sampled_tokens_np.tolist(), strict=True)
        return [ids[:n] for ids, n in pairs]


class Sampler:
    """The plain sampler; which requests emit is told by the step's plan."""

    def __init__(self, runner: Runner2) -> None:
        self.runner = runner
        self.compute_nans = False

    def __call__(self, logits: torch.Tensor, input_batch: InputBatch) -> SamplerOutput:
        counts = torch.tensor(self.runner.emitting, dtype=torch.int32)
        best = logits.argmax(-1, keepdim=True)
        logits /= 2.0
        return SamplerOutput(best, counts, torch.zeros_like(counts))


class RejectionSampler:
    """Greedy verification."""

    def __call__(
        self, logits: torch.Tensor, input_batch: InputBatch, draft_logits: torch.Tensor | None = None
    ) -> SamplerOutput:
        tokens = input_batch.input_ids[input_batch.logits_indices]
        best = logits.argmax(-1)
        logits /= 2.0
        sampled = torch.full((input_batch.num_reqs, K + 1), RUBBISH)
        counts = torch.zeros(input_batch.num_reqs, dtype=torch.int32)
        bounds = input_batch.cu_num_logits_np
        for i in range(input_batch.num_reqs):
            first, last = int(bounds[i]), int(bounds[i + 1]) - 1
            row = first
            while row < last and tokens[row + 1] == best[row]:
                row += 1
            counts[i] = row - first + 1
            sampled[i, : row - first + 1] = best[first : row + 1]
        return SamplerOutput(sampled, counts, torch.zeros_like(counts))


class Speculator26:
    """``propose`` gives what the test has planned."""

    def __init__(self, probabilistic: bool) -> None:
        self.draft_logits = torch.zeros(STATES, K, VOCAB) if probabilistic else None
        self.temperature = torch.zeros(STATES)
        self.planned: list[list[int]] = []
        # By request of the batch [K, VOCAB], before the temperature.
        self.logits: torch.Tensor | None = None
        self.dummies = 0

    def propose(self, input_batch: InputBatch, attn_metadata: Any, dummy_run: bool = False) -> torch.Tensor:
        if dummy_run:
            self.dummies += 1
            return torch.zeros(1, K, dtype=torch.long)
        if self.draft_logits is not None and self.logits is not None:
            for i, state in enumerate(input_batch.idx_mapping.tolist()):
                self.draft_logits[state] = self.scaled(self.logits[i], float(self.temperature[state]))
        return torch.tensor(self.planned)

    def scaled(self, logits: torch.Tensor, temperature: float) -> torch.Tensor:
        return logits / temperature if temperature else logits


class Speculator33(Speculator26):
    """Keeps the logits as they are."""

    def draft_logits_spec(self, vllm_config: Any) -> None:
        """0.26 has no such method."""

    def scaled(self, logits: torch.Tensor, temperature: float) -> torch.Tensor:
        return logits


class Runner2:
    """The V2 runner. ``plan`` says what the next step verifies."""

    def __init__(self, speculator: Speculator26 | None) -> None:
        self.device = torch.device("cpu")
        self.parallel_config = SimpleNamespace(pipeline_parallel_size=1, data_parallel_rank=0)
        self.sampler = Sampler(self)
        self.rejection_sampler = RejectionSampler() if speculator is not None else None
        self.speculator = speculator
        self.emitting: list[int] = []
        self.buffer = torch.zeros(64, dtype=torch.int32)
        self.batch: InputBatch | None = None
        self.logits = torch.zeros(0)
        self.states: dict[str, int] = {}

    def plan(
        self, blocks: dict[str, list[int]], logits: torch.Tensor, emitting: list[int] | None = None
    ) -> None:
        """Blocks by request (a token read, then the drafts), the target's logits at their rows."""
        for request_id in blocks:
            self.states.setdefault(request_id, STATES - 1 - len(self.states))
        bounds = np.cumsum([0, *map(len, blocks.values())])
        flat = [token for block in blocks.values() for token in block]
        # A token in front that has no logits, as in a prompt.
        self.buffer.fill_(-5)
        self.buffer[1 : len(flat) + 1] = torch.tensor(flat)
        self.batch = InputBatch(
            list(blocks),
            len(blocks),
            torch.tensor([self.states[r] for r in blocks], dtype=torch.int32),
            len(flat) + 1,
            len(flat) - len(blocks),
            np.concatenate(([0], bounds[1:] + 1)),
            self.buffer,
            torch.arange(1, len(flat) + 1),
            torch.tensor(bounds),
            bounds,
        )
        self.logits = logits.clone()
        self.emitting = emitting or [1] * len(blocks)

    def execute_model(
        self, scheduler_output: Any, intermediate_tensors: Any = None, dummy_run: bool = False
    ) -> None:
        return None

    def sample(self, hidden_states: Any, input_batch: InputBatch, grammar_output: Any) -> Any:
        if input_batch.num_draft_tokens == 0 or self.rejection_sampler is None:
            output = self.sampler(self.logits, input_batch)
        else:
            assert self.speculator is not None
            output = self.rejection_sampler(self.logits, input_batch, self.speculator.draft_logits)
        return output, output.num_sampled, output.num_rejected

    def sample_tokens(self, grammar_output: Any) -> AsyncOutput:
        assert self.batch is not None
        output, counts, _ = self.sample(None, self.batch, grammar_output)
        result = AsyncOutput(output, counts)
        if self.speculator is not None:
            self.speculator.propose(self.batch, None)
        return result


class Output1:
    """``AsyncGPUModelRunnerOutput``."""

    def get_output(self) -> str:
        return "output"


class Runner1:
    """The V1 runner, on a device that is not waited for; what is sampled is planned."""

    def __init__(self, device: str, asynchronous: bool) -> None:
        self.device = SimpleNamespace(type=device)
        self.parallel_config = SimpleNamespace(pipeline_parallel_size=1)
        self.asynchronous = asynchronous
        self.requests: dict[str, Any] = {}
        self.input_batch = SimpleNamespace(req_ids=[], num_reqs=0, vocab_size=VOCAB)
        self.discard_request_mask = SimpleNamespace(np=np.zeros(STATES, dtype=bool))
        self.sampled = torch.zeros(0)
        self.logits = torch.zeros(0)
        self.metadata: Any = None
        self.drafter = SimpleNamespace()

    def plan(
        self, drafts: dict[str, list[int]], sampled: list[list[int]], logits: torch.Tensor, discard: int = -1
    ) -> None:
        """Drafts by request, what the rejection sampler returns, the target's logits."""
        self.input_batch.req_ids = list(drafts)
        self.input_batch.num_reqs = len(drafts)
        self.discard_request_mask.np[:] = False
        if discard >= 0:
            self.discard_request_mask.np[discard] = True
        self.sampled, self.logits = torch.tensor(sampled), logits.clone()
        flat = [token for block in drafts.values() for token in block]
        counts = list(map(len, drafts.values()))
        ids = torch.tensor(flat, dtype=torch.int32)
        # vLLM has none, or an empty one, where nothing was drafted.
        missing = not flat and self.asynchronous
        self.metadata = None if missing else SimpleNamespace(draft_token_ids=ids, num_draft_tokens=counts)

    def execute_model(self, scheduler_output: Any, intermediate_tensors: Any = None) -> None:
        return None

    def _sample(self, logits: Any, spec_decode_metadata: Any) -> SimpleNamespace:
        logits /= 2.0
        return SimpleNamespace(sampled_token_ids=self.sampled)

    def propose_draft_token_ids(self) -> str:
        return "drafts"

    def sample_tokens(self, grammar_output: Any) -> Any:
        self._sample(self.logits, self.metadata)
        self.propose_draft_token_ids()
        return Output1() if self.asynchronous else "output"
