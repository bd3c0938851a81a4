"""The command line: ``python -m dflash_viz bench|validate|report|trace|space``.

What is asked for goes to standard output, everything else (progress, notices) to standard error. Exit
status: 0 all is well, 1 a validation failed or found nothing to judge, or a benchmark's question got no
answer or its engine did not start, 2 something was wrong with what was asked, 130 stopped by Ctrl-C.
"""

from __future__ import annotations

import asyncio
import json
import shlex
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, TextIO

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

from dflash_viz.bench.datasets import DatasetError
from dflash_viz.bench.engines import OwnEngines
from dflash_viz.bench.job import BenchError, BenchJob, resume_job, start_job
from dflash_viz.bench.order import Order
from dflash_viz.bench.places import new_result
from dflash_viz.bench.validation import Check, Choice, begun_checks, conclude, plan_checks
from dflash_viz.checking import Done, announced, misfits, outcome, outcome_document, way_on
from dflash_viz.cli_options import (
    DEFAULT_PRESET,
    CheckedDataset,
    CheckedPreset,
    Data,
    DatasetName,
    Drafter,
    Json,
    Lanes,
    Limit,
    Out,
    PairName,
    PresetName,
    ResumedChecks,
    SkipBadLines,
    TurnChoice,
    TurnsAsked,
    Written,
    named,
)
from dflash_viz.lanes import LaneError
from dflash_viz.metrics.measured.expectations import ExpectationError, Verdict, judge, read_expectations
from dflash_viz.results import Result, ResultError, Turns, labels, read_result
from dflash_viz.space.cli import app as space_app
from dflash_viz.trace import Trace, TraceError, read_traces
from dflash_viz.views.export import FILES
from dflash_viz.views.measured_compared import compare_document, compare_markdown
from dflash_viz.views.measured_files import FORMATS, write_measured
from dflash_viz.views.measured_report import document, markdown
from dflash_viz.views.measured_text import few
from dflash_viz.views.printable import on_one_line, printable
from dflash_viz.views.trace_summary import summary, summary_text

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


@app.command(epilog="Example: python -m dflash_viz bench gsm8k --limit 40 --lanes dflash,none --k 3,5")
def bench(
    context: typer.Context,
    dataset: DatasetName = "builtin",
    data: Data = None,
    limit: Limit = None,
    turns: TurnsAsked = TurnChoice.FIRST,
    preset: PresetName = DEFAULT_PRESET,
    lanes: Lanes = "",
    k: Annotated[str, typer.Option("--k", help="Values of K; empty: the preset's.")] = "",
    temperature: Annotated[str, typer.Option(help="Temperatures.")] = "0",
    concurrency: Annotated[str, typer.Option(help="Requests at once, from 1 to 128.")] = "1",
    max_tokens: Annotated[int, typer.Option(help="An answer ends after this many tokens.")] = 256,
    seed: Annotated[int, typer.Option(help="For temperatures above 0.")] = 0,
    top_k: Annotated[int, typer.Option(help="Probabilities recorded for each position; cost speed.")] = 0,
    skip_bad_lines: SkipBadLines = False,
    out: Out = None,
    resume: Annotated[Path | None, typer.Option(help="Go on with the result in this folder.")] = None,
    as_json: Json = False,
) -> None:
    """Measure lanes on a data set; every combination of the values given is one row of the table.

    Exit status 1: a question got no answer, or an engine did not start. 130: stopped by Ctrl-C.
    """
    if resume is not None:
        _refuse_beside_resume(context)
        job = resume_job(resume, OwnEngines())
    else:
        order = _order(
            dataset, data, limit, turns, preset, lanes, k, temperature, concurrency, max_tokens, seed, top_k,
            skip_bad_lines,
        )  # fmt: skip
        job = start_job(order, OwnEngines(), out or new_result())
    _finish(job, _run(job), as_json)


@app.command(epilog="Example: python -m dflash_viz validate --pair embedded --dataset gsm8k --lanes dflash")
def validate(
    pair: PairName,
    dataset: CheckedDataset = "",
    data: Data = None,
    preset: CheckedPreset = "",
    lanes: Annotated[str, typer.Option(help="Only these lanes, with commas between.")] = "",
    drafter: Drafter = "",
    out: Out = None,
    resume: ResumedChecks = None,
    as_json: Json = False,
) -> None:
    """Run a pair's published or recorded checks: exit status 0 only when every expectation is met.

    Expectations that one benchmark cannot answer together are run one after another, each with a result of
    its own.
    """
    choice = Choice(dataset, data, named(preset), tuple(_words(lanes)), drafter)
    checks = plan_checks(pair, read_expectations(), choice)
    folders = begun_checks(checks, resume or [])
    if out is not None and len(folders) == len(checks):
        raise BenchError("--out is for a new result, --resume goes on with one: leave one of them out.")
    done: list[Done] = []
    for number, check in enumerate(checks):
        job = _job_of(check, folders.get(number), out and _place(out, checks, number))
        folders[number] = job.folder
        _announce(checks, number, job)
        if _run(job):
            _print(f"Stopped before everything was measured; the answers are in {job.folder}", sys.stderr)
            _print(f"Go on with it: {way_on(pair, choice, folders.values())}", sys.stderr)
            raise typer.Exit(EXIT_STOPPED)
        done.append((job.result, conclude(job.result, check)))
        _print(f"The result is in {job.folder}", sys.stderr)
    _conclude(done, as_json)


@app.command()
def report(
    result: Annotated[Path, typer.Argument(help="A result's folder, or its result.jsonl.")],
    to: Annotated[
        str, typer.Option(help=f"Formats: {', '.join(FORMATS)}; empty: the table is printed.")
    ] = "",
    out: Written = Path(),
    compare: Annotated[
        Path | None, typer.Option(help="A second result to compare with; not with --to.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Show a result again, compare it with another, or write it in other formats."""
    shown, formats = read_result(result), _words(to)
    if compare is not None:
        if formats:
            raise ResultError("--to writes one result, --compare prints two: leave one of them out.")
        _compare(shown, read_result(compare), as_json)
        return
    verdicts = judge(shown, read_expectations())
    if unknown := [name for name in formats if name not in FORMATS]:
        raise ResultError(f"There is no format {unknown[0]!r}. Formats: {', '.join(FORMATS)}.")
    if formats:
        _write(formats, lambda name, folder: write_measured(shown, verdicts, name, folder), out, as_json)
    else:
        _show(shown, verdicts, as_json)


@app.command()
def trace(
    path: Annotated[Path, typer.Argument(help="A trace file, or a folder of them.")],
    to: Annotated[str, typer.Option(help=f"Formats: {', '.join(FILES)}; empty: a summary is printed.")] = "",
    out: Written = Path(),
    as_json: Json = False,
) -> None:
    """Figures and diagnosis of recorded traces, or other formats of them."""
    traces = read_traces(path)
    formats = _words(to)
    if unknown := [name for name in formats if name not in FILES]:
        raise TraceError(f"There is no format {unknown[0]!r}. Formats: {', '.join(FILES)}.")
    if formats:
        _write(formats, lambda name, folder: _write_traces(traces, name, folder), out, as_json)
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


def _finish(job: BenchJob, stopped: bool, as_json: bool) -> None:
    """Show what a benchmark measured, where it is, and how to go on; ends with the exit status."""
    _show(job.result, judge(job.result, read_expectations()), as_json)
    _print(f"The result is in {job.folder}", sys.stderr)
    if stopped:
        command = shlex.join(["python", "-m", "dflash_viz", "bench", "--resume", str(job.folder)])
        _print(f"Go on with it: {command}", sys.stderr)
        raise typer.Exit(EXIT_STOPPED)
    if job.result.open_failures():
        raise typer.Exit(EXIT_FAILED)


def _conclude(done: Sequence[Done], as_json: bool) -> None:
    """Show what every benchmark of a validation measured, and all verdicts; ends with the exit status."""
    if as_json:
        _print_json(outcome_document(done))
    else:
        for result, validation in done:
            _print(markdown(result, validation.verdicts))
        _print(outcome(done))
    if not all(validation.passed for _, validation in done):
        raise typer.Exit(EXIT_FAILED)


def _job_of(check: Check, begun: Path | None, out: Path | None) -> BenchJob:
    """A check's benchmark, from its beginning or from where it was stopped."""
    if begun is not None:
        return resume_job(begun, OwnEngines(), check.specs())
    return start_job(check.order, OwnEngines(), out or new_result(), check.replaced)


def _place(out: Path, checks: Sequence[Check], number: int) -> Path:
    """Where one of several results lies: the folder itself where there is but one."""
    return out if len(checks) == 1 else out / f"{number + 1}-{checks[number].order.dataset}"


def _announce(checks: Sequence[Check], number: int, job: BenchJob) -> None:
    """Say before the first benchmark what all are, and before each where its questions do not fit."""
    if number == 0:
        _print(announced(checks), sys.stderr)
    if len(checks) > 1:
        _print(f"Benchmark {number + 1} of {len(checks)}", sys.stderr)
    for sentence in misfits(checks[number], job.result):
        _print(f"- {sentence}", sys.stderr)


def _bar() -> Bar:
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    return Bar(*columns, console=_terminal)


def _show(result: Result, verdicts: Sequence[Verdict], as_json: bool) -> None:
    if as_json:
        _print_json(document(result, verdicts))
    else:
        _print(markdown(result, verdicts))


def _compare(shown: Result, other: Result, as_json: bool) -> None:
    if as_json:
        _print_json(compare_document(shown, other))
    else:
        _print(compare_markdown(shown, other))


def _write_traces(traces: Sequence[Trace], name: str, folder: Path) -> list[Path]:
    file_name, write = FILES[name]
    write(traces, folder / file_name)
    return [folder / file_name]


def _write(formats: Sequence[str], make: Callable[[str, Path], list[Path]], out: Path, as_json: bool) -> None:
    """Write all formats into a folder, or none: a file that is there already is never replaced. Says which
    files were written."""
    with tempfile.TemporaryDirectory(prefix="dflash-viz-") as scratch:
        made = [file for name in dict.fromkeys(formats) for file in make(name, Path(scratch))]
        if taken := [file.name for file in made if (out / file.name).exists()]:
            raise ResultError(f"{out / taken[0]} is there already: choose another folder with --out.")
        out.mkdir(parents=True, exist_ok=True)
        files = [Path(shutil.copyfile(file, out / file.name)) for file in made]
    if as_json:
        _print_json([str(file) for file in files])
    else:
        _print("\n".join(str(file) for file in files))


def _print_json(made: Any) -> None:
    _print(json.dumps(made, indent=1, ensure_ascii=False))


def _print(text: str, to: TextIO | None = None) -> None:
    """Print what may hold text of models, users and files; control characters as JSON writes them."""
    print(printable(text), file=to)


def _order(
    dataset: str, path: Path | None, limit: int | None, turns: TurnChoice, preset: str, lanes: str, k: str,
    temperature: str, concurrency: str, max_tokens: int, seed: int, top_k: int, skip_bad_lines: bool,
) -> Order:  # fmt: skip
    return Order(
        preset=named(preset),
        dataset=dataset,
        path=path,
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


def _refuse_beside_resume(context: typer.Context) -> None:
    """What a result was begun with cannot be changed, so options that would change it are refused."""
    given = [
        parameter.opts[0]
        if parameter.opts[0].startswith("-")
        else f"the data set {context.params[parameter.name]}"
        for parameter in context.command.params
        if parameter.name not in (None, "resume", "as_json")
        and (source := context.get_parameter_source(parameter.name)) is not None
        and source.name != "DEFAULT"
    ]
    if given:
        raise BenchError(
            f"--resume goes on with what the result was begun with: leave out {', '.join(given)}."
        )


def _turns(choice: TurnChoice) -> Turns:
    return "both" if choice is TurnChoice.BOTH else "first"


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def _numbers(text: str, kind: type, option: str) -> list[Any]:
    try:
        return [kind(word) for word in _words(text)]
    except ValueError:
        raise LaneError(f"{option} takes numbers with commas between, not {text!r}.") from None
