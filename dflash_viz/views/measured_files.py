"""A benchmark's result for other tools: tables as CSV or Parquet, one JSON document, Markdown, a report."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import msgspec
import pandas as pd

from dflash_viz.metrics.measured import Verdict
from dflash_viz.results import Result
from dflash_viz.views.export import inert
from dflash_viz.views.measured_report import document, markdown, report_html
from dflash_viz.views.measured_tables import (
    answers_frame,
    kinds_frame,
    pairs_frame,
    samples_frame,
    settings_frame,
    verdicts_frame,
)

FORMATS = {
    "csv": "CSV, a file a table",
    "parquet": "Parquet, a file a table",
    "json": "JSON, one document",
    "markdown": "Markdown, tables for a text",
    "html": "HTML report with charts, one file",
}
"""What a result can be written as: key -> label."""


def write_measured(
    result: Result,
    verdicts: Sequence[Verdict],
    format: str,  # noqa: A002
    folder: Path,
) -> list[Path]:
    """Write a result as one of ``FORMATS`` into a folder, which is made; returns the files.

    Raises ``OSError``, and ``ValueError`` for a format that is not known.
    """
    if format not in FORMATS:
        raise ValueError(f"There is no format {format!r}. Formats: {', '.join(FORMATS)}.")
    folder.mkdir(parents=True, exist_ok=True)
    if format in _TABLES:
        return [_TABLES[format](frame, folder / name) for name, frame in _frames(result, verdicts)]
    name, make = _DOCUMENTS[format]
    path = folder / name
    path.write_bytes(make(result, verdicts))
    return [path]


def _frames(result: Result, verdicts: Sequence[Verdict]) -> Iterator[tuple[str, pd.DataFrame]]:
    yield "settings", settings_frame(result)
    yield "answers", answers_frame(result)
    yield "kinds", kinds_frame(result)
    yield "pairs", pairs_frame(result)
    yield "verdicts", verdicts_frame(verdicts)
    yield "samples", samples_frame(result)


def _write_csv(frame: pd.DataFrame, path: Path) -> Path:
    """A table as CSV; text that a spreadsheet would run as a formula gets an apostrophe in front."""
    texts = {name: frame[name].map(inert) for name in frame.columns if frame[name].dtype == "str"}
    frame.assign(**texts).to_csv(path.with_suffix(".csv"), index=False)
    return path.with_suffix(".csv")


def _write_parquet(frame: pd.DataFrame, path: Path) -> Path:
    frame.to_parquet(path.with_suffix(".parquet"), index=False, engine="pyarrow")
    return path.with_suffix(".parquet")


_TABLES: dict[str, Callable[[pd.DataFrame, Path], Path]] = {"csv": _write_csv, "parquet": _write_parquet}
_DOCUMENTS: dict[str, tuple[str, Callable[[Result, Sequence[Verdict]], bytes]]] = {
    "json": ("result.json", lambda *of: msgspec.json.format(msgspec.json.encode(document(*of)))),
    "markdown": ("result.md", lambda *of: markdown(*of).encode()),
    "html": ("report.html", lambda *of: report_html(*of).encode()),
}
