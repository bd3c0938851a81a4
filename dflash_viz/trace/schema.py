"""The published JSON Schema of a trace's lines; ``python -m dflash_viz.trace.schema`` writes it again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec

from dflash_viz.trace.model import SCHEMA_VERSION, Line

PUBLISHED = Path(__file__).resolve().parents[2] / "assets" / "trace.schema.json"

_DESCRIPTION = (
    "One line of a trace file. The first line is a header, then come the steps in their order, and the "
    "last line is the end; a file without an end is a recording that was cut short. Lines are UTF-8 JSON "
    "and end with a newline; the whole file may be packed with gzip. A minor version adds fields, which "
    "earlier readers ignore; a major version changes the meaning of what is there."
)


def line_schema() -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) that every line of a trace fulfils."""
    schema = msgspec.json.schema(Line)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "DFlash Viz trace line",
        "description": _DESCRIPTION,
        "x-version": SCHEMA_VERSION,
        **schema,
    }


def encoded_schema() -> str:
    """The schema as its file holds it."""
    return json.dumps(line_schema(), indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    PUBLISHED.write_text(encoded_schema(), encoding="utf-8")
    print(PUBLISHED)
