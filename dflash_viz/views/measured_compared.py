"""Two benchmarks' results beside each other, for a terminal and for machines."""

from __future__ import annotations

import json
from typing import Any

from dflash_viz.results import Result
from dflash_viz.views.measured_page import comparison
from dflash_viz.views.measured_parts import to_markdown
from dflash_viz.views.measured_tables import compare_frame, same_questions

VERSION = "1.0"
"""Of the JSON document: the first number changes when a key goes or changes its meaning."""


def compare_markdown(a: Result, b: Result) -> str:
    """The comparison's words and tables as Markdown."""
    return to_markdown(comparison(a, b))


def compare_document(a: Result, b: Result) -> dict[str, Any]:
    """The comparison as one document of plain values: a row a setting that both have, None where there is no
    value; the keys are those of ``compare_frame``."""
    return {
        "format": "dflash-viz-compared",
        "version": VERSION,
        "a": _identity(a),
        "b": _identity(b),
        "same_questions": same_questions(a, b),
        "settings": json.loads(compare_frame(a, b).to_json(orient="records")),
    }


def _identity(result: Result) -> dict[str, Any]:
    plan = result.plan
    return {
        "id": result.head.result_id,
        "created_at": result.head.created_at,
        "program": result.head.program,
        "pair": plan.pair,
        "dataset": plan.dataset.name,
        "num_questions": plan.dataset.num_questions,
        "max_tokens": plan.max_tokens,
        "complete": result.complete,
    }
