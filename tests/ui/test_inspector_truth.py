"""What the inspector says of a block, computed again from the same weights without vLLM."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
import torch
from playwright.sync_api import Page, expect

from dflash_viz.bench.record import read_gallery
from dflash_viz.lanes import load_preset
from dflash_viz.trace import Trace
from dflash_viz.weights import resolve_model
from tests.ui.conftest import ROOT, App

pytestmark = pytest.mark.browser
TOLERANCE = 0.02
CASES = [("dflash", 2), ("eagle3", 1), ("ngram", 1)]


@pytest.fixture(scope="module")
def viewer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[App]:
    """The app without an engine."""
    app = App(tmp_path_factory.mktemp("viewer"), "--no-engine")
    yield app
    app.close()


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


@pytest.mark.parametrize(("lane", "rejections"), CASES)
def test_both_models_believe_what_is_shown(viewer: App, page: Page, lane: str, rejections: int) -> None:
    from transformers import AutoModelForCausalLM

    trace = next(t for t in read_gallery()[0].traces if t.header.lane == lane)
    assert trace.header.fingerprint.target.dtype in ("float32", "bfloat16")
    target = AutoModelForCausalLM.from_pretrained(resolve_model("embedded"), dtype=torch.float32)
    rejected = [s for s in trace.steps if s.drafted and s.num_accepted < s.num_drafted]
    for step in rejected[len(rejected) // 2 :][:rejections]:
        context = trace.header.prompt_token_ids + trace.output_token_ids[: step.offset]
        with torch.no_grad():
            logits = target(torch.tensor([context + step.drafted])).logits[0, len(context) - 1 :]
        page.goto(f"{viewer.url}?run=gallery/chat&lane={lane}&step={step.index}&position={step.num_accepted}")
        inspector = page.locator("#recorded-stage .dv-inspector")
        expect(inspector.locator(".dv-inspector-step")).to_contain_text(f"Step {step.index} of", timeout=20_000)
        check_sentence(inspector.locator(".dv-sentence").inner_text(), step.num_accepted, logits, step.drafted)
        for position in range(step.num_drafted + 1):
            inspector.locator(f'.dv-position-row[data-position="{position}"]').click()
            agree(shown(page, "target"), logits[position])
            if lane == "dflash" and position < step.num_drafted:
                agree(shown(page, "drafter"), drafter_logits(trace, context)[position])


def check_sentence(said: str, at: int, logits: torch.Tensor, drafted: list[int]) -> None:
    """Near or clear miss, with the target's probabilities of the drafted token and of its own."""
    p = torch.softmax(logits[at].float(), -1)
    theirs, own = float(p[drafted[at]]), float(p.max())
    assert said.startswith("Near miss" if theirs >= own / 2 else "Clear miss")
    numbers = [float(number) for number in re.findall(r"\d\.\d+", said)]
    for value in (theirs, own):
        assert any(number == pytest.approx(value, abs=TOLERANCE) for number in numbers), (said, value)


def drafter_logits(trace: Trace, context: list[int]) -> torch.Tensor:
    """The DFlash drafter's scores [K, vocabulary] behind the anchor that ends the context."""
    from training.blocks import GROUP
    from training.export import load_drafter
    from training.target import Target

    spec = load_preset("embedded-cpu").lanes[0]
    target = Target.load(resolve_model("embedded"), "cpu", torch.float32)
    drafter = load_drafter(ROOT / (spec.drafter or ""), target)
    tokens, size = torch.tensor([context]), spec.num_speculative_tokens + 1
    with torch.no_grad():
        features, _ = target.forward(tokens, drafter.config.target_layer_ids)
        starts = torch.full((1, GROUP), len(context) - 1)  # blocks are computed in groups
        hidden = drafter.draft(features, tokens, starts, torch.full_like(starts, size), size)[0, 0]
        scores = torch.full((size - 1, target.config.vocab), -torch.inf)
        scores[:, drafter.draft_ids] = drafter.logits(hidden)
    return scores
