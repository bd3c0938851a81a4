"""Joining hooks and answer: whatever the order, no step is lost, invented or wrong."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from dflash_viz.hooks.wire import EngineStep, Row, TopK
from dflash_viz.lanes.assemble import Assembler, EngineCounts
from dflash_viz.trace import Position, TokenProb


def texts(tokens: set[int]) -> dict[int, str]:
    return {t: str(t) for t in tokens}


def record(seq: int, row: Row) -> EngineStep:
    start = 10.0 + seq / 10
    drafted = (start - 0.02, start - 0.01) if row.drafted else (0.0, 0.0)
    return EngineStep(seq, start, start + 0.05, [row], *drafted)


ROWS = [
    Row("r", 0, [100], prefill=True),
    Row("r", 1, [1, 2, 50], [1, 2, 3]),
    Row("r", 2, [4, 5, 6, 7], [4, 5, 6]),
    Row("r", 3, [51], [9, 9, 9]),
]
ANSWER = [100, 1, 2, 50, 4, 5, 6, 7, 51]
COUNTS = EngineCounts([2, 3, 0], [3, 3, 3])


def assemble(rows: list[Row], answer: list[int]) -> Assembler:
    assembler = Assembler(texts, {100})
    for seq, row in enumerate(rows):
        assembler.add_row(record(seq, row), row)
    assembler.add_tokens(answer)
    assembler.finish()
    assembler.ready()
    return assembler


def test_steps_and_times() -> None:
    assembler = assemble(ROWS, ANSWER)
    assert [s.last for s in assembler.steps] == ["plain", "recovered", "bonus", "recovered"]
    assert [s.num_accepted for s in assembler.steps] == [0, 2, 3, 0]
    assert [s.offset for s in assembler.steps] == [0, 1, 4, 8]
    assert [s.prefill for s in assembler.steps] == [True, False, False, False]
    assert [round(s.end, 6) for s in assembler.steps] == [0.05, 0.15, 0.25, 0.35]
    assert [round(s.draft_s, 6) for s in assembler.steps] == [0.0, 0.01, 0.01, 0.01]
    assert assembler.steps[1].tokens == {1: "1", 2: "2", 3: "3", 50: "50"}
    assert 1 not in assembler.steps[2].tokens
    assert assembler.check(COUNTS, expect_counts=True).agrees is True


@given(st.lists(st.booleans(), min_size=40, max_size=40), st.randoms(use_true_random=False))
def test_any_interleaving_gives_the_same_steps(choices: list[bool], rng: random.Random) -> None:
    rows, answer = list(enumerate(ROWS)), list(ANSWER)
    assembler, seen = Assembler(texts, {100}), []
    for choose_row in choices:
        if choose_row and rows:
            seq, row = rows.pop(0)
            assembler.add_row(record(seq, row), row)
        elif answer:
            size = rng.randint(1, len(answer))
            assembler.add_tokens(answer[:size])
            del answer[:size]
        seen += assembler.ready()
    for seq, row in rows:
        assembler.add_row(record(seq, row), row)
    assembler.add_tokens(answer)
    assembler.finish()
    seen += assembler.ready()
    assert seen == assemble(ROWS, ANSWER).steps
    assert assembler.complete


def test_stop_condition_inside_a_block_cuts_it() -> None:
    assembler = assemble(ROWS, ANSWER[:6])
    assert assembler.steps[-1].emitted == [4, 5]
    assert assembler.steps[-1].last is None
    assert assembler.steps[-1].num_accepted == 3
    # The last record was computed for a request that had ended: it is no step of the answer.
    assert len(assembler.steps) == 3
    assert assembler.check(EngineCounts([2, 3], [3, 3]), expect_counts=True).agrees is True


def test_disagreements_are_named() -> None:
    assembler = assemble(ROWS, ANSWER)
    wrong = assembler.check(EngineCounts([2, 1, 0], [3, 3, 3]), expect_counts=True)
    assert wrong.agrees is False
    assert "step 1: recorded 3 of 3 accepted, vLLM counted 1 of 3" in wrong.message
    assert assembler.check(EngineCounts([2, 3], [3, 3]), expect_counts=True).agrees is False
    assert assembler.check(None, expect_counts=True).agrees is False
    assert assembler.check(None, expect_counts=False).agrees is None


def test_lost_records_and_foreign_tokens_are_noticed() -> None:
    lost = assemble([ROWS[0], ROWS[2], ROWS[3]], ANSWER)
    assert "lost" in lost.check(COUNTS, expect_counts=True).message
    foreign = assemble(ROWS, [*ANSWER[:-1], 77])
    assert "other tokens" in foreign.check(COUNTS, expect_counts=True).message
    missing = assemble(ROWS[:-1], ANSWER)
    assert "8 tokens, the answer 9" in missing.check(COUNTS, expect_counts=True).message


def test_top_k_becomes_positions() -> None:
    target = TopK([[1, 2], [3, 4]], [[0.9, 0.1], [0.6, 0.4]], [0.9])
    row = Row("r", 1, [1, 3], [1], target_top=target, drafter_top=TopK([[1, 5]], [[0.7, 0.2]]))
    step = assemble([ROWS[0], row], [100, 1, 3]).steps[1]
    assert step.positions[0] == Position(
        [TokenProb(1, 0.9), TokenProb(2, 0.1)], [TokenProb(1, 0.7), TokenProb(5, 0.2)], 0.9
    )
    assert step.positions[1].drafter == []
    assert {2, 4, 5} <= set(step.tokens)


def test_an_answer_of_which_a_token_never_came_is_no_whole_one() -> None:
    """The step that emitted it leaves no trace; vLLM's own number of tokens tells."""
    assembler = assemble(ROWS, ANSWER[:-1])
    counts = EngineCounts([2, 3], [3, 3])
    assembler.told = 8
    assert assembler.check(counts, expect_counts=True).agrees is True
    assembler.told = 9
    assert assembler.check(counts, expect_counts=True).agrees is False
    assert "8 tokens, vLLM says 9" in assembler.check(counts, expect_counts=True).message
