"""Each rule fires on a trace that has the fault and not on one close to it."""

from __future__ import annotations

import msgspec
import pytest

from dflash_viz.metrics import RULES, Finding, MixedTracesError, conditional_acceptance, count, diagnose
from dflash_viz.metrics.rules.case import Case
from dflash_viz.trace import PLAIN, ModelPrint, Sampling, Trace
from tests.metrics.made import contended, engine, made, made_plain, recorded_runs

MISS = [0] * 40
HEALTHY = [3, 0, 2, 5, 1, 4, 2, 0, 3, 1] * 4
SAW = [0, 1, 0, 2, 0, 1, 0, 0, 1, 0]  # AL 1.5, about 40 % at every position
LOOP = list(range(100, 110))


def found(traces: Trace | list[Trace], *plain: Trace) -> list[str]:
    return [finding.rule for finding in diagnose([traces] if isinstance(traces, Trace) else traces, plain)]


def only(traces: Trace | list[Trace], *plain: Trace) -> Finding:
    (finding,) = diagnose([traces] if isinstance(traces, Trace) else traces, plain)
    return finding


def said(finding: Finding) -> str:
    return " ".join(finding.evidence)


def test_a_healthy_trace_fires_nothing() -> None:
    assert found(made(HEALTHY)) == []
    assert found(made(HEALTHY), made_plain(121, step_s=0.05)) == []


@pytest.mark.parametrize("accepted", [MISS[:19], [5] * 19, [0, 1] * 9, []])
def test_short_answers_fire_nothing(accepted: list[int]) -> None:
    trace = made(accepted, tokens=LOOP, fingerprint=engine(trained_block_size=16))
    assert found(trace, made_plain(200, step_s=0.001)) == []
    assert diagnose([]) == []


# Position 0 near zero --------------------------------------------------------------------------


def test_wiring_faults_show_at_position_zero() -> None:
    finding = only(made([*MISS, 1], cached=32, prompt_token_ids=list(range(40))))
    assert finding.rule == "position_zero"
    assert "1 of 41 (2%" in said(finding)
    assert "Cached prompt tokens: 32 of 40." in said(finding)
    assert "target layers 1, 8" in said(finding)
    assert finding.action.startswith("First switch prefix caching off")


def test_no_cache_hit_is_not_blamed() -> None:
    finding = only(made(MISS))
    assert "Cached prompt tokens: none." in said(finding)
    assert "prefix" not in finding.action


@pytest.mark.parametrize(
    "trace",
    [
        made([*MISS, *[1] * 8]),  # 8 of 48: a poor drafter, but no stranger to the text
        made(MISS[:21]),  # one more miss and it would be enough
        made(MISS, fingerprint=engine("ngram")),  # copies text: nothing to wire
    ],
)
def test_position_zero_keeps_silent(trace: Trace) -> None:
    assert "position_zero" not in found(trace)
    assert "position_zero" in found(made(MISS[:22]))


def test_the_target_must_write_text() -> None:
    for broken in (made(MISS, tokens=LOOP[:4]), made(MISS, text="\ufffd" * 9), made(MISS, text="\x00ab")):
        assert "position_zero" not in found(broken), "the target itself is broken there"
    stopped = made(MISS)
    stopped.end = None
    assert "position_zero" not in found(stopped)


# Collapse --------------------------------------------------------------------------------------


def test_acceptance_collapses_after_the_first_token() -> None:
    finding = only(made([1, 1, 1, 0] * 12, fingerprint=engine(drafter=ModelPrint("d", causal=True))))
    assert finding.rule == "collapse"
    assert "36 of 48 (75%" in said(finding)
    assert "0 of 36" in said(finding)
    assert "causal yes" in said(finding)


@pytest.mark.parametrize(
    "accepted",
    [
        [1, 1, 2, 0] * 12,  # 12 of 48 later ones: steep, but no collapse
        [1, 1, 1, 0] * 6,  # 18 later positions are too few
        [0, 1, 0] * 40,  # the first position is bad as well
    ],
)
def test_collapse_keeps_silent(accepted: list[int]) -> None:
    assert "collapse" not in found(made(accepted))


# Uniformly low ---------------------------------------------------------------------------------


def test_acceptance_is_low_at_every_position() -> None:
    trace = made(
        SAW * 12,
        text="<think> 생각하면 답은 다음과 같습니다. 하나 둘 셋 넷 다섯",
        fingerprint=engine(
            target=ModelPrint("target", quantization="awq"),
            draft_sample_method="greedy",
            trained_block_size=8,
            chat_template_hash="abc",
        ),
        sampling=Sampling(temperature=0.7),
    )
    finding = only(trace)
    assert finding.rule == "uniformly_low"
    for part in (
        "0: 40% of 120, 1: 25% of 48",
        "1 of 1 answers hold “<think>”",
        "letters are not Latin",
        "Temperature 0.7 with greedy drafts",
        "quantization awq",
        "K + 1 = 6, trained with blocks of 8",
        "Chat template abc",
    ):
        assert part in said(finding), part


@pytest.mark.parametrize(
    "accepted",
    [
        [1, 0, 2, 0] * 10,  # half at position 0
        SAW * 2,  # the interval of 8 of 20 reaches over a half
        [0, 0, 3, 0, 0] * 20,  # low at position 0, always right after it
    ],
)
def test_uniformly_low_keeps_silent(accepted: list[int]) -> None:
    assert "uniformly_low" not in found(made(accepted))


def test_one_finding_for_one_fault() -> None:
    assert found(made(MISS)) == ["position_zero"]
    assert found(made([1, 1, 1, 0] * 12)) == ["collapse"]


# Block size ------------------------------------------------------------------------------------


def test_a_block_far_smaller_than_trained() -> None:
    assert "K + 1 = 6; trained with blocks of 12." in said(
        only(made(HEALTHY, fingerprint=engine(trained_block_size=12)))
    )
    assert found(made(HEALTHY, fingerprint=engine(trained_block_size=11))) == []
    assert found(made(HEALTHY, fingerprint=engine("eagle3", trained_block_size=None))) == []


# Repetition ------------------------------------------------------------------------------------


def test_a_high_al_by_repetition() -> None:
    finding = only([made([5, 4, 5, 3] * 8, tokens=LOOP), made(HEALTHY)])
    assert finding.rule == "repetition"
    assert "1 of 2 answers repeat; distinct runs of 4 tokens: 6%" in said(finding)
    assert "AL 5.25 (pooled) over 32 blocks" in said(finding)
    assert "The other answers: AL 3.10" in said(finding)


@pytest.mark.parametrize(
    "trace",
    [
        made([5, 4, 5, 3] * 8),  # the same AL on text that does not repeat
        made(HEALTHY, tokens=LOOP),  # repeats, but is not drafted well
        made([5, 4, 5, 3] * 8, tokens=list(range(110))),  # 167 tokens, most of them once
    ],
)
def test_repetition_keeps_silent(trace: Trace) -> None:
    assert "repetition" not in found(trace)


# Decay -----------------------------------------------------------------------------------------


def test_the_al_falls_with_the_context() -> None:
    finding = only(made([4, 5, 3, 4] * 10 + [3, 2, 2, 3] * 10 + [1, 2, 1, 1] * 20))
    assert finding.rule == "decay"
    assert "standard errors" in said(finding)
    assert "AL 5.0" in said(finding) or "AL 4.9" in said(finding)


@pytest.mark.parametrize(
    "accepted",
    [
        [4, 5, 3, 4] * 20 + [4, 3, 3, 4] * 20,  # falls, by less than a fifth
        [4, 5, 3, 4] * 3 + [3, 2, 2, 3] * 3 + [1, 2, 1, 1] * 6,  # falls as much, in too few blocks
        [1, 2, 1, 1] * 20 + [4, 5, 3, 4] * 20,  # rises
        [5, 0, 5, 0, 5, 5, 0, 5] * 6 + [5, 0, 0, 0, 5, 0, 0, 5] * 6,  # falls, within its own scatter
    ],
)
def test_decay_keeps_silent(accepted: list[int]) -> None:
    assert "decay" not in found(made(accepted))


# Slower in spite of a good AL ------------------------------------------------------------------


def test_slower_in_spite_of_a_good_al() -> None:
    plain = made_plain(125, step_s=0.015)
    trace = made(HEALTHY, step_s=0.07, verify_s=0.05)
    finding = only(trace, plain)
    assert finding.rule == "slower"
    speedup = (3.1 / 0.07) / (1 / 0.015)
    assert f"speedup {speedup:.2f} over 1 prompt." in said(finding)
    assert f"break-even AL {(0.01 + 0.05) / (0.015 * 0.8):.2f}" in said(finding)
    assert "Drafting takes 10.0 ms a block, 14% of the time." in said(finding)
    assert "Verifying takes 50.0 ms a step, a plain step 12.0 ms." in said(finding)
    assert "smaller K" in finding.action


@pytest.mark.parametrize(
    ("trace", "plain"),
    [
        (made(HEALTHY, step_s=0.07), made_plain(125, step_s=0.022)),  # 0.97 times: within the noise
        (made([0, 1, 0, 0] * 10, step_s=0.07), made_plain(125, step_s=0.015)),  # AL 1.25 explains it
        (made(HEALTHY, step_s=0.07), made_plain(125, step_s=0.015, prompt_token_ids=[7])),  # another prompt
        (contended(made(HEALTHY, step_s=0.07)), made_plain(125, step_s=0.015)),  # times are not its own
        (made(HEALTHY, step_s=0.07), contended(made_plain(125, step_s=0.015))),
    ],
)
def test_slower_keeps_silent(trace: Trace, plain: Trace) -> None:
    assert "slower" not in found(trace, plain)
    assert "slower" in found(made(HEALTHY, step_s=0.07), made_plain(125, step_s=0.015))


# All of them -----------------------------------------------------------------------------------


def test_lanes_are_not_mixed() -> None:
    with pytest.raises(MixedTracesError, match="the method is dflash in one and eagle3 in another"):
        diagnose([made(HEALTHY), made(HEALTHY, fingerprint=engine("eagle3"))])
    with pytest.raises(MixedTracesError, match="the K is 5 in one and 7"):
        diagnose([made(HEALTHY), made(HEALTHY, fingerprint=engine(k=7))])


def test_rules_are_told_apart_by_their_keys() -> None:
    keys = [rule.key for rule in RULES]
    assert len(set(keys)) == len(keys)
    assert all(rule.question.endswith("?") and rule.needs for rule in RULES)


def test_the_shipped_drafters_are_wired_rightly() -> None:
    runs = recorded_runs()
    assert runs
    for traces in runs:
        plain = [trace for trace in traces if trace.header.fingerprint.method == PLAIN]
        for trace in traces:
            assert not {"position_zero", "collapse", "small_block"} & set(found(trace, *plain))


def test_cases_count_as_the_figures_do() -> None:
    """Blocks of unlike length too: what the rules count is what the charts show."""
    traces = recorded_runs()[0] + [made([0, 1, 3, 2]), made([])]
    traces[-2].steps[3] = msgspec.structs.replace(
        traces[-2].steps[3], drafted=traces[-2].steps[3].drafted[:3]
    )
    for trace in traces:
        case = Case((trace,))
        assert case.counters == count(trace.steps)
        shares = [share.value if share.n else None for share in case.positions]
        assert shares == pytest.approx(conditional_acceptance(trace.steps))
