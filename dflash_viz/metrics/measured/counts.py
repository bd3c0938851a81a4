"""A setting's answers, added up, against what vLLM's ``/metrics`` counted while it was measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dflash_viz.metrics.measured.sums import added
from dflash_viz.results import Answer, Result, Stretch


@dataclass(frozen=True)
class ServerCheck:
    """Whether a setting's sums are vLLM's; ``agrees`` is None where they cannot be compared, and
    ``message`` says why, or what differs."""

    setting: int
    agrees: bool | None
    message: str


def server_checks(result: Result) -> list[ServerCheck]:
    """The check of every setting that has been measured at all, output tokens, drafts, drafted and accepted
    tokens in all and per position.

    vLLM's counters hold what failed and what was stopped too, so that only settings without either can be
    compared.
    """
    answers: dict[int, list[Answer]] = {}
    for answer in result.answers:
        answers.setdefault(answer.setting, []).append(answer)
    failed = {failure.setting for failure in result.failures}
    stretches: dict[int, list[Stretch]] = {}
    for stretch in result.stretches:
        stretches.setdefault(stretch.setting, []).append(stretch)
    return [
        _checked(setting, answers.get(setting, []), stretches.get(setting, []), setting in failed)
        for setting in sorted(answers.keys() | stretches.keys())
    ]


def _checked(setting: int, answers: list[Answer], stretches: list[Stretch], failed: bool) -> ServerCheck:
    if failed or not stretches or not all(one.finished for one in stretches):
        return ServerCheck(setting, None, "a request failed, or the measuring was interrupted")
    if len(answers) != sum(one.num_answers for one in stretches):
        return ServerCheck(setting, None, "answers are missing from the result")
    ours, theirs = _sums(answers), _sums(stretches)
    told = [f"{what}: {ours[what]}, vLLM {theirs[what]}" for what in ours if ours[what] != theirs[what]]
    return ServerCheck(setting, not told, "; ".join(told) or "all sums are vLLM's")


def _sums(of: Sequence[Answer | Stretch]) -> dict[str, int | list[int]]:
    """What both sides count, in words. Positions at which nothing was accepted count for nothing."""
    positions = added(one.accepted_per_position for one in of)
    while positions and not positions[-1]:
        positions.pop()
    return {
        "output tokens": sum(_output_tokens(one) for one in of),
        "drafts": sum(one.num_drafts for one in of),
        "drafted tokens": sum(one.num_draft_tokens for one in of),
        "accepted tokens": sum(one.num_accepted for one in of),
        "accepted per position": positions,
    }


def _output_tokens(one: Answer | Stretch) -> int:
    return one.output_tokens if isinstance(one, Stretch) else one.num_output_tokens
