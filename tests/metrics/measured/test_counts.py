"""A setting's answers, added up, against what vLLM's /metrics counted while it was measured."""

from __future__ import annotations

import msgspec
import pytest

from dflash_viz.metrics.measured import ServerCheck, server_checks
from dflash_viz.metrics.measured.sums import added
from dflash_viz.results import Failure, Result, Stretch
from tests.measured import empty_result, made_result, made_settings

ALL = "all sums are vLLM's"
STOPPED = "a request failed, or the measuring was interrupted"


def change_stretch(result: Result, setting: int, **changes: object) -> Stretch:
    """Change fields of a setting's stretch; the stretch as it was."""
    place = next(i for i, one in enumerate(result.stretches) if one.setting == setting)
    before = result.stretches[place]
    result.stretches[place] = msgspec.structs.replace(before, **changes)
    return before


def test_every_setting_that_adds_up_agrees() -> None:
    result = made_result(num_turns=2)
    assert server_checks(result) == [ServerCheck(number, True, ALL) for number in range(4)]


@pytest.mark.parametrize(
    ("field", "what"),
    [
        ("output_tokens", "output tokens"),
        ("num_drafts", "drafts"),
        ("num_draft_tokens", "drafted tokens"),
        ("num_accepted", "accepted tokens"),
    ],
)
def test_one_more_anywhere_is_a_difference(field: str, what: str) -> None:
    result = made_result()
    number = getattr(result.stretches[1], field)
    change_stretch(result, 1, **{field: number + 1})
    found = server_checks(result)
    assert found[1] == ServerCheck(1, False, f"{what}: {number}, vLLM {number + 1}")
    assert [one.agrees for one in found] == [True, False, True, True]


def test_positions_are_compared_each() -> None:
    result = made_result()
    first, second, *rest = result.stretches[0].accepted_per_position
    change_stretch(result, 0, accepted_per_position=[first, second, *rest, 0])
    assert server_checks(result)[0].agrees, "a position where nothing was accepted counts for nothing"
    change_stretch(result, 0, accepted_per_position=[first + 1, second - 1, *rest])
    assert server_checks(result)[0].message.startswith(f"accepted per position: [{first}, {second}, ")
    change_stretch(result, 0, accepted_per_position=[])
    assert server_checks(result)[0].agrees is False


def test_what_failed_or_was_stopped_cannot_be_compared() -> None:
    result = made_result()
    result.failures = [Failure(0, "timed out", "q1")]  # made good since, but counted twice by vLLM
    change_stretch(result, 1, finished=False)
    result.stretches = [one for one in result.stretches if one.setting != 2]
    assert server_checks(result) == [
        ServerCheck(0, None, STOPPED), ServerCheck(1, None, STOPPED), ServerCheck(2, None, STOPPED),
        ServerCheck(3, True, ALL),
    ]  # fmt: skip


def test_an_interrupted_setting_that_was_finished_later_cannot_be_compared() -> None:
    result = made_result()
    whole = change_stretch(result, 0, num_answers=12)
    result.stretches.insert(0, Stretch(0, 1.0, 0, 0, 5, 0, 0, 0, finished=False))
    assert whole.finished
    assert server_checks(result)[0] == ServerCheck(0, None, STOPPED)


def test_missing_answers_cannot_be_compared() -> None:
    result = made_result()
    del result.answers[0]
    assert server_checks(result)[0] == ServerCheck(0, None, "answers are missing from the result")


def test_nothing_measured_is_nothing_to_compare() -> None:
    assert server_checks(empty_result(made_settings(), 3)) == []


def test_lists_of_unequal_length_are_added() -> None:
    assert added([[1, 2], [3], [], [0, 0, 5]]) == [4, 2, 5]
    assert added([]) == []
