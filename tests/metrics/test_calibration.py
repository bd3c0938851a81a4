"""The drafter's probabilities against outcomes, and what smaller blocks would have brought."""

from __future__ import annotations

import msgspec
import pytest

from dflash_viz.metrics import (
    CALIBRATION_FIGURES,
    MixedTracesError,
    calibrate,
    count,
    decode_tokens_per_second,
    drafter_probability,
    what_if,
)
from dflash_viz.metrics.stats import wilson, z_score
from dflash_viz.trace import Position, Step, TokenProb
from tests.metrics.made import DRAFT_S, VERIFY_S, contended, engine, made, made_plain

P = (0.95, 0.95, 0.55, 0.55, 1.0)


def test_intervals_are_wilsons() -> None:
    assert wilson(8, 10) == pytest.approx((0.4902, 0.9433), abs=1e-4)
    assert wilson(0, 20) == pytest.approx((0.0, 0.1611), abs=1e-4)
    assert wilson(20, 20)[1] == 1.0
    assert wilson(0, 0) == (0.0, 1.0)


def test_z_scores() -> None:
    assert z_score([3, 5], [1, 3]) == pytest.approx(2**0.5)
    assert (z_score([2, 2], [2, 2]), z_score([3, 3], [2, 2])) == (0.0, float("inf"))


# Calibration -----------------------------------------------------------------------------------


def test_only_positions_that_verification_reached_count() -> None:
    """Blocks that accept 2 reach positions 0, 1, 2; blocks that accept 5 all five."""
    found = calibrate([made([2, 2, 5], p=P)])
    assert (found.n, found.unknown) == (3 + 3 + 5, 0)
    by_low = {one.low: one for one in found.bins if one.n}
    assert {low: (one.n, one.share) for low, one in by_low.items()} == {
        0.5: (4, 0.5),  # position 2 three times (once accepted), position 3 once (accepted)
        0.9: (7, 1.0),  # positions 0 and 1 three times, position 4 once; 1 belongs to the last bin
    }
    assert by_low[0.5].mean_p == pytest.approx(0.55)
    assert by_low[0.9].mean_p == pytest.approx((6 * 0.95 + 1) / 7)
    assert by_low[0.5].interval == wilson(2, 4)
    assert len(found.bins) == 10


def test_figures_by_hand() -> None:
    found = calibrate([made([2, 2, 5], p=P)])
    assert found.accepted_share == pytest.approx(9 / 11)
    assert found.mean_p == pytest.approx((6 * 0.95 + 1 + 4 * 0.55) / 11)
    assert found.ece == pytest.approx((4 * abs(0.55 - 0.5) + 7 * (1 - 6.7 / 7)) / 11)
    assert found.brier == pytest.approx((6 * 0.05**2 + 2 * 0.45**2 + 2 * 0.55**2) / 11)


def test_overconfidence_shows() -> None:
    sure, modest = calibrate([made([0] * 10, p=P)]), calibrate([made([0] * 10, p=(0.05,) * 5)])
    assert sure.ece == pytest.approx(0.95)
    assert modest.ece == pytest.approx(0.05)
    assert sure.brier is not None
    assert modest.brier is not None
    assert sure.brier > modest.brier


def test_where_the_probability_stands() -> None:
    listed = Position(drafter=[TokenProb(9, 0.6), TokenProb(7, 0.3)])
    step = Step(1, 0, 1, 1, [7], drafted=[7, 8], positions=[listed, listed, listed])
    assert drafter_probability(step, 0) == 0.3
    assert drafter_probability(step, 1) is None, "not among the most probable"
    assert drafter_probability(step, 2) is None, "the bonus position has no drafted token"
    own = msgspec.structs.replace(listed, p_drafter_drafted=0.25)
    assert drafter_probability(msgspec.structs.replace(step, positions=[own]), 0) == 0.25
    rounded = msgspec.structs.replace(listed, p_drafter_drafted=1.0004)
    assert drafter_probability(msgspec.structs.replace(step, positions=[rounded]), 0) == 1


def test_without_probabilities_nothing_is_claimed() -> None:
    found = calibrate([made([2, 5])])
    assert (found.n, found.unknown, found.ece, found.brier) == (0, 8, None, None)
    assert calibrate([]).n == 0
    padded = made([0, 0], p=P)
    padded.steps[1] = msgspec.structs.replace(padded.steps[1], padded=True)
    assert calibrate([padded]).n == 1, "no drafter filled the padded block"


def test_every_figure_states_its_definition() -> None:
    found = calibrate([made([2], p=P)])
    for figure in CALIBRATION_FIGURES:
        assert figure.definition.endswith(".")
        assert getattr(found, figure.key) is not None


def test_lanes_are_not_mixed() -> None:
    with pytest.raises(MixedTracesError):
        calibrate([made([1]), made([1], fingerprint=engine("eagle3"))])
    with pytest.raises(MixedTracesError):
        what_if([made([1]), made([1], fingerprint=engine(k=3))])


# Smaller K -------------------------------------------------------------------------------------

ACCEPTED = [0, 1, 2, 3, 5] * 8


def test_al_of_smaller_blocks() -> None:
    found = what_if([made(ACCEPTED[:20]), made(ACCEPTED[20:])])
    assert [row.k for row in found.rows] == [1, 2, 3, 4, 5]
    assert [row.al for row in found.rows] == pytest.approx([1.8, 2.4, 2.8, 3.0, 3.2])
    assert found.rows[-1].al == pytest.approx(count(made(ACCEPTED).steps).acceptance_length)
    assert (found.recorded, found.blocks) == (5, 40)


def test_the_recorded_k_is_as_it_was_measured() -> None:
    trace, plain = made(ACCEPTED), made_plain(50)
    cut = trace.steps[-1]
    trace.steps[-1] = msgspec.structs.replace(cut, emitted=cut.emitted[:3], last=None)
    for found in (what_if([trace]), what_if([trace], [plain])):
        assert found.rows[-1].speed == pytest.approx(decode_tokens_per_second(trace.steps))


def test_speed_with_a_plain_trace() -> None:
    """Verify time lies on the line from a plain step (12 ms) to a block's (30 ms): 3.6 ms a token."""
    found = what_if([made(ACCEPTED)], [made_plain(50, step_s=0.015)])
    saved = (VERIFY_S - 0.012) / 5
    for row in found.rows:
        assert row.speed == pytest.approx(row.al / (0.05 - saved * (5 - row.k)))
    assert found.plain_speed == pytest.approx(1 / 0.015)
    assert "No speculation is faster than any of them: 66.7 tokens/s." in found.reason


def test_a_chain_saves_passes_too() -> None:
    chain = made(ACCEPTED, fingerprint=engine("eagle3"))
    found = what_if([chain], [made_plain(50, step_s=0.0375)])  # verify as long as a block: no slope
    for row in found.rows:
        assert row.speed == pytest.approx(row.al / (0.05 - DRAFT_S * (5 - row.k) / 5))
    assert "a pass less per token" in found.assumptions[-1]


def test_a_plain_step_slower_than_a_block_is_no_gain() -> None:
    found = what_if([made(ACCEPTED)], [made_plain(50, step_s=0.1)])
    assert [row.speed for row in found.rows] == pytest.approx([row.al / 0.05 for row in found.rows])


def test_suggestion_by_speed() -> None:
    dear = made(ACCEPTED, step_s=0.2, verify_s=0.18)
    assert what_if([dear], [made_plain(50, step_s=0.015)]).suggested == 1
    cheap = made(ACCEPTED, verify_s=0.0125)
    found = what_if([cheap], [made_plain(50, step_s=0.015)])
    assert found.suggested == 5
    assert "best at K = 5" in found.reason


def test_suggestion_by_al_alone() -> None:
    """With 4 tokens AL is 4.1, within 1 % of 4.125 with 5; with 3 it is 4, which is 3 % less."""
    found = what_if([made([3] * 36 + [4, 4, 4, 5])])
    assert found.suggested == 4
    assert "smallest" in found.reason
    assert "not known without a run of no speculation" in found.reason
    assert "the least that a smaller K would reach" in found.assumptions[-1]


def test_too_few_blocks_suggest_nothing() -> None:
    found = what_if([made([4] * 19)])
    assert (found.suggested, len(found.rows)) == (None, 5)
    assert "19 blocks" in found.reason
    assert what_if([]).rows == ()
    assert what_if([made_plain(30)]).rows == ()


def test_times_of_shared_machines_are_not_used() -> None:
    found = what_if([contended(made(ACCEPTED))], [made_plain(50)])
    assert {row.speed for row in found.rows} == {None}
    assert found.suggested == 5
    assert "shared the machine" in found.assumptions[-1]
    assert what_if([made(ACCEPTED)], [contended(made_plain(50))]).plain_speed is None


def test_only_a_non_causal_block_can_change_with_k() -> None:
    def warned(method: str) -> bool:
        return any(
            "see one another" in said for said in what_if([made([1], fingerprint=engine(method))]).assumptions
        )

    assert warned("dflash")
    assert not warned("eagle3")


def test_steps_without_a_draft_keep_their_time() -> None:
    """An n-gram lane: of the answer's 40 plain steps nothing is saved, of its 20 blocks a little."""
    trace = made([2] * 20, fingerprint=engine("ngram"))
    clock, offset = trace.steps[-1].end, len(trace.output_token_ids)
    for i in range(40):
        trace.steps.append(
            Step(
                21 + i,
                clock + i * 0.02,
                clock + (i + 1) * 0.02,
                0.012,
                [5000 + i],
                last="plain",
                offset=offset + i,
            )
        )
    found = what_if([trace], [made_plain(50, step_s=0.015)])
    saved = (VERIFY_S - 0.012) / 5
    assert found.rows[1].al == 3
    assert found.rows[1].speed == pytest.approx((40 + 20 * 3) / (40 * 0.02 + 20 * (0.05 - 3 * saved)))
