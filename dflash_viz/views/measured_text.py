"""How a benchmark's figures and facts are written: the same words in the app, the report and the files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from dflash_viz.metrics.figures import Figure
from dflash_viz.metrics.measured import MEASURED, Verdict, few_questions, server_checks
from dflash_viz.metrics.measured.bootstrap import MIN_PROMPTS, RESAMPLES, Estimate
from dflash_viz.metrics.measured.sums import cells
from dflash_viz.results import Answer, DatasetPrint, Result, Setting, labels

FIGURE = {figure.key: figure for figure in MEASURED}
"""The figures of the tables, by key."""
MAIN = ("al", "al_mean", "per_step", "speed", "speedup", "throughput", "latency")
"""The keys of the main table, in its order."""
INTERVALS = (
    "95 % interval: percentile interval of a bootstrap over prompts. As many prompts as were asked are drawn "
    f"from them with replacement, {RESAMPLES} times, all turns of a question together, always with the same "
    "seed. It tells how far other prompts of the same kind would move a figure, not how far another run of "
    f"the same prompts would. There is none for fewer than {MIN_PROMPTS} prompts."
)
NONE = "–"
"""What stands where there is no value."""
MARKS = {"pass": "✓ pass", "fail": "✗ fail", "not comparable": "– not comparable"}
AL_NAMES = {"al": "AL, pooled", "al_mean": "AL, mean of requests"}
TURNS = {"first": "the first turn of each", "both": "all turns of each"}

_REST = "requests that failed or were stopped count there too"
_OTHERS = "Somebody else may have asked the same engine."
_DIGITS = {"rate": 1, "speed": 1, "throughput": 1, "draft_ms": 1, "verify_ms": 1, "answers": 0, "failures": 0}


def digits(key: str) -> int:
    """Decimal places of a figure."""
    return _DIGITS.get(key, 2)


def with_interval(estimate: Estimate | None, places: int = 2) -> str:
    """An estimate with its interval behind it, a dash where there is none."""
    if estimate is None:
        return NONE
    value = f"{estimate.value:.{places}f}"
    if estimate.low is None or estimate.high is None:
        return value
    return f"{value} [{estimate.low:.{places}f}, {estimate.high:.{places}f}]"


def column(figure: Figure) -> str:
    """A figure as the head of a column: its name, and its unit if the name does not say it."""
    told = not figure.unit or figure.unit in figure.label.split()
    return figure.label if told else f"{figure.label}, {figure.unit}"


def defined(keys: Sequence[str]) -> list[tuple[str, str]]:
    """The figures with the sentences that define them."""
    return [(column(FIGURE[key]), FIGURE[key].definition) for key in keys]


def num_prompts(result: Result, setting: int) -> int:
    """How many questions of a setting have an answer; a question's turns count once."""
    return len({question for question, _ in cells(result, setting)})


def counted(result: Result) -> list[Answer]:
    """The answers that the figures are over, by setting: of several to one turn the last."""
    return [one for n in range(len(result.plan.settings)) for one in cells(result, n).values()]


def title(result: Result) -> str:
    """A result in a few words: the pair, the data set, when it was measured."""
    plan = result.plan
    return f"{Path(plan.pair).stem} on {plan.dataset.name}, {result.head.created_at[:16].replace('T', ' ')}"


def about(result: Result) -> list[tuple[str, str]]:
    """What was asked, and how: terms with what they were."""
    plan = result.plan
    return [
        ("Data set", dataset(plan.dataset)),
        ("Answers", f"at most {plan.max_tokens} tokens; {_sampled(result)}"),
        ("At the same time", _concurrency(plan.settings)),
        ("Measured with", f"{result.head.program}, begun {result.head.created_at[:19]}"),
        ("Recorded probabilities", f"{plan.top_k} a position" if plan.top_k else "none"),
    ]


def dataset(asked: DatasetPrint) -> str:
    """Which questions were asked, of how many, from where."""
    content = f"; content {asked.content_hash[:12]}" if asked.content_hash else ""
    return (
        f"{asked.name}, from {asked.source}: {asked.num_questions} of {asked.num_available} questions, "
        f"{TURNS[asked.turns]}{content}"
    )


def _sampled(result: Result) -> str:
    plan = result.plan
    used = sorted({one.temperature for one in plan.settings})
    how = f"temperature {', '.join(f'{one:g}' for one in used)}"
    return f"{how}, top-p {plan.top_p:g}, seed {plan.seed}" if any(used) else f"{how} (always the best token)"


def _concurrency(settings: Sequence[Setting]) -> str:
    used = sorted({one.concurrency for one in settings})
    if used == [1]:
        return "one request, alone on the engine"
    return f"{', '.join(map(str, used))} requests; those of one setting share the engine's steps"


def state(result: Result) -> tuple[str, str]:
    """Whether the result is complete: a sentence, and the kind of its paragraph."""
    names = labels(result.plan.settings)
    left = [name for number, name in enumerate(names) if not result.finished(number)]
    if result.complete:
        return f"✓ Complete: all {len(names)} settings were measured to their end.", ""
    return (
        f"✗ Not complete: {len(left)} of {len(names)} settings were not measured to their end "
        f"({'; '.join(left)}). Their figures are over what was answered until then.",
        "problem",
    )


def checks(result: Result) -> tuple[str, str]:
    """Whether the traces agree with what vLLM counted itself: a sentence, and the kind of its paragraph."""
    counts = check_counts(result)
    total = counts.total()
    if not total:
        return "Nothing has been answered yet.", "note"
    silent = f" vLLM gave nothing to compare with for {counts[None]}." if counts[None] else ""
    said = f"{counts[True]} of {total} answers agree with vLLM's own counts"
    if not counts[False]:
        return f"{said}.{silent}", ""
    wrong = next(one.check.message for one in counted(result) if one.check.agrees is False)
    return f"✗ {said}, {counts[False]} do not.{silent} The first that does not: {wrong}", "problem"


def check_counts(result: Result) -> Counter[bool | None]:
    """How many answers agree with vLLM's own counts, do not, or have nothing to compare with (None)."""
    return Counter(one.check.agrees for one in counted(result))


def server_sums(result: Result) -> tuple[str, str]:
    """Whether the sums of each setting's answers are those of vLLM's ``/metrics``: a sentence, and the kind
    of its paragraph; an empty sentence where nothing has been measured."""
    found = server_checks(result)
    compared = [one for one in found if one.agrees is not None]
    rest = len(found) - len(compared)
    silent = f"{rest} of {len(found)} settings cannot be compared with vLLM's /metrics: {_REST}."
    if not compared:
        return silent if found else "", "note"
    agree = sum(one.agrees is True for one in compared)
    said = f"The answers of {agree} of {len(compared)} settings add up to what vLLM's /metrics counted."
    said += f" {silent}" if rest else ""
    if agree == len(compared):
        return said, ""
    names = labels(result.plan.settings)
    wrong = "; ".join(f"{names[one.setting]}: {one.message}" for one in compared if not one.agrees)
    return f"✗ {said} {_OTHERS} {shortened(wrong, 400)}", "problem"


def few(result: Result) -> str:
    """A sentence where there are few questions for so many at once; empty where there are enough."""
    settings = result.plan.settings
    return few_questions(result.plan.dataset.num_questions, {one.concurrency for one in settings})


def failures(result: Result) -> list[str]:
    """A sentence for every question that got no answer, and every engine that did not start."""
    names = labels(result.plan.settings)
    return [
        f"{names[one.setting]}, {f'question {one.question}' if one.question else 'engine'}: {one.message}"
        for one in result.open_failures()
    ]


def fitting_setting(result: Result, verdict: Verdict) -> str:
    """The name of the setting that a verdict is about."""
    return labels(result.plan.settings)[verdict.setting]


def shortened(text: str, length: int) -> str:
    """A text on one line, cut with an ellipsis where it is longer."""
    line = " ".join(text.split())
    return line if len(line) <= length else line[: length - 1] + "…"
