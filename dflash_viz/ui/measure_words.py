"""The words of the tab "Measure": how far a benchmark is, and results by their names."""

from __future__ import annotations

from html import escape

from dflash_viz.bench.job import Progress
from dflash_viz.results import Result, labels
from dflash_viz.ui.results import ResultSummary

READING = "Reading the questions"
STOPPING = "Stopping: running answers are ended, what was answered stays"


def progress_html(progress: Progress | None, result: Result | None, stopping: bool = False) -> str:
    """How far a running benchmark is: a bar, and in words what it does and how long it may take."""
    if progress is None:
        return _bar(0, 0, STOPPING if stopping else READING)
    doing = [STOPPING] if stopping else [progress.message]
    if result is not None and progress.setting is not None:
        names = labels(result.plan.settings)
        doing.insert(0, f"{names[progress.setting]} (setting {progress.setting + 1} of {len(names)})")
    if progress.seconds_left is not None and not stopping:
        doing.append(f"about {duration(progress.seconds_left)} left")
    return _bar(progress.done, progress.total, " · ".join(part for part in doing if part))


def ended_html(progress: Progress | None, problem: str) -> str:
    """How the latest benchmark ended."""
    if problem:
        return problem_html(problem)
    if progress is None:
        return note_html("Stopped before anything was measured.")
    if progress.done >= progress.total:
        return note_html(f"Done: all {progress.total:,} answers are there.")
    kept = "what is measured is kept, and Resume goes on with it."
    return note_html(f"Ended with {progress.done:,} of {progress.total:,} answers: {kept}")


def duration(seconds: float) -> str:
    """A time that is left, as exact as an estimate is."""
    if seconds < 100:
        return f"{max(1, round(seconds))} s"
    if seconds < 6000:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"


def summary_label(one: ResultSummary) -> str:
    """A result in the list of one's own: when, what was measured, how much of it is there."""
    when = one.began.replace("T", " ")[:16]
    if one.problem:
        return f"{when} · damaged: {one.problem}"
    state = "" if one.complete else f" · unfinished: {one.finished} of {one.num_settings} settings"
    return f"{when} · {one.dataset} · {one.pair} · {one.answers:,} answers{state}"


def result_label(result: Result) -> str:
    """A result in a choice of several: when it began (UTC), and what was measured."""
    plan = result.plan
    when = result.head.created_at[:16].replace("T", " ")
    settings = f"{len(plan.settings)} setting{'' if len(plan.settings) == 1 else 's'}"
    return f"{plan.dataset.name} · {plan.pair} · {settings} · {when}"


def problem_html(text: str) -> str:
    """A message about what went wrong."""
    return f'<div class="dv-shelf-problem" role="alert">⚠ {escape(text)}</div>'


def note_html(text: str) -> str:
    """A message that all is well."""
    return f'<div class="dv-shelf-note" role="status">{escape(text)}</div>'


def _bar(done: int, total: int, words: str) -> str:
    percent = round(100 * done / total) if total else 0
    said = f"{done:,} of {total:,} answers" if total else ""
    text = escape(" · ".join(part for part in (said, words) if part))
    return (
        f'<div class="dv-bench"><div class="dv-progress" role="progressbar" aria-label="Benchmark" '
        f'aria-valuemin="0" aria-valuemax="100" aria-valuenow="{percent}" aria-valuetext="{text}">'
        f'<div style="width:{percent}%"></div></div><p>{text}</p></div>'
    )
