"""How a measurement went on over time, and how figures change with the number of requests at once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import msgspec

from dflash_viz.metrics.measured.bootstrap import Estimate
from dflash_viz.metrics.measured.figures import setting_value
from dflash_viz.results import Result, Sample, Setting, labels
from dflash_viz.trace.counters import Counters

GAIN = "throughput_gain"
COUNTS = ("output_tokens", "num_drafts", "num_draft_tokens", "num_accepted")
ENOUGH = 4
"""Questions for each of those that run at once, from which the beginning and the end weigh little."""
SHORT = 0.5
"""Share of the interval before it under which an interval is no point of its own."""


@dataclass(frozen=True)
class CoursePoint:
    """One interval of a setting's measurement, from the differences of vLLM's own counters.

    ``at``: seconds measured until its end; ``throughput`` in tokens/s; ``al`` pooled over the interval,
    None without drafts; ``running`` and ``waiting``: requests at its end.
    """

    at: float
    throughput: float
    al: float | None
    running: int
    waiting: int


def course(result: Result, setting: int) -> list[CoursePoint]:
    """The course of a setting over all its stretches, one after another."""
    points: list[CoursePoint] = []
    before, last = 0.0, 0.0  # seconds of the stretches before this one, and of this one so far
    for sample in _joined([one for one in result.samples if one.setting == setting and one.seconds > 0]):
        # A sample that begins well before the last one ended belongs to a new stretch.
        if sample.at - sample.seconds < last - sample.seconds / 2:
            before, last = before + last, 0.0
        last = sample.at
        points.append(
            CoursePoint(
                before + sample.at,
                sample.output_tokens / sample.seconds,
                sample_length(sample),
                sample.running,
                sample.waiting,
            )
        )
    return points


def sample_length(sample: Sample) -> float | None:
    """The pooled AL of one interval, None without drafts."""
    counters = Counters(sample.num_drafts, sample.num_draft_tokens, sample.num_accepted)
    return counters.acceptance_length


def _joined(samples: list[Sample]) -> list[Sample]:
    """The samples with a short one at a stretch's end, which says little, as part of the one before."""
    found: list[Sample] = []
    for sample in samples:
        before = found[-1] if found else None
        follows = before is not None and abs(sample.at - sample.seconds - before.at) < before.seconds / 2
        if before is not None and follows and sample.seconds < before.seconds * SHORT:
            found[-1] = msgspec.structs.replace(
                sample,
                seconds=before.seconds + sample.seconds,
                **{name: getattr(before, name) + getattr(sample, name) for name in COUNTS},
            )
        else:
            found.append(sample)
    return found


def lane_labels(settings: Iterable[Setting]) -> list[str]:
    """The settings' names without their concurrency: what a curve over it is called."""
    return labels(msgspec.structs.replace(one, concurrency=1) for one in settings)


def against(result: Result, key: str) -> dict[str, list[tuple[int, Estimate]]]:
    """A figure of ``MEASURED`` against the number of requests at once: a curve for every lane, K and
    temperature, by its label. Settings without the figure are left out."""
    settings = result.plan.settings
    curves: dict[str, list[tuple[int, Estimate]]] = {}
    for number, label in enumerate(lane_labels(settings)):
        if (estimate := setting_value(result, number, key)) is not None:
            curves.setdefault(label, []).append((settings[number].concurrency, estimate))
    return {label: sorted(curve, key=lambda point: point[0]) for label, curve in curves.items()}


def stops_paying(result: Result) -> list[str]:
    """For every lane that was measured at several concurrencies, up to where it delivers more tokens than
    no speculation: one sentence each. Settings that are not finished say nothing here, nor do those whose
    setting without speculation is not."""
    settings = result.plan.settings
    gains: dict[str, list[tuple[int, float]]] = {}
    for number, label in enumerate(lane_labels(settings)):
        plain = result.plain_of(number)
        if plain is None or not (result.finished(number) and result.finished(plain)):
            continue
        if (gain := setting_value(result, number, GAIN)) is not None:
            gains.setdefault(label, []).append((settings[number].concurrency, gain.value))
    gains = {label: sorted(curve) for label, curve in gains.items()}
    return [f"{label}: {_sentence(curve)}" for label, curve in gains.items() if len(curve) > 1]


def _sentence(curve: list[tuple[int, float]]) -> str:
    """``curve``: requests at once, sorted, with throughput / that of no speculation."""
    faster = [(n, gain) for n, gain in curve if gain > 1]
    slower = [(n, gain) for n, gain in curve if gain <= 1]
    span = f"from {curve[0][0]} to {curve[-1][0]} at once"
    if not slower:
        return f"faster than no speculation throughout, {span} ({_times(curve[-1])} at {curve[-1][0]})."
    if not faster:
        best = max(curve, key=lambda point: point[1])
        return f"not faster than no speculation at any number measured, {span} (at best {_times(best)})."
    if faster[-1][0] < slower[0][0]:
        up_to, beyond = faster[-1], slower[0]
        return (
            f"faster than no speculation up to {up_to[0]} at once ({_times(up_to)}), slower at "
            f"{beyond[0]} ({_times(beyond)})."
        )
    return f"faster than no speculation at {_listed(faster)} at once, slower at {_listed(slower)}."


def _listed(points: list[tuple[int, float]]) -> str:
    return ", ".join(f"{point[0]} ({_times(point)})" for point in points)


def _times(point: tuple[int, float]) -> str:
    return f"{point[1]:.2f} ×"


def few_questions(num_questions: float, concurrencies: Iterable[int]) -> str:
    """A sentence where there are few questions for so many at once; empty where there are enough."""
    few = sorted({one for one in concurrencies if one > 1 and num_questions < ENOUGH * one})
    if not few:
        return ""
    said = f"Few questions ({num_questions}) for {_together(few)} at once: "
    if few[-1] > num_questions:
        said += f"no more than {num_questions} ever run at once; "
    return (
        f"{said}the beginning and the end, with fewer at once, weigh in throughput and speedup. "
        f"{ENOUGH * few[-1]} questions or more are enough."
    )


def _together(numbers: Sequence[int]) -> str:
    *first, last = map(str, numbers)
    return f"{', '.join(first)} and {last}" if first else last
