"""The answers that count, and what they add up to prompt by prompt: the sums behind every figure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from dflash_viz.metrics.measured.bootstrap import Estimate, paired_difference, paired_ratio, ratio
from dflash_viz.results import Answer, Engine, Failure, Result

Cells = Mapping[tuple[str, int], Answer]
"""The answers of one setting, by question and turn."""
Amount = Callable[[Answer], float]
"""What an answer adds to a sum."""
Part = tuple[Amount, Amount]
"""The numerator and the denominator of a figure."""


def _accepted(answer: Answer) -> float:
    return answer.num_accepted


def _drafts(answer: Answer) -> float:
    return answer.num_drafts


def _own_length(answer: Answer) -> float:
    return answer.acceptance_length or 0.0


def _drafted_at_all(answer: Answer) -> float:
    return 1.0 if answer.num_drafts else 0.0


def _decode_tokens(answer: Answer) -> float:
    # Without a step after the prompt's own there is no time either: tokens and seconds go together.
    return answer.num_decode_tokens if answer.decode_s > 0 else 0.0


def _decode_s(answer: Answer) -> float:
    return answer.decode_s


def _latency_s(answer: Answer) -> float:
    return answer.latency_s


def one(_: Answer) -> float:
    """Every answer counts once: the denominator of a mean."""
    return 1.0


LENGTH: Part = (_accepted, _drafts)
"""AL - 1, pooled."""
OWN_LENGTH: Part = (_own_length, _drafted_at_all)
"""AL, mean of the requests that drafted."""
SPEED: Part = (_decode_tokens, _decode_s)
"""Decode speed, tokens/s, pooled."""
LATENCY: Part = (_latency_s, one)
"""Latency, seconds, mean."""


class Indexed(Result, kw_only=True):
    """A result that does not grow any more, sorted by setting once: a file may have many settings."""

    cells: dict[int, Cells]
    unanswered: list[Failure]

    def open_failures(self) -> list[Failure]:
        """As ``Result`` finds them, once."""
        return self.unanswered


def indexed(result: Result) -> Indexed:
    """The result as it is now, for a caller that asks for many settings' figures."""
    if isinstance(result, Indexed):
        return result
    fields = {name: getattr(result, name) for name in result.__struct_fields__}
    found: dict[int, dict[tuple[str, int], Answer]] = {}
    for answer in result.answers:
        found.setdefault(answer.setting, {})[answer.question, answer.turn] = answer
    return Indexed(**fields, cells=dict(found), unanswered=result.open_failures())


def cells(result: Result, setting: int) -> Cells:
    """A setting's answers by question and turn; where one was asked for again, the last one counts."""
    if isinstance(result, Indexed):
        return result.cells.get(setting, {})
    return {(answer.question, answer.turn): answer for answer in result.answers_of(setting)}


def common(first: Cells, second: Cells) -> tuple[Cells, Cells]:
    """What both answered: the same questions and turns of each, in the same order."""
    keys = [key for key in first if key in second]
    return {key: first[key] for key in keys}, {key: second[key] for key in keys}


def columns(of: Cells, part: Part) -> tuple[list[float], list[float]]:
    """The sums of a figure's numerator and denominator for each question, turns taken together."""
    sums: dict[str, list[float]] = {}
    for (question, _), answer in of.items():
        held = sums.setdefault(question, [0.0, 0.0])
        held[0] += part[0](answer)
        held[1] += part[1](answer)
    return [held[0] for held in sums.values()], [held[1] for held in sums.values()]


def added(lists: Iterable[Sequence[int]]) -> list[int]:
    """Lists of counts by position, position by position; a position that one lacks is 0 there."""
    totals: list[int] = []
    for counts in lists:
        totals += [0] * (len(counts) - len(totals))
        for place, one in enumerate(counts):
            totals[place] += one
    return totals


def pooled(of: Cells, part: Part, offset: float = 0.0) -> Estimate | None:
    """A figure over all answers: ``offset`` + sum / sum."""
    return ratio(*columns(of, part), offset)


def quotient(of: Cells, by: Cells, part: Part) -> Estimate | None:
    """The figure of some answers / that of others, on what both answered."""
    of, by = common(of, by)
    return paired_ratio(*columns(of, part), *columns(by, part))


def difference(of: Cells, less: Cells, part: Part) -> Estimate | None:
    """The figure of some answers - that of others, on what both answered."""
    of, less = common(of, less)
    return paired_difference(*columns(of, part), *columns(less, part))


def same_machine(result: Result, settings: Sequence[int]) -> bool:
    """Whether settings ran the same target, loaded alike, on the same device: else speeds say nothing.

    Not when an engine is unknown.
    """
    engines = [result.engines.get(setting) for setting in settings]
    return None not in engines and len({_machine(engine) for engine in engines if engine}) == 1


def _machine(engine: Engine) -> tuple[str | None, ...]:
    target = engine.fingerprint.target
    return engine.fingerprint.device, target.name, target.content_hash, target.dtype, target.quantization


def plain_cells(result: Result, setting: int) -> Cells:
    """The answers without speculation that a setting's speeds are compared with; empty if there are none.

    They are of the same temperature and concurrency, of the same target on the same device. A setting
    without speculation is not compared with itself.
    """
    plain = result.plain_of(setting)
    if plain is None or plain == setting or not same_machine(result, (setting, plain)):
        return {}
    return cells(result, plain)


def same_text(first: Cells, second: Cells) -> tuple[int, int]:
    """How many answers have the same text in both, of how many that answer the same.

    A turn whose conversation differed before is no answer to the same prompt and is not counted.
    """
    same = compared = 0
    parted: set[str] = set()
    for key in sorted(first.keys() & second.keys()):
        if key[0] in parted:
            continue
        compared += 1
        if first[key].text == second[key].text:
            same += 1
        else:
            parted.add(key[0])
    return same, compared
