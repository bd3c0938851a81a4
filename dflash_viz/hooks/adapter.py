"""What the adapters of vLLM's model runners share: wrapping, the records, and when they are made.

A hook never waits for the device. It copies what a record needs to pinned memory in the runner's own
stream and keeps the rest in a ``Step``, which is told where the engine itself has waited for the step's
result: in ``get_output`` of the asynchronous output, or, with a runner that has synchronised by then,
when its method returns. The record is made there, or, of what nobody overwrites, by the courier's thread.
The hooks only read, and a failing hook never stops the engine.

Times on CUDA (see ``clock``): a verification (``verify_start`` to ``verify_end``) lasts from the moment
at which the device may begin with the step to the end of the sampler and of the copies; a draft
(``draft_start`` to ``draft_end``) from the moment at which it may begin with the proposer's part to its
end. It may begin when the host does and everything before has been done: an event there would cost
what comparing two times does not. What a request's top-k costs counts to the part that it looks at.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch

from dflash_viz.hooks.clock import clock_for
from dflash_viz.hooks.courier import Item
from dflash_viz.hooks.tops import TopFinder, Tops
from dflash_viz.hooks.wire import TOP_K_ARG, Draw, EngineStep, Fault, Record, Row

MAX_TOP_K = 20

Emit = Callable[[Item], None]
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
    """One engine step on its way to the host. ``read`` gives the outcomes of the requests that emitted
    anything, once the device is done; ``began`` is when the host began with the step (s), ``end`` the
    clock's mark of the verification's end, ``draft`` the same two of the last proposal."""

    read: Callable[[], Iterator[Outcome]]
    began: float
    end: Any
    draft: tuple[float, Any] | None
    # Whether that proposal's blocks are what was verified.
    drafted: bool
    batch_size: int
    finished: set[str] = field(default_factory=set)
    target: Tops | None = None
    drafter: Tops | None = None
    draws: Draws | None = None


class Adapter:
    """Wraps methods of one runner instance and what it uses; ``remove`` takes every wrapper off."""

    runner_version: ClassVar[str]
    # Whether a step's record may be made later, in another thread.
    deferred: ClassVar[bool] = False

    def __init__(self, runner: Any, emit: Emit) -> None:
        self.check(runner)
        self.runner = runner
        self.clock = clock_for(runner.device)
        self.tops = TopFinder()
        self._emit: Emit | None = emit
        self._indices: dict[str, int] = {}
        self._began = 0.0
        # When the device had done everything of the last step that was told.
        self._reached = 0.0
        self._draft: tuple[float, Any] | None = None
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
        self._emit = None
        # What is still under way writes into buffers that are about to go.
        self.clock.settle()

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
            self._send(_fault(error))
            return None

    def _send(self, item: Item) -> None:
        if (emit := self._emit) is not None:
            emit(item)

    def _tell(self, step: Step) -> None:
        """The engine has the step's result on the host."""
        make = functools.partial(self._record, step)
        self._send(make if self.deferred else make())

    def _on_output(self, output: Any, step: Step) -> None:
        """Make the step's record as soon as the engine has the step's result on the host."""
        get_output = getattr(output, "get_output", None)
        if get_output is None:
            self._tell(step)
            return

        def get_and_record() -> Any:
            # Else the output would hold itself, and with it memory of the device.
            output.__dict__.pop("get_output", None)
            result = get_output()
            self._tell(step)
            return result

        output.get_output = get_and_record

    def _record(self, step: Step) -> Record | None:
        try:
            return self._finish(step)
        except Exception as error:  # as above
            return _fault(error)

    def _finish(self, step: Step) -> Record | None:
        """The record of a step, if it has emitted anything; the device is done with it, or nearly."""
        self.clock.wait(step.end)
        for request_id in step.finished:
            self._indices.pop(request_id, None)
        rows = [self._row(step, *outcome) for outcome in step.read()]
        self.tops.done(step.target)
        self.tops.done(step.drafter)
        record = EngineStep(0, 0.0, 0.0, rows, batch_size=step.batch_size)
        self._tell_times(step, record)
        return record if rows else None

    def _tell_times(self, step: Step, record: EngineStep) -> None:
        if step.draft is not None:
            began, end = step.draft
            draft = self._span(began, self.clock.tell(end))
            if step.drafted:
                record.draft_start, record.draft_end = draft
        record.verify_start, record.verify_end = self._span(step.began, self.clock.anchor(step.end))

    def _span(self, began: float, end: float) -> tuple[float, float]:
        """When the device began with a part, and its end; where the host was ahead, it began when it had
        done the part before."""
        start = min(max(began, self._reached), end)
        self._reached = end
        return start, end

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


def _fault(error: Exception) -> Fault:
    return Fault(0, f"{type(error).__name__}: {error}")


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
