"""Where n-gram copied a block from: by hand, and on the recorded run of a real n-gram lane."""

from __future__ import annotations

import pytest

from dflash_viz.bench.record import read_gallery
from dflash_viz.metrics import CopyFinder
from dflash_viz.metrics.lookup import DEFAULT_WINDOW
from dflash_viz.trace import Fingerprint, ModelPrint, Step
from tests.conftest import make_header


def finder(prompt: list[int], shortest: int = 1, longest: int = 3) -> CopyFinder:
    fingerprint = Fingerprint("ngram", ModelPrint("t"), prompt_lookup_min=shortest, prompt_lookup_max=longest)
    return CopyFinder(make_header(prompt_token_ids=prompt, fingerprint=fingerprint))


def block(drafted: list[int], emitted: list[int]) -> Step:
    return Step(1, 0.0, 0.1, 0.1, emitted, drafted=drafted)


@pytest.mark.parametrize(
    ("prompt", "drafted", "found"),
    [
        ([7, 1, 2, 3, 7, 1, 2], [3, 7], (3, 3)),  # the longest n-gram that ends the prompt
        ([1, 4, 1, 5, 1], [4, 1], (1, 1)),  # its earliest place
        ([1, 4, 1, 5, 1], [5, 1], None),  # not what a lookup gives
        ([1, 2, 3], [3], None),  # nothing to find
        ([1, 1], [1], (1, 1)),
        ([5, 1, 2, 9, 1, 2, 5, 1, 2], [9, 1], (3, 3)),  # the longest match, not the earliest short one
    ],
)
def test_by_hand(prompt: list[int], drafted: list[int], found: tuple[int, int] | None) -> None:
    assert finder(prompt).feed(block(drafted, [])) == found


def test_the_answer_is_searched_too_once_it_is_there() -> None:
    one = finder([1, 2])
    assert one.feed(block([], [9, 8, 9])) is None
    assert one.feed(block([8, 9], [8])) == (3, 1)
    assert one.feed(Step(2, 0.1, 0.2, 0.1, [1], drafted=[0, 0], padded=True)) is None


def test_shorter_n_grams_than_the_engine_looks_up_are_not_reported() -> None:
    assert finder([1, 4, 1], shortest=2).feed(block([4], [])) is None


def test_every_block_of_a_real_lane_has_its_source() -> None:
    blocks = 0
    for trace in (t for run in read_gallery() for t in run.traces if t.header.lane == "ngram"):
        one, context = CopyFinder(trace.header), list(trace.header.prompt_token_ids)
        for step in trace.steps:
            found = one.feed(step)
            assert (found is not None) == bool(step.drafted)
            if found is not None:
                at, n = found
                assert context[at : at + len(step.drafted)] == step.drafted
                assert context[at - n : at] == context[len(context) - n :]
                assert DEFAULT_WINDOW[0] <= n <= DEFAULT_WINDOW[1]
                blocks += 1
            context += step.emitted
    assert blocks > 50
