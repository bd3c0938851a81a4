"""Whether the lanes wrote the same text, in one sentence a lane."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dflash_viz.metrics import Difference, Verdict, first_difference, is_near_tie, log_ratio
from dflash_viz.trace import TokenProb, Trace


@dataclass(frozen=True)
class TextVerdict:
    """``at`` is the answer token where the text first differs."""

    verdict: Verdict
    message: str
    at: int | None = None


REFERENCE = TextVerdict("reference", "The target's own text, which the other lanes are compared with.")
NO_REFERENCE = TextVerdict(
    "unknown", "Nothing to compare with: the lane without speculation has not answered this prompt."
)
NO_STEPS = TextVerdict(
    "unknown", "A lane that shows no steps tells no tokens: its text cannot be compared token by token."
)
SAMPLED = TextVerdict(
    "sampled",
    "Above temperature 0 every token is drawn at random, and each lane draws its own: texts may differ, "
    "their distribution is the target's in every lane. Set the temperature to 0 to compare texts.",
)


def no_comparison(trace: Trace, reference: Trace | None) -> TextVerdict | None:
    """The verdict where there is nothing to compare, else None."""
    if reference is not None and (trace.header.counts_only or reference.header.counts_only):
        return NO_STEPS
    if reference is None or not reference.steps or not trace.steps:
        return NO_REFERENCE
    if trace is reference:
        return REFERENCE
    drawn = max(one.header.sampling.temperature for one in (trace, reference)) > 0
    return SAMPLED if drawn else None


def judge(trace: Trace, reference: Trace | None, best: Sequence[TokenProb] | None) -> TextVerdict:
    """Compare two texts; ``best`` are the target's two most probable tokens at the first difference,
    None when they are not known."""
    if (none := no_comparison(trace, reference)) is not None or reference is None:
        return none or NO_REFERENCE
    difference = first_difference(reference, trace)
    if difference is None:
        return TextVerdict("same", _same(trace, reference))
    text = trace.token_bytes | reference.token_bytes
    ours, theirs = (
        text.get(token, b"?").decode("utf-8", "replace") for token in (difference.other, difference.reference)
    )
    where = (
        f"First differs at token {difference.at}: “{ours}” instead of “{theirs}”, the token of the lane "
        "without speculation."
    )
    if best is None:
        return TextVerdict(
            "differs", f"{where} The target's probabilities there are not known.", difference.at
        )
    return _weigh(trace, difference, best, where)


def _weigh(trace: Trace, difference: Difference, best: Sequence[TokenProb], where: str) -> TextVerdict:
    """Near-tie or real difference."""
    ratio, dtype = log_ratio(difference, best), trace.header.fingerprint.target.dtype
    p = {token.id: token.p for token in best}
    if ratio is None:
        return TextVerdict(
            "differs",
            f"{where} They are not the target's two most probable tokens there: more than rounding.",
            difference.at,
        )
    odds = (
        f"The target gives them {p[difference.other]:.3f} and {p[difference.reference]:.3f}, its two most "
        f"probable tokens there (margin {abs(p[difference.other] - p[difference.reference]):.3f})"
    )
    if is_near_tie(ratio, dtype):
        why = f"a numeric near-tie, which {dtype} rounds differently for one token than for a block"
        return TextVerdict("near-tie", f"{where} {odds}: {why}. Both texts are the target's.", difference.at)
    return TextVerdict("differs", f"{where} {odds}: more than rounding in {dtype}.", difference.at)


def _same(trace: Trace, reference: Trace) -> str:
    ours, theirs = len(trace.output_token_ids), len(reference.output_token_ids)
    if ours == theirs:
        return f"The same text as without speculation, token by token ({ours} tokens)."
    return f"The same text as without speculation as far as both go ({min(ours, theirs)} tokens)."
