"""The presets that ship: what they and their comments promise."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from dflash_viz.lanes import LaneSpec, load_preset
from dflash_viz.lanes.auto import ASLEEP_GB
from dflash_viz.lanes.preflight import check_spec
from dflash_viz.lanes.room import PINNED, SPARE
from dflash_viz.lanes.spec import Preset, preset_names
from dflash_viz.metrics.measured import read_expectations
from dflash_viz.space.hardware import HARDWARE
from dflash_viz.weights.resolver import EMBEDDED, ROOT
from tests.lanes import smi

PRESETS = {name: load_preset(name) for name in preset_names()}
ON_GPUS = {name: preset for name, preset in PRESETS.items() if name != "embedded-cpu"}
PUBLISHED = {name: preset for name, preset in ON_GPUS.items() if name != "embedded-cuda"}
LANES = [pytest.param(lane, id=f"{name}-{lane.name}") for name in PUBLISHED for lane in PUBLISHED[name].lanes]
# Billions of parameters, of MTP those besides the target's, and sizes of vocabularies.
PARAMETERS = {
    "Qwen/Qwen3-4B": 4.02, "z-lab/Qwen3-4B-DFlash-b16": 0.54, "AngelSlim/Qwen3-4B_eagle3": 0.22,
    "Qwen/Qwen3-8B": 8.19, "z-lab/Qwen3-8B-DFlash-b16": 1.05, "RedHatAI/Qwen3-8B-speculator.eagle3": 1.0,
    "Qwen/Qwen3.5-4B": 4.21, "z-lab/Qwen3.5-4B-DFlash": 0.63, "mtp": 0.12,
    "meta-llama/Llama-3.1-8B-Instruct": 8.03, "z-lab/LLaMA3.1-8B-Instruct-DFlash-UltraChat": 1.17,
    "RedHatAI/Llama-3.1-8B-Instruct-speculator.eagle3": 0.95,
}  # fmt: skip
VOCABULARIES = {"Qwen3-": 151_936, "Qwen3.5": 248_320, "Llama-3": 128_256}
OVERHEAD_GB = 1.3  # measured on an H200, ../docs/measurements.md
# Main memory of the Hub's machines, of those that are not known to have plenty.
MAIN_GB = {"l4x1": 30, "l4x4": 186, "a10g-small": 15, "a10g-large": 46,
           "a10g-largex2": 92, "a10g-largex4": 184, "l40sx1": 62, "l40sx4": 382, "l40sx8": 1534,
           "a100-large": 142, "a100x4": 568, "a100x8": 1136, "h100": 240, "h100x8": 1920}  # fmt: skip
ENGINE_GB = 4  # of main memory, an engine's processes


def cache_gb(lane: LaneSpec) -> float:
    size = re.fullmatch(r"(\d+)G", str(lane.engine["kv-cache-memory-bytes"]))
    assert size is not None
    return int(size[1]) * 2**30 / 1e9


def weights_gb(lane: LaneSpec) -> float:
    if lane.target == EMBEDDED:
        return 0.4
    models = (lane.target, lane.drafter or lane.method)
    return 2 * sum(PARAMETERS.get(model, 0.0) for model in models)


@pytest.mark.parametrize("name", PRESETS)
def test_every_lane_could_run(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    lanes = PRESETS[name].lanes
    smi.put_smi(monkeypatch, tmp_path, smi.H200)
    monkeypatch.setattr("dflash_viz.lanes.device.is_cpu_build", lambda: False)
    for lane in lanes:
        check_spec(lane)
    assert lanes[-1].method == "none", "what the others are compared with"
    assert len({lane.target for lane in lanes}) == 1


def test_the_pairs_have_both_published_drafters() -> None:
    methods = {name: [lane.method for lane in preset.lanes] for name, preset in PRESETS.items()}
    assert methods.pop("qwen3.5-4b") == ["dflash", "mtp", "ngram", "none"]
    assert set(map(tuple, methods.values())) == {("dflash", "eagle3", "ngram", "none")}


@pytest.mark.parametrize("lane", LANES)
def test_memory_is_the_sum_of_what_the_comment_says(lane: LaneSpec) -> None:
    vocabulary = next(size for name, size in VOCABULARIES.items() if name in lane.target)
    most = 16 if lane.target == "Qwen/Qwen3-8B" and lane.method == "dflash" else lane.num_speculative_tokens
    logits = lane.engine["max-num-seqs"] * (most + 1) * vocabulary * 6 / 1e9
    told = weights_gb(lane) + cache_gb(lane) + OVERHEAD_GB + logits
    assert told - 0.1 <= lane.memory_gb <= told + 0.2


def test_memory_of_the_embedded_pair_was_measured() -> None:
    assert {lane.memory_gb for lane in PRESETS["embedded-cuda"].lanes} == {3.5}
    assert {lane.memory_gb for lane in PRESETS["embedded-cpu"].lanes} == {0.0}


def has_room(preset: Preset, hardware: str) -> bool:
    """Every lane can be awake alone: the others keep their rest of the GPU, and the weights of all have a
    place in main memory; unless there is room for all on the GPU."""
    gpus, total = HARDWARE[hardware]
    sizes = [lane.memory_gb for lane in preset.lanes]
    if not gpus:
        return False
    room = (1 - SPARE) * total / gpus
    pinned = PINNED * sum(weights_gb(lane) for lane in preset.lanes)
    main, processes = MAIN_GB.get(hardware, 0), ENGINE_GB * len(sizes)
    if sum(sizes) <= room:
        return not main or processes <= main
    return max(sizes) + ASLEEP_GB * (len(sizes) - 1) <= room and pinned + processes <= main


@pytest.mark.parametrize("name", ON_GPUS)
def test_the_hardware_is_what_has_room(name: str) -> None:
    assert ON_GPUS[name].hardware == [one for one in HARDWARE if has_room(ON_GPUS[name], one)]


@pytest.mark.parametrize("name", ON_GPUS)
def test_engines_share_a_gpu(name: str) -> None:
    for lane in ON_GPUS[name].lanes:
        # vLLM refuses to start where less is free, whatever the cache's size.
        assert lane.engine["gpu-memory-utilization"] == 0.05


@pytest.mark.parametrize("name", PRESETS)
def test_the_chat_template_is_told_what_the_drafter_was_trained_in(name: str) -> None:
    for lane in PRESETS[name].lanes:
        told = json.loads(lane.engine.get("default-chat-template-kwargs", "{}"))
        assert told.get("enable_thinking") is PRESETS[name].thinking
    assert PRESETS[name].thinking is {"qwen3-4b": False, "qwen3-8b": False, "qwen3.5-4b": True}.get(name)


@pytest.mark.parametrize("name", PRESETS)
def test_expectations_are_of_its_drafters_and_mode(name: str) -> None:
    preset = PRESETS[name]
    rows = [row for row in read_expectations() if row.pair == preset.expectations]
    assert bool(rows) == bool(preset.expectations) == (name != "qwen3.5-4b")
    lanes = {lane.method: lane for lane in preset.lanes}
    for row in rows:
        lane = lanes[row.method]
        assert (lane.drafter or "").endswith(row.drafter)
        assert lane.target in (EMBEDDED, row.target)
        # vLLM's own check of a head leaves the template at its default.
        assert row.thinking in (None, preset.thinking) or row.method == "eagle3"
        assert row.concurrency is None or row.concurrency <= lane.engine["max-num-seqs"]


@pytest.mark.parametrize("lane", LANES)
def test_engines_are_asked_as_the_checks_need(lane: LaneSpec) -> None:
    engine = lane.engine
    assert engine["no-enable-prefix-caching"] is True
    assert engine["max-model-len"] >= 4096, "a published check asks 2,048 tokens of an answer"
    sizes = json.loads(engine["compilation-config"])["cudagraph_capture_sizes"]
    assert sizes == sorted(set(sizes))
    # A graph for every step of a full batch; K = 16 is what vLLM checks the larger pair with.
    most = 16 if lane.target == "Qwen/Qwen3-8B" and lane.method == "dflash" else lane.num_speculative_tokens
    assert sizes[-1] >= engine["max-num-seqs"] * (most + 1)
    assert sizes[-1] <= engine["max-num-batched-tokens"], "vLLM leaves larger ones out"


@pytest.mark.parametrize("name", ON_GPUS)
def test_the_readme_says_the_same(name: str) -> None:
    rows = (ROOT / "README.md").read_text().splitlines()
    row = next(line for line in rows if line.startswith(f"| `{name}`"))
    sizes = [lane.memory_gb for lane in ON_GPUS[name].lanes]
    assert f"| {max(sizes):g} / {sum(sizes):.0f} |" in row
    hardware = re.findall(r"`([a-z0-9-]+)`", row)[1:]
    assert hardware
    assert set(hardware) <= set(ON_GPUS[name].hardware)
    drafts, other = (lane.num_speculative_tokens for lane in ON_GPUS[name].lanes[:2])
    assert re.search(rf"\| {drafts}, (EAGLE-3|its own MTP) {other} \|", row)
    assert f"| { ({True: 'on', False: 'off', None: '–'}[ON_GPUS[name].thinking]) } |" in row
