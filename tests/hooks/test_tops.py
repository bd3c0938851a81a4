"""Top-k of positions, held against the plain computation."""

from __future__ import annotations

import pytest
import torch

from dflash_viz.hooks import tops
from dflash_viz.hooks.tops import Pinned, Positions, Span, TopFinder

VOCAB = 50


def logits(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, VOCAB, generator=torch.Generator().manual_seed(sum(shape)))


def found(at: Positions, k: int) -> tuple[list[list[int]], list[list[float]], list[float]]:
    """Of one request that has every row."""
    finder = TopFinder()
    top = finder.find(at, {"r": Span(0, k)}).of("r", at.num_rows, at.num_rows)
    assert top is not None
    return top.ids, top.p, top.p_drafted


def plain(
    rows: torch.Tensor, drafted: list[int], k: int
) -> tuple[list[list[int]], list[list[float]], list[float]]:
    p = torch.softmax(rows.double(), -1)
    values, ids = p.topk(k)
    return (
        ids.tolist(),
        values.tolist(),
        [float(row[max(token, 0)]) for row, token in zip(p, drafted, strict=True)],
    )


def same(one: tuple, other: tuple) -> None:
    assert one[0] == other[0]
    for mine, theirs in zip(one[1], other[1], strict=True):
        assert mine == pytest.approx(theirs, abs=1e-6)
    assert one[2] == pytest.approx(other[2], abs=1e-6)


@pytest.mark.parametrize("size", [1 << 26, VOCAB * 3], ids=["at once", "in parts"])
def test_rows_with_their_drafted_tokens(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    monkeypatch.setattr(tops, "MAX_ELEMENTS", size)
    rows = logits(7)
    drafted = torch.tensor([3, 4, -1, 49, 0, 7, 9])
    same(found(Positions(rows, 7, drafted), 5), plain(rows, drafted.tolist(), 5))


def test_chosen_rows_and_what_the_next_ones_have_read() -> None:
    rows, ids = logits(6), torch.tensor([90, 11, 12, 13, 14, 15, 16], dtype=torch.int32)
    reads = torch.arange(1, 7)
    chosen = torch.tensor([0, 1, 3, 4], dtype=torch.int32)
    at = Positions(rows, 4, ids, index=chosen, reads=reads)
    same(found(at, 3), plain(rows[[0, 1, 3, 4]], [12, 13, 15, 16], 3))
    everything = found(Positions(rows, 6, ids, reads=reads), 3)
    same(tuple(part[:5] for part in everything), plain(rows[:5], [12, 13, 14, 15, 16], 3))


def test_blocks_of_states_before_the_temperature() -> None:
    """What the drafter's buffer holds beyond K, and a state that draws nothing, change nothing."""
    states = logits(4, 3)
    scale = torch.tensor([0.5, 0.0, 2.0, 1.0])
    at = Positions(states, 4, torch.tensor([[1, 2], [3, 4]]), per=2, index=torch.tensor([2, 1]), scale=scale)
    expected = torch.cat((states[2, :2] * 2.0, states[1, :2]))
    same(found(at, 4), plain(expected, [1, 2, 3, 4], 4))


def test_each_request_has_its_own() -> None:
    top = TopFinder().find(Positions(logits(5), 5, torch.zeros(5)), {"a": Span(0, 2), "b": Span(2, 4)})
    a, b = top.of("a", 2, 1), top.of("b", 3, 2)
    assert a is not None
    assert b is not None
    assert [len(ids) for ids in a.ids] == [2, 2]
    assert [len(ids) for ids in b.ids] == [4, 4, 4]
    assert (len(a.p_drafted), len(b.p_drafted)) == (1, 2)
    assert top.of("c", 1, 1) is None


def test_more_than_there_are_is_all() -> None:
    ids, p, _ = found(Positions(logits(1), 1, torch.zeros(1)), VOCAB + 9)
    assert sorted(ids[0]) == list(range(VOCAB))
    assert sum(p[0]) == pytest.approx(1.0, abs=1e-5)


def test_memory_is_used_again() -> None:
    finder = TopFinder()
    at = Positions(logits(2), 2, torch.zeros(2))
    first = finder.find(at, {"r": Span(0, 2)})
    second = finder.find(at, {"r": Span(0, 2)})
    assert first.buffer.data_ptr() != second.buffer.data_ptr()
    finder.done(first)
    finder.done(None)
    assert finder.find(at, {"r": Span(0, 2)}).buffer.data_ptr() == first.buffer.data_ptr()


def test_a_buffer_that_is_too_small_is_left() -> None:
    pinned = Pinned(torch.int32)
    small = pinned.take(10, pin=False)
    pinned.give(small)
    assert len(pinned.take(100_000, pin=False)) >= 100_000
    assert pinned.copy(torch.arange(5))[:5].tolist() == [0, 1, 2, 3, 4]
