"""What the inspector says of a block, computed again from the same weights without vLLM."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import pytest
import torch
from playwright.sync_api import Locator, Page, expect

from dflash_viz.bench.record import read_gallery
from dflash_viz.lanes import load_preset
from dflash_viz.trace import Step, Trace
from dflash_viz.weights import resolve_model
from tests.ui.conftest import ROOT, App

pytestmark = pytest.mark.browser
TOLERANCE = 0.02


def shown(page: Page, who: str) -> dict[int, float]:
    """A list of the inspector: probability by token id; tokens that were added for show left out."""
    entries = page.locator(f"#recorded-stage .dv-list-{who} .dv-entry:not(.dv-beyond)").all()
    found = {}
    for entry in entries:
        number = re.search(r"token id (\d+)", entry.get_attribute("title") or "")
        assert number is not None
        found[int(number[1])] = float(entry.locator(".dv-entry-p").inner_text().lstrip("<"))
    return found


def agree(said: dict[int, float], logits: torch.Tensor) -> None:
    """The same tokens, equally probable, in the same order but for ties that three digits cannot tell."""
    p = torch.softmax(logits.float(), -1)
    values, ids = p.topk(len(said))
    assert set(said) == set(ids.tolist())
    for token, value in zip(ids.tolist(), values.tolist(), strict=True):
        assert said[token] == pytest.approx(value, abs=TOLERANCE)


@pytest.fixture(scope="module")
def target() -> torch.nn.Module:
    """The target in transformers."""
    from transformers import AutoModelForCausalLM

    model: torch.nn.Module = AutoModelForCausalLM.from_pretrained(
        resolve_model("embedded"), dtype=torch.float32
    )
    return model


def trace_of(name: str, lane: str) -> Trace:
    """A lane of a run of the gallery."""
    run = next(run for run in read_gallery() if run.address == f"gallery/{name}")
    return next(trace for trace in run.traces if trace.header.lane == lane)


def context_of(trace: Trace, step: Step) -> list[int]:
    """The tokens before a step's block."""
    return trace.header.prompt_token_ids + trace.output_token_ids[: step.offset]


def target_logits(target: torch.nn.Module, context: list[int], drafted: list[int]) -> torch.Tensor:
    """The target's scores [K + 1, vocabulary] at the positions of a block."""
    with torch.no_grad():
        logits: torch.Tensor = target(torch.tensor([context + drafted])).logits[0, len(context) - 1 :]
    return logits


def open_inspector(page: Page, viewer: App, name: str, lane: str, step: Step) -> Locator:
    """The inspector at the place where a block ended."""
    where = f"lane={lane}&step={step.index}&position={step.num_accepted}"
    page.goto(f"{viewer.url}?run=gallery/{name}&{where}")
    inspector = page.locator("#recorded-stage .dv-inspector")
    expect(inspector.locator(".dv-inspector-step")).to_contain_text(f"Step {step.index} of", timeout=20_000)
    return inspector


def rejected(trace: Trace) -> list[Step]:
    """The later steps that ended with a rejection."""
    steps = [step for step in trace.steps if step.drafted and step.num_accepted < step.num_drafted]
    return steps[len(steps) // 2 :]


@pytest.mark.parametrize("lane", ["dflash", "eagle3", "ngram"])
def test_both_models_believe_what_is_shown(
    viewer: App, page: Page, target: torch.nn.Module, lane: str
) -> None:
    trace = trace_of("chat", lane)
    for step in rejected(trace)[:1]:
        context = context_of(trace, step)
        logits = target_logits(target, context, step.drafted)
        drafted = drafter_logits(lane, context, step.drafted) if lane != "ngram" else None
        inspector = open_inspector(page, viewer, "chat", lane, step)
        check_miss(inspector.locator(".dv-sentence").inner_text(), logits, step)
        for position in range(step.num_drafted + 1):
            inspector.locator(f'.dv-position-row[data-position="{position}"]').click()
            expect(inspector.locator(".dv-lists-title")).to_contain_text(f"Position {position + 1}:")
            agree(shown(page, "target"), logits[position])
            if drafted is not None and position < step.num_drafted:
                agree(shown(page, "drafter"), drafted[position])


def test_the_draw_is_held_against_the_targets_probability(
    viewer: App, page: Page, target: torch.nn.Module
) -> None:
    """At temperature 1 and without top-p the p of the rule is the target's own."""
    trace = trace_of("hot", "dflash")
    for step in rejected(trace)[:1]:
        at, inspector = step.num_accepted, open_inspector(page, viewer, "hot", "dflash", step)
        logits = target_logits(target, context_of(trace, step), step.drafted)
        p = float(torch.softmax(logits[at].float(), -1)[step.drafted[at]])
        said = inspector.locator(".dv-sentence").inner_text()
        numbers = re.search(r"min\(1, ([\d.<]+) / 1\) = ([\d.<]+), the draw was ([\d.]+)", said)
        assert numbers is not None, said
        for number in numbers.groups()[:2]:
            assert float(number.lstrip("<")) == pytest.approx(p, abs=TOLERANCE), said
        draw = step.positions[at].draw
        assert draw is not None
        assert draw.u > draw.p
        assert float(numbers[3].rstrip(".")) == pytest.approx(draw.u, abs=0.001)


def check_miss(said: str, logits: torch.Tensor, step: Step) -> None:
    """Near or clear miss, with the target's probabilities of the drafted token and of its own."""
    p = torch.softmax(logits[step.num_accepted].float(), -1)
    theirs, own = float(p[step.drafted[step.num_accepted]]), float(p.max())
    assert said.startswith("Near miss" if theirs >= own / 2 else "Clear miss")
    numbers = re.search(r"the target gives it (<?[\d.]+) and prefers .* with ([\d.]+)", said)
    assert numbers is not None, said
    assert float(numbers[1].lstrip("<")) == pytest.approx(theirs, abs=TOLERANCE)
    assert float(numbers[2].rstrip(".")) == pytest.approx(own, abs=TOLERANCE)


@cache
def load_pair(lane: str) -> tuple[Any, Any]:
    """The target and a lane's drafter, in this project's own torch code."""
    from training.export import load_drafter
    from training.target import Target

    spec = next(spec for spec in load_preset("embedded-cpu").lanes if spec.name == lane)
    plain = Target.load(resolve_model("embedded"), "cpu", torch.float32)
    return plain, load_drafter(ROOT / (spec.drafter or ""), plain)


def drafter_logits(lane: str, context: list[int], drafted: list[int]) -> torch.Tensor:
    """A drafter's scores [K, vocabulary] behind the anchor that ends the context; a chain's passes read
    the tokens that the passes before them drafted."""
    from training.blocks import GROUP

    plain, drafter = load_pair(lane)
    tokens, size = torch.tensor([context + drafted]), len(drafted) + 1
    with torch.no_grad():
        features, _ = plain.forward(tokens, drafter.config.target_layer_ids)
        starts = torch.full((1, GROUP), len(context) - 1)  # blocks are computed in groups
        hidden = drafter.draft(features, tokens, starts, torch.full_like(starts, size), size)[0, 0]
        scores = torch.full((size - 1, plain.config.vocab), -torch.inf)
        scores[:, drafter.draft_ids] = drafter.logits(hidden)
    return scores
