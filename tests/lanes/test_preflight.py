"""Drafters that do not fit are refused before an engine starts, with what to do."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from dflash_viz.lanes import LaneError, LaneSpec, load_preset
from dflash_viz.lanes.preflight import check_pair, check_spec
from dflash_viz.weights import resolve_model

TARGET = {"vocab_size": 1000, "hidden_size": 64, "num_hidden_layers": 4}
DFLASH = {**TARGET, "num_hidden_layers": 2, "block_size": 8, "dflash_config": {"target_layer_ids": [1, 3]}}


def folder(path: Path, config: dict[str, object]) -> Path:
    path.mkdir(parents=True)
    (path / "config.json").write_text(json.dumps(config))
    return path


def spec(method: str = "dflash", k: int = 7, drafter: str | None = "d") -> LaneSpec:
    return LaneSpec("lane", method, drafter=drafter, num_speculative_tokens=k)


def check(tmp_path: Path, k: int = 7, method: str = "dflash", **changes: object) -> None:
    target = folder(tmp_path / "target", TARGET)
    check_pair(spec(method, k), target, folder(tmp_path / "drafter", {**DFLASH, **changes}))


def test_a_fitting_pair_passes(tmp_path: Path) -> None:
    check(tmp_path)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"vocab_size": 1001}, r"its vocabulary is 1,001, the target's 1,000.*trained for"),
        ({"hidden_size": 32}, r"its hidden size is 32, the target's 64"),
        ({"dflash_config": {"target_layer_ids": [1, 9]}}, r"it reads layer 9, the target has 4"),
        ({"k": 9}, r"K = 9 is more than .* Set num_speculative_tokens to 7; 8 is the most that vLLM takes"),
    ],
)
def test_misfits_are_named(tmp_path: Path, changes: dict[str, object], words: str) -> None:
    with pytest.raises(LaneError, match=words):
        check(tmp_path, **changes)  # type: ignore[arg-type]


def test_one_token_more_than_was_trained_is_vllms_own_check(tmp_path: Path) -> None:
    check(tmp_path, k=8)


def test_configurations_that_say_less_are_let_through(tmp_path: Path) -> None:
    target = folder(tmp_path / "target", {**TARGET, "text_config": None})
    mistral = tmp_path / "mistral"
    mistral.mkdir()
    (mistral / "params.json").write_text("{}")
    check_pair(spec("eagle", 3), target, mistral)
    padded = folder(tmp_path / "padded", {**DFLASH, "vocab_size": 990})
    check_pair(spec(), target, padded)
    other = folder(tmp_path / "other", {"vocab_size": 990})
    check_pair(spec("medusa", 3), target, other)
    free = msgspec.structs.replace(spec("draft_model", 3), speculative={"use_heterogeneous_vocab": True})
    check_pair(free, target, other)


def test_speculators_format_is_read(tmp_path: Path) -> None:
    target = folder(tmp_path / "target", TARGET)
    layer = {"vocab_size": 1000, "hidden_size": 32}
    drafter = folder(tmp_path / "drafter", {"transformer_layer_config": layer, "draft_vocab_size": 100})
    with pytest.raises(LaneError, match="its hidden size is 32, the target's 64"):
        check_pair(spec("eagle3", 3), target, drafter)


def test_a_drafting_model_may_have_another_width(tmp_path: Path) -> None:
    check(tmp_path, method="draft_model", hidden_size=32)
    check_pair(spec("ngram", 5, None), tmp_path / "target", None)
    with pytest.raises(LaneError, match="its vocabulary is 999"):
        check(tmp_path / "other", method="draft_model", vocab_size=999)


def test_a_lane_without_what_its_method_needs() -> None:
    with pytest.raises(LaneError, match="has no drafter: name one"):
        check_spec(spec(drafter=None))
    with pytest.raises(LaneError, match="drafts 0 tokens a step"):
        check_spec(spec("ngram", 0, None))
    check_spec(spec("none", 0, None))
    check_spec(spec("ngram", 3, None))


def test_no_configuration(tmp_path: Path) -> None:
    target = folder(tmp_path / "target", TARGET)
    (tmp_path / "drafter").mkdir()
    with pytest.raises(LaneError, match=r"drafter is no model.*config\.json"):
        check_pair(spec(), target, tmp_path / "drafter")


def test_the_shipped_drafters_fit() -> None:
    for lane in load_preset("embedded-cpu").lanes:
        drafter = resolve_model(lane.drafter) if lane.drafter else None
        check_pair(lane, resolve_model(lane.target), drafter)
