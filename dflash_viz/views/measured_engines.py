"""The engines that a result was measured on: what is the same in all of them, and what is not."""

from __future__ import annotations

import msgspec

from dflash_viz.metrics.diff import ABSENT, leaves
from dflash_viz.results import Engine, Result


def engine_fields(engine: Engine) -> dict[str, str]:
    """Everything about an engine by its dotted path: fingerprint, chat template's and server's options."""
    told = msgspec.to_builtins(engine)
    parts = {"": told["fingerprint"], "template": engine.template_options, "option": engine.options}
    return dict(leaf for path, part in parts.items() for leaf in leaves(path, part))


def common_fields(result: Result) -> dict[str, str]:
    """The fields that have one value in every engine of the result."""
    engines = [engine_fields(engine) for engine in result.engines.values()]
    if not engines:
        return {}
    first, *others = engines
    return {path: value for path, value in first.items() if all(o.get(path) == value for o in others)}


def differing_fields(result: Result) -> dict[str, dict[int, str]]:
    """The fields whose values differ: by path, the value of each setting that had an engine."""
    engines = {number: engine_fields(engine) for number, engine in sorted(result.engines.items())}
    common = common_fields(result)
    paths = dict.fromkeys(path for fields in engines.values() for path in fields if path not in common)
    return {path: {n: fields.get(path, ABSENT) for n, fields in engines.items()} for path in paths}


def changed_fields(a: Engine | None, b: Engine | None) -> list[tuple[str, str, str]]:
    """The fields whose values differ between two engines: path, and both values."""
    ours, theirs = ({} if one is None else engine_fields(one) for one in (a, b))
    values = [(path, ours.get(path, ABSENT), theirs.get(path, ABSENT)) for path in {**ours, **theirs}]
    return [row for row in values if row[1] != row[2]]
