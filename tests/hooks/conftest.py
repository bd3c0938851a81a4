"""A device that is not waited for, on the CPU."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch

WAITING = ("tolist", "item", "cpu", "numpy", "__bool__", "__int__", "__float__", "__index__", "nonzero")


class Ticks:
    """A clock for whose marks one must wait; each moment is a second after the last."""

    def __init__(self) -> None:
        self.now = 0.0
        self.reached: set[float] = set()

    def host(self) -> float:
        return self.mark()

    def settle(self) -> None:
        pass

    def mark(self) -> float:
        self.now += 1.0
        return self.now

    def wait(self, mark: float) -> None:
        self.reached.add(mark)

    def tell(self, mark: float) -> float:
        assert max(self.reached, default=0.0) >= mark, "the device is not there yet"
        return mark

    def anchor(self, mark: float) -> float:
        assert mark in self.reached
        return mark


@pytest.fixture
def ticks(monkeypatch: pytest.MonkeyPatch) -> Ticks:
    """Every adapter of a test measures with this clock."""
    clock = Ticks()
    monkeypatch.setattr("dflash_viz.hooks.adapter.clock_for", lambda device: clock)
    return clock


@pytest.fixture
def unwaiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """The hooks may call nothing that waits for a device, except where they read what has arrived."""

    def refuse(name: str) -> Callable[..., Any]:
        original = getattr(torch.Tensor, name)

        def checked(self: Any, *args: Any, **kwargs: Any) -> Any:
            frame = sys._getframe(1)
            inside = frame.f_globals.get("__name__", "").startswith("dflash_viz.hooks")
            reading = {"_read", "_lists", "lists", "of", "_finish"}
            assert not inside or frame.f_code.co_name in reading, f"{name} waits for the device"
            return original(self, *args, **kwargs)

        return checked

    for name in WAITING:
        monkeypatch.setattr(torch.Tensor, name, refuse(name))
    move = torch.Tensor.to

    def to(self: Any, *args: Any, **kwargs: Any) -> Any:
        assert "cpu" not in args or kwargs.get("non_blocking"), "a copy that waits"
        return move(self, *args, **kwargs)

    monkeypatch.setattr(torch.Tensor, "to", to)
