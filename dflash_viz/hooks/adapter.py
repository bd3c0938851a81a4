"""What the adapters of vLLM's model runners share: wrapping, the records, and when they are made.

A hook never waits for the device. It copies what a record needs to pinned memory in the runner's own
stream and keeps the rest in a ``Step``; the record is made where the engine itself has waited for the
step's result: in ``get_output`` of the asynchronous output, or, with a runner that has synchronised
by then, when its method returns. So the last step of an answer is never late, and no thread is
needed. The hooks only read, and a failing hook never stops the engine.

Times on CUDA (see ``clock``): a verification (``verify_start`` to ``verify_end``) lasts from the moment
at which the device reaches the step, which is when the target's pass is being prepared and everything
before has been done, to the end of the sampler and of the copies; a draft (``draft_start`` to
``draft_end``) is the proposer's part of the device's time. What a request's top-k costs counts to
the verification.
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch

from dflash_viz.hooks.clock import clock_for
from dflash_viz.hooks.tops import Tops
from dflash_viz.hooks.wire import TOP_K_ARG, Draw, EngineStep, Fault, Record, Row

MAX_TOP_K = 20

Emit = Callable[[Record], None]
_ABSENT = object()


class HookUnsupportedError(RuntimeError):
    """This model runner does not look like the one the hooks were written for."""


@dataclass
class Draws:
    """What decided about the drafted tokens of a batch, [drafted tokens] each, on the host when the
    device is done; and where the tokens of each request whose tokens are drawn begin."""

    columns: tuple[torch.Tensor, torch.Tensor, torch.Tensor]
    first: dict[str, int]

    def of(self, request_id: str, num_drafted: int) -> list[Draw]:
        """One entry per drafted token of a request; none where nothing was drawn."""
        if (first := self.first.get(request_id)) is None:
            return []
        columns = [column[first : first + num_drafted].tolist() for column in self.columns]
        return [Draw(p, q, u) for p, q, u in zip(*columns, strict=True)]


Outcome = tuple[str, list[int], list[int]]
"""A request of the batch, what it emitted, and the block that was verified."""


@dataclass
class Step:
    """One engine step on its way to the host; marks are the clock's. ``read`` gives the outcomes of
    the requests that emitted anything, once the device is done."""

    read: Callable[[], Iterator[Outcome]]
    verify: tuple[Any, Any]
    draft: tuple[Any, Any] | None
    batch_size: int
    finished: set[str] = field(default_factory=set)
    target: Tops | None = None
    drafter: Tops | None = None
    draws: Draws | None = None


class Adapter:
    """Wraps methods of one runner instance and what it uses; ``remove`` takes every wrapper off."""

    runner_version: ClassVar[str]

    def __init__(self, runner: Any, emit: Emit) -> None:
        self.check(runner)
        self.runner = runner
        self.clock = clock_for(runner.device)
        self._emit: Emit | None = emit
        # Records are made by whichever thread takes the engine's output.
        self.lock = threading.Lock()
        self._seq = 0
        self._indices: dict[str, int] = {}
        self._verify_start: Any = 0.0
        self._draft: tuple[Any, Any] | None = None
        # Requests that have ended since the last step.
        self._finished: set[str] = set()
        self._wrapped: list[tuple[Any, str, Any]] = []

    @staticmethod
    def check(runner: Any) -> None:
        """Raise ``HookUnsupportedError`` unless the runner has what we wrap, as we know it."""
        raise HookUnsupportedError(f"{type(runner).__name__} has no adapter.")

    def install(self) -> None:
        """Put the wrappers on."""

    def remove(self) -> None:
        """Take the wrappers off: what stood there before stands there again, or the class's method.
        A step that is still on its way is forgotten."""
        while self._wrapped:
            owner, name, before = self._wrapped.pop()
            if before is _ABSENT:
                owner.__dict__.pop(name, None)
            else:
                owner.__dict__[name] = before
        with self.lock:
            self._emit = None

    def _replace(self, owner: Any, name: str, by: Any) -> None:
        # Through __dict__: torch modules refuse nothing there, and removal is one pop.
        self._wrapped.append((owner, name, owner.__dict__.get(name, _ABSENT)))
        owner.__dict__[name] = by

    def _wrap(self, owner: Any, name: str, around: Callable[..., Any]) -> None:
        original = getattr(owner, name)
        self._replace(owner, name, lambda *args, **kwargs: around(original, *args, **kwargs))

    def _guarded(self, function: Callable[..., Any], *args: Any) -> Any:
        try:
            return function(*args)
        except Exception as error:  # the engine must outlive any fault of ours, and say so
            self._send(Fault(0, f"{type(error).__name__}: {error}"))
            return None

    def _send(self, record: Record) -> None:
        with self.lock:
            if self._emit is not None:
                record.seq = self._seq
                self._seq += 1
                self._emit(record)

    def _on_output(self, output: Any, step: Step) -> None:
        """Make the step's record as soon as the engine has the step's result on the host."""
        get_output = getattr(output, "get_output", None)
        if get_output is None:
            self._guarded(self._finish, step)
            return

        def get_and_record() -> Any:
            # Else the output would hold itself, and with it memory of the device.
            output.__dict__.pop("get_output", None)
            result = get_output()
            self._guarded(self._finish, step)
            return result

        output.get_output = get_and_record

    def _finish(self, step: Step) -> None:
        """Make the record of a step; the device is done with it, or nearly."""
        self.clock.wait(step.verify[1])
        for request_id in step.finished:
            self._indices.pop(request_id, None)
        rows = [self._row(step, *outcome) for outcome in step.read()]
        start, end = map(self.clock.at, step.verify)
        draft_start, draft_end = map(self.clock.at, step.draft) if step.draft else (0.0, 0.0)
        self.clock.anchor(step.verify[1])
        if rows:
            self._send(
                EngineStep(
                    seq=0,
                    verify_start=start,
                    verify_end=end,
                    rows=rows,
                    draft_start=draft_start,
                    draft_end=draft_end,
                    batch_size=step.batch_size,
                )
            )

    def _row(self, step: Step, request_id: str, emitted: list[int], drafted: list[int]) -> Row:
        index = self._indices.get(request_id, 0)
        self._indices[request_id] = index + 1
        row = Row(request_id, index, emitted, drafted, index == 0)
        if step.target is not None:
            row.target_top = step.target.of(request_id, len(drafted) + 1, len(drafted))
        if row.target_top is not None and drafted:
            if step.drafter is not None:
                row.drafter_top = step.drafter.of(request_id, len(drafted), len(drafted))
            if step.draws is not None:
                row.draws = step.draws.of(request_id, len(drafted))
        return row


def asked_top_k(parameters: Any) -> int:
    """How many tokens per position a request asks for; any client can send anything here."""
    asked = (getattr(parameters, "extra_args", None) or {}).get(TOP_K_ARG, 0)
    return min(max(asked, 0), MAX_TOP_K) if isinstance(asked, int) else 0


def real(block: list[int]) -> list[int]:
    """A block without the -1 that vLLM fills short ones up with."""
    return [token for token in block if token >= 0]


def require(owner: Any, name: str, parameters: list[str], exact: bool = True) -> None:
    """Raise ``HookUnsupportedError`` unless ``owner`` has a method of this name with these parameters
    (``self`` apart), or, if not ``exact``, with these first."""
    method = getattr(owner, name, None)
    found = list(inspect.signature(method).parameters) if callable(method) else []
    if method is None or (found if exact else found[: len(parameters)]) != parameters:
        kind = type(owner)
        raise HookUnsupportedError(
            f"{kind.__module__}.{kind.__name__}.{name} takes ({', '.join(found)}), not "
            f"({', '.join(parameters)})"
            if found
            else f"{kind.__module__}.{kind.__name__} has no {name}"
        )


def require_one_stage(runner: Any) -> None:
    """Raise ``HookUnsupportedError`` with pipeline parallelism."""
    if runner.parallel_config.pipeline_parallel_size > 1:
        raise HookUnsupportedError("With pipeline parallelism the first stage samples nothing.")
