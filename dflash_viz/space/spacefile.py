"""Reading a Spacefile: everything that is wrong in it is found at once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import msgspec
import yaml

from dflash_viz.space.checks import findings
from dflash_viz.space.model import Limits, SpaceError, Spacefile

MAX_BYTES = 100_000
_WORDS = {
    "str": "text",
    "int": "a whole number",
    "bool": "true or false",
    "list": "a list of names, each on a line of its own behind a dash",
    "dict": "names with a text each",
}


_EXAMPLE = Spacefile(title="Example", kind="engine", sdk="docker", sdk_version="", python_version="")


def read_spacefile(path: Path) -> Spacefile:
    """Read a Spacefile. Raises ``SpaceError`` with everything that is wrong in it, a line each."""
    space, problems = _examine(path)
    if problems:
        raise SpaceError("\n".join([f"{path} is not valid:", *(f"- {one}" for one in problems)]))
    return space


def check_spacefile(path: Path) -> list[str]:
    """Everything that is wrong in a Spacefile, in plain words; raises ``SpaceError`` if it has none."""
    return _examine(path)[1]


def _examine(path: Path) -> tuple[Spacefile, list[str]]:
    """The file with examples in the place of fields that cannot be read, and all that is wrong."""
    found: dict[str, Any] = {}
    problems = list(_read_fields(Spacefile, _mapping(path), "", found))
    broken = {name for name, _ in problems}
    space = msgspec.structs.replace(_EXAMPLE, **found)
    further = [one for one in findings(space) if broken.isdisjoint(one.fields)]
    return space, [message for _, message in problems] + [one.message for one in further]


def _mapping(path: Path) -> dict[str, Any]:
    try:
        if path.stat().st_size > MAX_BYTES:
            raise SpaceError(f"{path} is too large for a Spacefile.")
        raw = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SpaceError(f"{path} cannot be read: {error.strerror}.") from error
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        where = getattr(error, "problem_mark", None)
        line = f" (line {where.line + 1})" if where is not None else ""
        raise SpaceError(f"{path} is not valid YAML{line}.") from error
    if not isinstance(raw, dict):
        raise SpaceError(f"{path} holds no fields; the first line could be: title: DFlash Viz")
    return {str(name): value for name, value in raw.items()}


def _read_fields(
    struct: type[msgspec.Struct], raw: dict[str, Any], prefix: str, found: dict[str, Any]
) -> Iterator[tuple[str, str]]:
    """Put the fields that can be read into ``found``; yields the name and fault of the others."""
    fields = {field.encode_name: field for field in msgspec.structs.fields(struct)}
    for name in [name for name in raw if name not in fields]:
        yield prefix + name, f"There is no field {prefix + name!r}. Fields: {', '.join(fields)}."
    for name, field in fields.items():
        if name not in raw:
            if field.required:
                yield field.name, f"{prefix}{name} is missing."
        elif field.type is Limits and isinstance(raw[name], dict):
            inner: dict[str, Any] = {}
            given = {str(key): value for key, value in raw[name].items()}
            yield from _read_fields(Limits, given, "limits.", inner)
            found[field.name] = Limits(**inner)
        else:
            try:
                found[field.name] = msgspec.convert(raw[name], field.type)
            except msgspec.ValidationError:
                yield prefix + field.name, _must_be(prefix + name, field.type)


def _must_be(name: str, kind: Any) -> str:
    """What a field's value must be; the value itself is not repeated, for it could be a secret."""
    if name == "secrets":
        return "secrets are names only, a list of them: take the values out of the Spacefile."
    if get_origin(kind) is Literal:
        return f"{name} must be one of: {', '.join(get_args(kind))}."
    if kind is Limits:
        return f"{name} must be fields with a number each."
    hint = " (put it in quotes)" if kind is str else ""
    return f"{name} must be {_WORDS[(get_origin(kind) or kind).__name__]}{hint}."
