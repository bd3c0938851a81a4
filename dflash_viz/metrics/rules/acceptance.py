"""Rules on acceptance by position: a drafter that is wired wrongly, computes wrongly, or does not fit."""

from __future__ import annotations

from collections.abc import Iterator

from dflash_viz.metrics.rules.case import MIN_BLOCKS, Case, Finding, distinct_share, good_text

NEAR_ZERO = 0.15
"""Upper end of position 0's interval. The lowest published AL of a working drafter (2.26) needs about 0.6
there; drafts that have nothing to do with the text are accepted by chance, a few in a hundred."""
POSITION_0_WORKS = 0.4
"""Position 0's share from which the drafter plainly sees the right context."""
COLLAPSED = 0.3
"""Later positions against position 0. In working drafters they lie at 0.5 to 1 of it."""
LOW = 0.5
"""Under this at every position, AL stays under 2; published drafters reach 0.6 on their worst sets."""
FOREIGN = 0.3
"""Share of letters outside Latin from which the language is named."""


def position_zero(case: Case) -> Finding | None:
    """The first drafted token is nearly never right although the text is fine."""
    good = [trace for trace in case.traces if good_text(trace)]
    own = case if len(good) == len(case.traces) else Case(tuple(good))
    if case.looks_up or not good or len(own.blocks) < MIN_BLOCKS:
        return None
    first = own.positions[0]
    if first.high >= NEAR_ZERO:
        return None
    cached = _cached(own)
    tokens = [token for trace in good for token in trace.output_token_ids]
    action = (
        "First switch prefix caching off and ask again: on a hit the drafter's context is left unwritten. "
        if cached
        else ""
    )
    return Finding(
        "position_zero",
        "The drafter's first token is nearly never right",
        "The target writes good text and the drafter's guesses have nothing to do with it. That is no weak "
        "drafter but a wiring fault: a wrong or overwritten lm_head, hidden states of the wrong layers, an "
        "unwritten context after a prefix-cache hit, or weights lost in sleep and not loaded again.",
        (
            f"Position 0 was accepted in {first}.",
            own.al_sentence,
            f"The text looks good: {len(tokens)} tokens, {distinct_share(tokens, 3):.0%} of its runs of "
            "three tokens are distinct, printable, ended by stop or length.",
            f"Cached prompt tokens: {', '.join(cached) or 'none'}.",
            *_wiring(own),
        ),
        f"{action}Check that the drafter's layer ids and lm_head are those it was trained with, that drafter "
        "and target belong together, and that the other model runner behaves the same. After a sleep, use "
        "level 1 or restart the engine.",
    )  # fmt: skip


def collapse(case: Case) -> Finding | None:
    """The first drafted token is often right, the later ones hardly ever."""
    if case.looks_up or len(case.blocks) < MIN_BLOCKS or len(case.positions) < 2:
        return None
    first, later = case.positions[0], case.after_first
    if first.low < POSITION_0_WORKS or later.n < MIN_BLOCKS or later.high >= COLLAPSED * first.value:
        return None
    drafter = case.engine.drafter
    return Finding(
        "collapse",
        "Acceptance collapses after the first drafted token",
        "The drafter sees the right context, since its first token is good; within the block it goes wrong. "
        "Mask slots that cannot see one another do that: causal attention where it must not be, a sliding "
        "window that cuts the block off, or a backend without non-causal support.",
        (
            f"Position 0 was accepted in {first}.",
            f"Later positions, where everything before was accepted, in {later}.",
            case.al_sentence,
            f"Drafter: attention backend {_said(drafter and drafter.attention_backend)}, causal "
            f"{_said(drafter and drafter.causal)}; {_runner(case)}.",
        ),
        "Run the drafter with another attention backend and with eager mode, and check that its attention is "
        "not causal and without a sliding window that is shorter than its context (for a token-by-token "
        "drafter: that each pass gets the hidden state of the one before).",
    )


def uniformly_low(case: Case) -> Finding | None:
    """Acceptance is low at every position, without a break that points at a fault."""
    if case.looks_up or len(case.blocks) < MIN_BLOCKS:
        return None
    judged = [one for one in case.positions if one.n >= MIN_BLOCKS]
    first = case.positions[0]
    if first.high >= LOW or any(one.value >= LOW for one in judged):
        return None
    if position_zero(case) is not None or collapse(case) is not None:
        return None
    shares = ", ".join(f"{i}: {one.value:.0%} of {one.n}" for i, one in enumerate(case.positions) if one.n)
    whole = (
        "Hardly any first token is right: a fault in the wiring cannot be ruled out. More often the drafter"
        if first.high < NEAR_ZERO
        else "Nothing breaks at one position, so the parts probably work. The drafter then"
    )
    return Finding(
        "uniformly_low",
        "Acceptance is low at every position",
        f"{whole} guesses for another kind of text than it was trained on. Usual reasons: thinking mode, "
        "another chat template, another language, a quantized target, prompts out of its domain.",
        (
            f"Accepted where everything before was, by position: {shares}.",
            case.al_sentence,
            *_kind_of_text(case),
            *_kind_of_engine(case),
        ),
        "Ask a question from the drafter's own field first (maths or code, with template and thinking as "
        "trained); if that goes well, the prompts are out of domain. Else compare template and thinking "
        "mode with the drafter's card, and try the target unquantized.",
    )


def small_block(case: Case) -> Finding | None:
    """K is far below the block that the drafter was trained with."""
    trained, k = case.engine.trained_block_size, case.engine.num_speculative_tokens
    if trained is None or len(case.blocks) < MIN_BLOCKS or (k + 1) * 2 > trained:
        return None
    return Finding(
        "small_block",
        "K is far below the drafter's trained block",
        "A block drafter learns to fill all slots of its block at once. In the DFlash paper a drafter "
        "trained with blocks of 16 loses a third of its AL in blocks of 8 (7.87 to about 5).",
        (f"K + 1 = {k + 1}; trained with blocks of {trained}.", case.al_sentence),
        f"Try a larger K, up to {trained - 1}. A small one can still be faster where verifying is expensive: "
        "compare the speeds.",
    )


def _cached(case: Case) -> list[str]:
    """Of each answer with a prefix-cache hit: its cached prompt tokens of all."""
    return [
        f"{trace.end.num_cached_prompt_tokens} of {len(trace.header.prompt_token_ids)}"
        for trace in case.traces
        if trace.end and trace.end.num_cached_prompt_tokens
    ]


def _wiring(case: Case) -> Iterator[str]:
    drafter = case.engine.drafter
    yield (
        f"Drafter {_said(drafter and drafter.name)}: target layers "
        f"{_said(drafter and drafter.layer_ids and ', '.join(map(str, drafter.layer_ids)))}, vocabulary "
        f"{_said(drafter and drafter.vocab_size)} (target {_said(case.engine.target.vocab_size)}); "
        f"{_runner(case)}."
    )


def _kind_of_text(case: Case) -> Iterator[str]:
    texts = [trace.end.text for trace in case.traces if trace.end]
    if thinking := sum("<think>" in text for text in texts):
        yield f"Thinking mode: {thinking} of {len(texts)} answers hold “<think>”."
    letters = [c for text in texts for c in text if c.isalpha()]
    # Latin with its accents ends at U+024F.
    foreign = sum(ord(c) > 0x24F for c in letters) / len(letters) if letters else 0.0
    if foreign >= FOREIGN:
        yield f"Language: {foreign:.0%} of the answers' letters are not Latin."


def _kind_of_engine(case: Case) -> Iterator[str]:
    target, drafter = case.engine.target, case.engine.drafter
    yield f"Target {target.name}: {_said(target.dtype)}, quantization {target.quantization or 'none'}."
    if drafter is not None:
        yield f"Drafter: {_said(drafter.dtype)}, quantization {drafter.quantization or 'none'}."
    yield (f"Chat template {_said((case.engine.chat_template_hash or '')[:12])}.")
    warm = max(trace.header.sampling.temperature for trace in case.traces)
    if warm > 0 and case.engine.draft_sample_method == "greedy":
        yield f"Temperature {warm:g} with greedy drafts: each is kept with the target's probability of it."
    trained, k = case.engine.trained_block_size, case.engine.num_speculative_tokens
    if trained is not None and trained != k + 1:
        yield f"K + 1 = {k + 1}, trained with blocks of {trained}."


def _runner(case: Case) -> str:
    version = next((f"{k} {v}" for k, v in case.engine.versions.items() if k.startswith("vllm")), "vLLM")
    return f"model runner {_said(case.engine.model_runner)}, {version}"


def _said(value: object) -> str:
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value or "not recorded")
