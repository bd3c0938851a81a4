"""Lets vLLM's V2 model runner run on a CPU, in every process that has this folder on its ``PYTHONPATH``.

Its kernels are Triton's, and Triton compiles none for a CPU; its interpreter (``TRITON_INTERPRET=1``) runs
them as they are, slowly. vLLM asks for a backend named "cpu" first, and switches asynchronous scheduling
off there: the one gets a name that stands for the interpreter, the other stays as asked.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, NamedTuple


class Driver:
    """All that is asked of a backend whose kernels are interpreted."""

    @classmethod
    def is_active(cls) -> bool:
        """There is always a CPU."""
        return True


class Backend(NamedTuple):
    """As ``triton.backends.Backend``."""

    compiler: None = None
    driver: type[Driver] = Driver


def add_backend(triton_backends: ModuleType) -> None:
    """Name the interpreter as a backend."""
    triton_backends.backends["cpu"] = Backend()


def keep_scheduling(platform: ModuleType) -> None:
    """Leave scheduling as it was asked for."""
    kind = platform.CpuPlatform
    inner = kind.check_and_update_config.__func__

    def check(cls: type, config: Any) -> None:
        asked = config.scheduler_config.async_scheduling
        inner(cls, config)
        config.scheduler_config.async_scheduling = asked

    kind.check_and_update_config = classmethod(check)


class After(MetaPathFinder):
    """Changes modules when they have been imported."""

    def __init__(self, changes: dict[str, Callable[[ModuleType], None]]) -> None:
        self._changes = changes

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The module's own spec, with the change after its execution."""
        change = self._changes.pop(name, None)
        spec = importlib.util.find_spec(name) if change is not None else None
        if change is None or spec is None or spec.loader is None:
            return None
        execute = spec.loader.exec_module

        def execute_and_change(module: ModuleType) -> None:
            execute(module)
            change(module)

        spec.loader.exec_module = execute_and_change  # type: ignore[method-assign]
        return spec


sys.meta_path.insert(0, After({"triton.backends": add_backend, "vllm.platforms.cpu": keep_scheduling}))
