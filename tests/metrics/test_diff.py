"""Two traces of one prompt: where they agree, who was faster there, and what was different."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from dflash_viz.metrics import Difference, DiffError, FieldDifference, diff
from dflash_viz.trace import Sampling, Step, Trace
from tests.conftest import make_header
from tests.metrics.made import contended, engine, made, made_plain, recorded_runs


def test_a_trace_against_itself() -> None:
    found = diff(made([3, 0, 2]), made([3, 0, 2]))
    assert [(span.start, span.end, span.same_steps, span.won) for span in found.spans] == [
        (1, 5, True, 0), (5, 6, True, 0), (6, 9, True, 0),
    ]  # fmt: skip
    assert (found.parting, found.rest_a, found.rest_b, found.fields, found.incomparable_times) == (
        None, 0, 0, (), (),
    )  # fmt: skip


def test_spans_lie_between_common_ends() -> None:
    """A ends steps after tokens 1, 5, 6, 9, 11; B after 1, 3, 6, 8, 9, 11."""
    a, b = made([3, 0, 2, 1]), made([1, 2, 1, 0, 1], step_s=0.03)
    found = diff(a, b)
    assert [(span.start, span.end) for span in found.spans] == [(1, 6), (6, 9), (9, 11)]
    first, second, last = found.spans
    assert (first.tokens, first.a.first, first.a.steps, first.b.first, first.b.steps) == (5, 1, 2, 1, 2)
    assert (first.a.al, first.b.al) == (2.5, 2.5)
    assert (second.a.steps, second.a.al, second.b.steps, second.b.al) == (1, 3.0, 2, 1.5)
    assert second.won == pytest.approx(0.05 - 2 * 0.03)
    assert last.won == pytest.approx(0.05 - 0.03)
    assert [span.same_steps for span in found.spans] == [False, False, False], "drafted tokens differ"
    assert found.total
    assert found.total.won == pytest.approx(4 * 0.05 - 5 * 0.03)
    assert sum(span.won for span in found.spans) == pytest.approx(found.total.won)
    assert (found.prompt_a, found.prompt_b) == (0.2, 0.2)


def test_the_same_tokens_by_another_block() -> None:
    """Same boundaries and tokens, but one drafted another discarded suffix."""
    a, b = made([3, 1]), made([3, 1])
    b.steps[2] = msgspec.structs.replace(b.steps[2], drafted=[*b.steps[2].drafted[:-1], 77])
    assert [span.same_steps for span in diff(a, b).spans] == [True, False]


def test_time_between_two_steps_belongs_to_the_later() -> None:
    late = made([1, 1])
    late.steps[2] = msgspec.structs.replace(late.steps[2], start=0.95, end=1.0)
    found = diff(made([1, 1]), late)
    assert [span.b.seconds for span in found.spans] == pytest.approx([0.05, 0.75])


def test_against_no_speculation_every_step_is_a_span() -> None:
    plain = made_plain(9)
    found = diff(plain, made([3, 0, 2]))
    assert [(span.start, span.end, span.a.steps, span.b.steps) for span in found.spans] == [
        (1, 5, 4, 1), (5, 6, 1, 1), (6, 9, 3, 1),
    ]  # fmt: skip
    assert {span.a.al for span in found.spans} == {None}
    assert found.spans[0].won == pytest.approx(4 * 0.03 - 0.05)


def test_texts_that_part_are_compared_up_to_there() -> None:
    a = made([3, 0, 2])
    tokens = list(a.output_token_ids)
    tokens[7] = 999
    found = diff(a, made_plain([*tokens, 5, 6]))
    assert found.parting == Difference(7, a.output_token_ids[7], 999)
    assert [(span.start, span.end) for span in found.spans] == [(1, 5), (5, 6)]
    assert (found.rest_a, found.rest_b) == (3, 5)


def test_one_answer_is_shorter() -> None:
    found = diff(made([3, 0, 2]), made_plain(8))
    assert found.parting is None
    assert [(span.start, span.end) for span in found.spans] == [(1, 5), (5, 6)]
    assert (found.rest_a, found.rest_b) == (3, 2)


@pytest.mark.parametrize("steps", [0, 1])
def test_answers_that_hardly_began(steps: int) -> None:
    short = Trace(make_header(), made([]).steps[:steps])
    for found in (diff(short, made([3])), diff(made([3]), short), diff(short, short)):
        assert (found.spans, found.total) == ((), None)


def test_other_prompts_are_refused() -> None:
    with pytest.raises(DiffError, match=r"different prompts \(2 and 3 tokens; they part at prompt token 1\)"):
        diff(made([1]), made([1], prompt_token_ids=[1, 5, 6]))
    with pytest.raises(DiffError, match="one goes on where the other ends"):
        diff(made([1]), made([1], prompt_token_ids=[1, 2, 6]))


def test_every_difference_is_listed_by_its_path() -> None:
    old = engine(versions={"vllm": "0.31.0", "torch": "2.12"})
    new = engine(k=7, versions={"vllm": "0.32.0", "torch": "2.12", "gradio": "6"}, eager=True)
    a = made([1], fingerprint=old, cached=4)
    b = made([1], fingerprint=new, sampling=Sampling(temperature=0.5), contended_with=["x", "y"])
    found = diff(a, b)
    assert set(found.fields) == {
        FieldDifference("num_speculative_tokens", "5", "7"),
        FieldDifference("trained_block_size", "6", "8"),
        FieldDifference("versions.vllm", "0.31.0", "0.32.0"),
        FieldDifference("versions.gradio", "–", "6"),
        FieldDifference("eager", "–", "yes"),
        FieldDifference("sampling.temperature", "0.0", "0.5"),
        FieldDifference("contended_with", "none", "x, y"),
        FieldDifference("num_cached_prompt_tokens", "4", "0"),
    }
    assert found.incomparable_times == ("B ran at the same time as x, y on one machine.",)


def test_a_missing_drafter_is_listed_field_by_field() -> None:
    paths = {field.path: field for field in diff(made([1]), made_plain(3)).fields}
    assert paths["drafter.name"] == FieldDifference("drafter.name", "drafter", "–")
    assert paths["drafter.layer_ids"] == FieldDifference("drafter.layer_ids", "1, 8", "–")


def test_times_that_are_not_comparable() -> None:
    shared = made([1, 1])
    shared.steps[1] = msgspec.structs.replace(shared.steps[1], batch_size=2)
    assert diff(made([1, 1]), shared).incomparable_times == ("B shared engine steps with other requests.",)
    assert len(diff(contended(made([1])), contended(made([1]))).incomparable_times) == 2
    moved = made([1], fingerprint=engine(device=None))
    assert diff(made([1]), moved).incomparable_times == ("A ran on CPU, B on an unknown device.",)


def test_steps_that_emit_nothing_do_no_harm() -> None:
    a = made([3, 2])
    idle = Step(3, 0.3, 0.4, 0.1, [], offset=8)
    found = diff(Trace(a.header, [*a.steps, idle]), made([3, 2]))
    assert [(span.start, span.end, span.same_steps) for span in found.spans] == [(1, 5, True), (5, 8, True)]


def test_recorded_lanes_add_up() -> None:
    traces = recorded_runs()[0]
    for a in traces:
        for b in traces:
            found, back = diff(a, b), diff(b, a)
            assert found.total
            assert found.parting is None
            assert found.total.end == len(a.output_token_ids)
            assert sum(span.won for span in found.spans) == pytest.approx(found.total.won)
            assert sum(span.a.steps for span in found.spans) == len(a.decode_steps)
            assert [replace(span, a=span.b, b=span.a) for span in found.spans] == list(back.spans)
