"""Preset files and what becomes of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dflash_viz.lanes import LaneError, LaneSpec, load_preset
from dflash_viz.lanes.preflight import check_spec
from dflash_viz.lanes.server import flags
from dflash_viz.lanes.spec import file_name


def test_the_shipped_preset_is_valid() -> None:
    preset = load_preset("embedded-cpu")
    lanes = {lane.name: lane for lane in preset.lanes}
    assert list(lanes) == ["dflash", "eagle3", "ngram", "none"]
    assert lanes["dflash"].num_speculative_tokens >= 4
    assert lanes["none"].speculative_config(None) is None
    for lane in preset.lanes:
        check_spec(lane)


def test_speculative_config() -> None:
    spec = LaneSpec("n", "ngram", num_speculative_tokens=5, speculative={"prompt_lookup_max": 4})
    assert json.loads(spec.speculative_config(None) or "") == {
        "method": "ngram",
        "num_speculative_tokens": 5,
        "prompt_lookup_max": 4,
    }


def test_flags() -> None:
    options = {"dtype": "bfloat16", "enforce-eager": True, "absent": None, "off": False, "n": 8}
    assert list(flags(options)) == ["--dtype", "bfloat16", "--enforce-eager", "--n", "8"]


def test_any_name_makes_a_file_name() -> None:
    assert file_name("dflash K=5") == "dflash_K=5"
    assert file_name("../a/b <x>") == ".._a_b_x_"
    assert len(file_name("x" * 500)) == 60


def test_mistakes_are_named(tmp_path: Path) -> None:
    with pytest.raises(LaneError, match=r"no preset 'nope'.*embedded-cpu"):
        load_preset("nope")
    with pytest.raises(LaneError, match=r"no preset file .*lost\.yaml'\. Check the path"):
        load_preset(str(tmp_path / "lost.yaml"))
    (tmp_path / "preset.md").touch()
    with pytest.raises(LaneError, match=r"preset\.md' is no preset: its file must end in \.yaml"):
        load_preset(str(tmp_path / "preset.md"))
    bad = tmp_path / "bad.yaml"
    bad.write_text("title: x\nlanes:\n  - name: a\n    methods: dflash\n")
    with pytest.raises(LaneError, match="methods"):
        load_preset(str(bad))
    bad.write_text("title: x\nlanes: []\n")
    with pytest.raises(LaneError, match="has no lanes"):
        load_preset(str(bad))
    (tmp_path / "folder.yaml").mkdir()
    with pytest.raises(LaneError, match=r"folder\.yaml cannot be read"):
        load_preset(str(tmp_path / "folder.yaml"))
    bad.write_text("title: x\nlanes:\n  - {name: a, method: none}\n  - {name: a, method: ngram}\n")
    with pytest.raises(LaneError, match="several lanes named 'a'"):
        load_preset(str(bad))
    bad.write_text("title: [")
    with pytest.raises(LaneError, match=r"bad\.yaml is not valid"):
        load_preset(str(bad))
