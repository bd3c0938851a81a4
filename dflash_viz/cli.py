"""The command line: ``python -m dflash_viz bench|validate|report|trace|space``.

What is asked for goes to standard output, everything else (progress, notices) to standard error. Exit
status: 0 all is well, 1 a validation failed or found nothing to judge, 2 something was wrong with what
was asked, 130 stopped by Ctrl-C.
"""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from collections.abc import Sequence
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, TextIO

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

from dflash_viz.bench.datasets import NAMES, DatasetError
from dflash_viz.bench.engines import OwnEngines
from dflash_viz.bench.job import BenchError, BenchJob, resume_job, start_job
from dflash_viz.bench.order import Order
from dflash_viz.bench.places import new_result
from dflash_viz.bench.validation import Choice, Validation, conclude, plan_check
from dflash_viz.lanes import LaneError
from dflash_viz.metrics.measured.expectations import ExpectationError, Verdict, judge, read_expectations
from dflash_viz.results import Result, ResultError, Turns, labels, read_result
from dflash_viz.space.cli import app as space_app
from dflash_viz.trace import TraceError, read_traces
from dflash_viz.views.export import FILES
from dflash_viz.views.measured_files import FORMATS, write_measured
from dflash_viz.views.measured_report import document, markdown
from dflash_viz.views.measured_tables import compare_frame
from dflash_viz.views.measured_text import few
from dflash_viz.views.printable import on_one_line, printable
from dflash_viz.views.trace_summary import summary, summary_text
from dflash_viz.weights.resolver import ROOT

EXPECTATIONS = ROOT / "assets" / "expectations"
FAULTS = (BenchError, DatasetError, ExpectationError, LaneError, ResultError, TraceError)
EXIT_FAILED, EXIT_WRONG, EXIT_STOPPED = 1, 2, 130

app = typer.Typer(
    help="Measure and validate speculative decoding on real engines.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.add_typer(space_app, name="space")
_terminal = Console(stderr=True)


class TurnChoice(StrEnum):
    """Which turns of a conversation are asked."""

    FIRST = "first"
    BOTH = "both"


Json = Annotated[bool, typer.Option("--json", help="Print one JSON document for machines.")]
Data = Annotated[
    Path | None, typer.Option("--data", help="A JSONL file, or a folder with it, instead of the hub.")
]
Limit = Annotated[int | None, typer.Option(help="How many questions (as the DFlash benchmark chooses them).")]
Out = Annotated[
    Path | None, typer.Option(help="The result's folder; by default a new one in the app's cache.")
]
PresetName = Annotated[str, typer.Option("--preset", help="A preset's name, or a path to its YAML file.")]


@app.command()
def bench(
    dataset: Annotated[str, typer.Argument(help=f"One of {', '.join(NAMES)}, or a JSONL file.")] = "builtin",
    data: Data = None,
    limit: Limit = None,
    turns: Annotated[
        TurnChoice, typer.Option(help="Of conversations: the first turn, or both.")
    ] = TurnChoice.FIRST,
    preset: PresetName = "embedded-cpu",
    lanes: Annotated[str, typer.Option(help="Lanes, with commas between; empty: all of the preset.")] = "",
    k: Annotated[str, typer.Option("--k", help="Values of K; empty: the preset's.")] = "",
    temperature: Annotated[str, typer.Option(help="Temperatures.")] = "0",
    concurrency: Annotated[str, typer.Option(help="Requests at once, from 1 to 128.")] = "1",
    max_tokens: Annotated[int, typer.Option(help="An answer ends after this many tokens.")] = 256,
    seed: Annotated[int, typer.Option(help="For temperatures above 0.")] = 0,
    top_k: Annotated[int, typer.Option(help="Probabilities recorded for each position; cost speed.")] = 0,
    skip_bad_lines: Annotated[
        bool, typer.Option("--skip-bad-lines", help="Leave unreadable lines of a file out.")
    ] = False,
    out: Out = None,
    resume: Annotated[Path | None, typer.Option(help="Go on with the result in this folder.")] = None,
    as_json: Json = False,
) -> None:
    """Measure lanes on a data set; every combination of the values given is one row of the table."""
    if resume is not None:
        job = resume_job(resume, OwnEngines())
    else:
        order = Order(
            preset=preset,
            dataset=dataset,
            path=data,
            limit=limit,
            turns=_turns(turns),
            lanes=tuple(_words(lanes)),
            ks=tuple(_numbers(k, int, "--k")),
            temperatures=tuple(_numbers(temperature, float, "--temperature")),
            concurrencies=tuple(_numbers(concurrency, int, "--concurrency")),
            max_tokens=max_tokens,
            seed=seed,
            top_k=top_k,
            on_bad_line="skip" if skip_bad_lines else "stop",
        )
        job = start_job(order, OwnEngines(), out or new_result())
    stopped = _run(job)
    verdicts = judge(job.result, read_expectations(EXPECTATIONS))
    _show(job.result, verdicts, as_json)
    _print(f"The result is in {job.folder}", sys.stderr)
    if stopped:
        _print(f"Go on with it: python -m dflash_viz bench --resume {job.folder}", sys.stderr)
        raise typer.Exit(EXIT_STOPPED)
    if job.result.open_failures():
        raise typer.Exit(EXIT_FAILED)


@app.command()
def validate(
    pair: Annotated[str, typer.Option(help="The pair whose expectations are checked (assets/expectations).")],
    dataset: Annotated[
        str, typer.Option(help="Only the expectations on this data set; empty: the pair's first.")
    ] = "",
    data: Data = None,
    preset: Annotated[
        str, typer.Option(help="The preset with the pair's lanes; empty: the pair's own.")
    ] = "",
    lanes: Annotated[str, typer.Option(help="Only these lanes, with commas between.")] = "",
    drafter: Annotated[
        str,
        typer.Option(
            help="Another drafter in place of the pair's: a folder or hub id, of the lane --lanes names."
        ),
    ] = "",
    out: Out = None,
    as_json: Json = False,
) -> None:
    """Run a pair's published or recorded check: exit status 0 only when every expectation is met."""
    choice = Choice(dataset, data, preset, tuple(_words(lanes)), drafter)
    check = plan_check(pair, read_expectations(EXPECTATIONS), choice)
    job = start_job(check.order, OwnEngines(), out or new_result(), check.replaced)
    if _run(job):
        _print(f"Stopped before everything was measured; the answers are in {job.folder}", sys.stderr)
        raise typer.Exit(EXIT_STOPPED)
    validation = conclude(job.result, check)
    if as_json:
        findings = {str(number): found for number, found in _findings(validation, job.result)}
        made = document(job.result, validation.verdicts)
        _print_json({**made, "passed": validation.passed, "findings": findings})
    else:
        _print(markdown(job.result, validation.verdicts))
        _print(_outcome(validation, job.result))
    _print(f"The result is in {job.folder}", sys.stderr)
    if not validation.passed:
        raise typer.Exit(EXIT_FAILED)


@app.command()
def report(
    result: Annotated[Path, typer.Argument(help="A result's folder, or its result.jsonl.")],
    to: Annotated[
        str, typer.Option(help=f"Formats: {', '.join(FORMATS)}; empty: the table is printed.")
    ] = "",
    out: Annotated[Path, typer.Option(help="The folder that the files are written into.")] = Path(),
    compare: Annotated[Path | None, typer.Option(help="A second result to compare with.")] = None,
    as_json: Json = False,
) -> None:
    """Show a result again, compare it with another, or write it in other formats."""
    shown = read_result(result)
    verdicts = judge(shown, read_expectations(EXPECTATIONS))
    if compare is not None:
        frame = compare_frame(shown, read_result(compare))
        _print(frame.to_json(orient="records", indent=1) if as_json else frame.to_string(index=False))
        return
    formats = _words(to)
    if unknown := [name for name in formats if name not in FORMATS]:
        raise ResultError(f"There is no format {unknown[0]!r}. Formats: {', '.join(FORMATS)}.")
    if formats:
        _list([file for name in formats for file in write_measured(shown, verdicts, name, out)], as_json)
    else:
        _show(shown, verdicts, as_json)


@app.command()
def trace(
    path: Annotated[Path, typer.Argument(help="A trace file, or a folder of them.")],
    to: Annotated[str, typer.Option(help=f"Formats: {', '.join(FILES)}; empty: a summary is printed.")] = "",
    out: Annotated[Path, typer.Option(help="The folder that the files are written into.")] = Path(),
    as_json: Json = False,
) -> None:
    """Figures and diagnosis of recorded traces, or other formats of them."""
    traces = read_traces(path)
    formats = _words(to)
    if unknown := [name for name in formats if name not in FILES]:
        raise TraceError(f"There is no format {unknown[0]!r}. Formats: {', '.join(FILES)}.")
    for name in formats:
        out.mkdir(parents=True, exist_ok=True)
        file_name, write = FILES[name]
        write(traces, out / file_name)
    if formats:
        _list([out / FILES[name][0] for name in formats], as_json)
    elif as_json:
        _print_json(summary(traces))
    else:
        _print(summary_text(traces))


def main() -> None:
    """Run the command line; a fault that the user can mend is one line on standard error."""
    try:
        app()
    except FAULTS as error:
        _print(str(error), sys.stderr)
        sys.exit(EXIT_WRONG)
    except OSError as error:
        _print(f"{error.filename or 'A file'}: {error.strerror or error}", sys.stderr)
        sys.exit(EXIT_WRONG)


def _run(job: BenchJob) -> bool:
    """Run a job under a progress bar; whether it was stopped by Ctrl-C, whose second press ends it hard."""

    async def follow() -> bool:
        stopping: list[asyncio.Task[None]] = []

        def stop() -> None:
            loop.remove_signal_handler(signal.SIGINT)
            _terminal.print("Stopping; what is answered is kept. Press Ctrl-C again to end at once.")
            stopping.append(asyncio.create_task(job.stop()))

        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGINT, stop)
        names = labels(job.result.plan.settings)
        with _bar() as bar:
            task = bar.add_task("starting", total=job.total)
            async for progress in job.run():
                words = progress.message
                if progress.setting is not None:
                    words = f"{names[progress.setting]}: {progress.message}"
                bar.update(task, completed=progress.done, description=on_one_line(words))
        await asyncio.gather(*stopping)
        return bool(stopping)

    if warning := few(job.result):
        _print(warning, sys.stderr)
    return asyncio.run(follow())


def _bar() -> Bar:
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    return Bar(*columns, console=_terminal)


def _findings(validation: Validation, result: Result) -> list[tuple[str, list[dict[str, Any]]]]:
    """By setting that failed, what the rules found in its traces."""
    names = labels(result.plan.settings)
    return [(names[n], [asdict(one) for one in found]) for n, found in validation.findings.items()]


def _outcome(validation: Validation, result: Result) -> str:
    """Passed or not, and for what failed the reasons that the traces show."""
    lines = ["Validation passed." if validation.passed else "Validation FAILED."]
    for name, found in _findings(validation, result):
        lines.append(f"\n{name}: what its traces show")
        for one in found:
            lines += [f"- {one['title']}. {one['meaning']}", *(f"  - {line}" for line in one["evidence"])]
            lines.append(f"  - What to do: {one['action']}")
        if not found:
            lines.append("- No rule finds a reason.")
    return "\n".join(lines)


def _show(result: Result, verdicts: Sequence[Verdict], as_json: bool) -> None:
    if as_json:
        _print_json(document(result, verdicts))
    else:
        _print(markdown(result, verdicts))


def _list(files: Sequence[Path], as_json: bool) -> None:
    """Say which files were written."""
    if as_json:
        _print_json([str(file) for file in files])
    else:
        _print("\n".join(str(file) for file in files))


def _print_json(made: Any) -> None:
    _print(json.dumps(made, indent=1, ensure_ascii=False))


def _print(text: str, to: TextIO | None = None) -> None:
    """Print what may hold text of models, users and files; control characters as JSON writes them."""
    print(printable(text), file=to)


def _turns(choice: TurnChoice) -> Turns:
    return "both" if choice is TurnChoice.BOTH else "first"


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def _numbers(text: str, kind: type, option: str) -> list[Any]:
    try:
        return [kind(word) for word in _words(text)]
    except ValueError:
        raise LaneError(f"{option} takes numbers with commas between, not {text!r}.") from None
