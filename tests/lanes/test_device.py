"""Lanes that cannot run on the GPUs here are refused with what was found, what is needed, what to do."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

from dflash_viz.lanes import Lane, LaneError, LaneSpec, load_preset
from dflash_viz.lanes.device import check_device, check_models, engine_gpus, weight_bytes
from dflash_viz.lanes.gpus import Gpu
from dflash_viz.lanes.preflight import check_pair, check_spec
from tests.lanes import smi

GB = 10**9
T4 = Gpu("Tesla T4", 16 * GB, 15 * GB, (7, 5))
V100 = Gpu("Tesla V100", 32 * GB, 31 * GB, (7, 0))
A10G = Gpu("NVIDIA A10G", 24 * GB, 23 * GB, (8, 6))
L4 = Gpu("NVIDIA L4", 24 * GB, 23 * GB, (8, 9))
H200 = Gpu("NVIDIA H200", 150 * GB, 150 * GB, (9, 0))
B200 = Gpu("NVIDIA B200", 190 * GB, 190 * GB, (10, 0))
TARGET = {"num_attention_heads": 32, "head_dim": 128}


def spec(memory_gb: float = 0.0, speculative: dict[str, Any] | None = None, **engine: object) -> LaneSpec:
    options = {"gpu-memory-utilization": 0.1, **{name.replace("_", "-"): v for name, v in engine.items()}}
    return LaneSpec(
        "lane", "dflash", drafter="d", num_speculative_tokens=7,
        speculative=speculative or {}, engine=options, memory_gb=memory_gb,
    )  # fmt: skip


def check(lane: LaneSpec, *gpus: Gpu, drafter: dict[str, Any] | None = None, **target: object) -> None:
    """Both checks, as a lane that starts makes them; models without weights on disk."""
    check_device(lane, gpus)
    nowhere = Path("nowhere")
    check_models(lane, gpus, [(nowhere, {**TARGET, **target}), (nowhere, {**TARGET, **(drafter or {})})])


@pytest.mark.parametrize("gpu", [A10G, L4, H200, B200], ids=lambda gpu: gpu.name)
def test_what_fits_passes(gpu: Gpu) -> None:
    check(spec(20, dtype="bfloat16", kv_cache_memory_bytes="8G", attention_backend="flash_attn"), gpu)


def test_without_gpus_nothing_is_refused() -> None:
    check(spec(1000, dtype="bfloat16", tensor_parallel_size=8, attention_backend="flash_attn"))


BUSY = Gpu("busy", 24 * GB, 20 * GB, (8, 9))


def drafts_with(backend: str, **engine: object) -> LaneSpec:
    return spec(speculative={"attention_backend": backend}, **engine)


@pytest.mark.parametrize(
    ("lane", "gpu", "words"),
    [
        (
            spec(),
            V100,
            r"Tesla V100 \(compute capability 7\.0\) cannot run vLLM, which needs 7\.5: use .* CPUs",
        ),
        (spec(dtype="bfloat16"), T4, r"'lane' computes in bfloat16, .* 8\.0; Tesla T4 .* Write dtype: half"),
        (
            spec(23.5),
            L4,
            r"needs 23\.5 GB .*; 23\.0 GB of 24\.0 GB on NVIDIA L4 are free\. End .*--preset auto",
        ),
        (spec(5, gpu_memory_utilization=0.97), L4, r"0\.97, .* 23\.3 GB; 23\.0 GB .* are\. Lower it"),
        (LaneSpec("plain", "none"), BUSY, r"'plain' has gpu-memory-utilization 0\.92, .* 22\.1 GB; 20\.0 GB"),
        (spec(attention_backend="flash_attn"), T4, r"FLASH_ATTN .* attention of the target .* on Tesla T4"),
        (
            drafts_with("flash_attn"),
            T4,
            r"FLASH_ATTN .* drafter of lane 'lane' on Tesla T4 .* it needs compute capability 8\.0\. "
            r"Leave attention-backend out .* use TRITON_ATTN or FLEX_ATTENTION\.",
        ),
    ],
)
def test_what_the_options_tell(lane: LaneSpec, gpu: Gpu, words: str) -> None:
    with pytest.raises(LaneError, match=words):
        check_device(lane, [gpu])


@pytest.mark.parametrize(
    ("lane", "gpu", "drafter", "words"),
    [
        # vllm#40382: large heads whose attention is not causal.
        (drafts_with("FLASH_ATTN"), A10G, {"head_dim": 512}, r"head sizes up to 256"),
        (drafts_with("FLASHINFER"), A10G, {"head_dim": 96}, r"64, 128, 256 and 512"),
        (drafts_with("TRITON_ATTN"), A10G, {"head_dim": 16}, r"from 32 on"),
        # vllm#41559: KV caches of few bits.
        (
            drafts_with("FLASH_ATTN", kv_cache_dtype="fp8"),
            L4,
            {},
            r"FLASH_ATTN .* KV cache in 16 bits only.* or use FLASHINFER or TRITON_ATTN\.",
        ),
        (
            spec(speculative={"kv_cache_dtype": "nvfp4"}, dtype="float32"),
            L4,
            {},
            r"keeps no KV cache in nvfp4",
        ),
        (drafts_with("FLEX_ATTENTION", kv_cache_dtype="fp8"), H200, {}, r"KV cache in 16 bits only\. Leave"),
        (
            spec(kv_cache_dtype="turboquant_4bit_nc"),
            L4,
            {},
            r"No attention backend of vLLM runs the non-causal attention of the drafter of lane 'lane' .*: "
            r"FLASH_ATTN .*; TURBOQUANT has causal attention only\. Write kv-cache-dtype: auto",
        ),
        (
            drafts_with("turboquant", kv_cache_dtype="turboquant_4bit_nc"),
            L4,
            {},
            r"TURBOQUANT cannot .* it has causal attention only\. .*, or ask for another kv-cache-dtype\.",
        ),
        (drafts_with("FLASHINFER", dtype="float"), L4, {}, r"does not compute in float32"),
        (drafts_with("FLASHINFER"), T4, {}, r"needs compute capability 8\.0 to 12\.1.* or use TRITON_ATTN"),
        (
            drafts_with("FLASHINFER", kv_cache_dtype="nvfp4"),
            T4,
            {},
            r"No attention backend .* the causal attention of the target of lane 'lane' on Tesla T4",
        ),
    ],
)
def test_what_the_models_tell(lane: LaneSpec, gpu: Gpu, drafter: dict[str, Any], words: str) -> None:
    with pytest.raises(LaneError, match=words):
        check(lane, gpu, drafter=drafter)


@pytest.mark.parametrize(
    ("lane", "gpu", "drafter"),
    [
        (spec(), T4, {}),
        (spec(dtype="half"), T4, {"head_dim": 256}),
        (spec(), A10G, {"head_dim": 256}),
        (spec(kv_cache_dtype="fp8"), A10G, {}),
        (drafts_with("FLASH_ATTN", kv_cache_dtype="fp8_e4m3"), H200, {}),
        (drafts_with("FLASH_ATTN"), H200, {"head_dim": 512}),
        (spec(kv_cache_dtype="turboquant_4bit_nc"), L4, {"dflash_config": {"causal": True}}),
        (spec(kv_cache_dtype="turboquant_4bit_nc"), L4, {"layer_types": ["sliding_attention"] * 2}),
        (spec(kv_cache_dtype="turboquant_4bit_nc"), L4, {"kv_lora_rank": 512}),
        (drafts_with("custom"), L4, {}),
        (spec(kv_cache_dtype="of_tomorrow"), L4, {}),
        (spec(attention_backend=None, kv_cache_dtype=None), L4, {}),
        (spec(tensor_parallel_size="many", gpu_memory_utilization="much"), L4, {}),
        (spec(), L4, {"num_attention_heads": [8, 8, 16], "head_dim": None}),
    ],
)
def test_what_works_or_is_not_known_passes(lane: LaneSpec, gpu: Gpu, drafter: dict[str, Any]) -> None:
    check(lane, gpu, drafter=drafter)


def test_a_drafter_of_another_method_is_causal() -> None:
    lane = LaneSpec("chain", "eagle3", engine={"kv-cache-dtype": "turboquant_4bit_nc"})
    check(lane, L4)


def test_parallel_engines_need_as_many_gpus() -> None:
    two = spec(20, tensor_parallel_size=2)
    check(two, L4, L4)
    with pytest.raises(LaneError, match=r"asks for 2 GPUs .* and 1 is visible: lower .*CUDA_VISIBLE_DEVICES"):
        check(two, L4)
    with pytest.raises(LaneError, match=r"asks for 4 GPUs .* and 3 are visible"):
        check_device(spec(data_parallel_size=2, tensor_parallel_size=2), [L4, L4, L4])
    check(spec(tensor_parallel_size=16, distributed_executor_backend="ray"), L4)
    full = Gpu("full", 24 * GB, GB, (8, 9))
    check(spec(20), L4, full)
    with pytest.raises(LaneError, match=r"1\.0 GB of 24\.0 GB on full"):
        check(two, L4, full)


OTHER = (
    r" Another GPU of this machine would do, big: CUDA_VISIBLE_DEVICES=3 takes it, set for the app or .*\.$"
)
BIG = Gpu("big", 24 * GB, 24 * GB, (8, 9), 3)


@pytest.mark.parametrize(
    ("lane", "first", "words"),
    [(spec(17), V100, "cannot run vLLM"), (spec(23.5), L4, "23.5 GB"),
     (drafts_with("FLASHINFER"), T4, "FLASHINFER")],
)  # fmt: skip
def test_a_refusal_names_another_gpu_that_would_do(lane: LaneSpec, first: Gpu, words: str) -> None:
    with pytest.raises(LaneError, match=words + ".*" + OTHER):
        check(lane, first, T4, BIG)
    with pytest.raises(LaneError, match=words) as refused:
        check(lane, first, T4)
    assert "CUDA_VISIBLE_DEVICES" not in str(refused.value)


def test_weights_that_fit_another_gpu_only(tmp_path: Path) -> None:
    target = model(tmp_path / "t", a=np.zeros(30_000, np.float16))
    small = Gpu("small", 50_000, 50_000, (8, 9))
    with pytest.raises(LaneError, match="0.0 GB of GPU memory.*" + OTHER):
        check_models(spec(), [small, BIG], [(target, TARGET)])


def test_heads_are_divided_among_the_gpus() -> None:
    gpus = [L4] * 3
    words = r"32 attention heads of the target .* divided among 3 GPUs: set .* one of 1, 2, 4, 8, 16"
    with pytest.raises(LaneError, match=words):
        check(spec(tensor_parallel_size=3), *gpus)
    with pytest.raises(LaneError, match=r"8 attention heads of the drafter"):
        check(spec(tensor_parallel_size=3), *gpus, num_attention_heads=48, drafter={"num_attention_heads": 8})
    whole = spec(tensor_parallel_size=3, speculative={"draft_tensor_parallel_size": 1})
    check(whole, *gpus, num_attention_heads=48, drafter={"num_attention_heads": 8})


def test_engines_that_sleep_keep_some_memory() -> None:
    check_device(spec(20), [L4], asleep_gb=2.9)
    with pytest.raises(
        LaneError, match=r"needs 20\.0 GB .* and 3\.1 GB for engines that sleep beside it; 23"
    ):
        check_device(spec(20), [L4], asleep_gb=3.1)


def model(folder: Path, **weights: Any) -> Path:
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({**TARGET, "vocab_size": 9}))
    save_file(weights, folder / "model.safetensors")
    return folder


def test_weights_on_disk_count_with_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = model(tmp_path / "t", a=np.zeros(30_000, np.float16), b=np.zeros(20_000, np.float32))
    drafter = model(tmp_path / "d", a=np.zeros(10_000, np.float16))
    free = 110_000 + 2 * 20_000
    gpu = Gpu("small", free, free, (8, 9))
    monkeypatch.setattr("dflash_viz.lanes.device.is_cpu_build", lambda: False)
    monkeypatch.setattr("dflash_viz.lanes.device.visible_gpus", lambda _: [gpu])
    # 50,000 and 10,000 numbers of 2 bytes each: 120,000 bytes.
    check_pair(spec(kv_cache_memory_bytes=30_000), target, drafter)
    plain = {"kv_cache_memory_bytes": 50_000, "gpu_memory_utilization": 0.1}
    check_pair(LaneSpec("plain", "none", engine=plain), target, None)
    for lane in (spec(kv_cache_memory_bytes="31k"), spec(kv_cache_memory_bytes=1, dtype="float32")):
        with pytest.raises(LaneError, match=r"'lane' needs 0\.0 GB of GPU memory"):
            check_pair(lane, target, drafter)


def test_weights_are_counted_once_and_what_cannot_be_read_not_at_all(tmp_path: Path) -> None:
    folder = model(tmp_path / "m", a=np.zeros(500, np.float16))
    assert weight_bytes(folder, None) == weight_bytes(folder, "bfloat16") == 1000
    assert weight_bytes(folder, "float32") == 2000
    save_file({"a": np.zeros(500, np.float16)}, folder / "consolidated.safetensors")
    (folder / "model.safetensors.index.json").write_text('{"weight_map": {"a": "model.safetensors"}}')
    assert weight_bytes(folder, None) == 1000
    for broken in (b"", b"\xff" * 8, b"\x02\x00\x00\x00\x00\x00\x00\x00[]", b"\x07" + b"\0" * 7 + b'{"a":1}'):
        (folder / "model.safetensors").write_bytes(broken)
        assert weight_bytes(folder, None) == 0
    (folder / "model.safetensors.index.json").write_text("[]")
    assert weight_bytes(folder, None) == 0
    assert weight_bytes(tmp_path / "nowhere", None) == 0


MACHINES = {
    "none": (None, "and engines run on the CPU here: there is no GPU"),
    "of another maker": (None, None),
    "garbage": ("\x07 no; such, thing", None),
    "T4": (smi.T4, "computes in bfloat16"),
    "A10G": (smi.A10G, None),
    "L4": (smi.L4, None),
    "A100": (smi.A100, None),
    "H200": (smi.H200, None),
    "two": (smi.TWO, None),
}


@pytest.mark.parametrize("machine", MACHINES)
def test_the_small_pairs_on_machines(machine: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    says, refused = MACHINES[machine]
    smi.put_smi(monkeypatch, tmp_path, says)
    # What a driver has put into /dev, here a file of the test's.
    driver = tmp_path / "driver"
    monkeypatch.setattr("dflash_viz.lanes.gpus.NODES", (str(driver),))
    if machine != "none":
        driver.touch()
    monkeypatch.setattr("dflash_viz.lanes.device.is_cpu_build", lambda: False)
    for name in ("embedded-cuda", "qwen3-4b", "qwen3.5-4b"):
        for lane in load_preset(name).lanes:
            if refused is None:
                check_spec(lane)
            else:
                with pytest.raises(LaneError, match=refused):
                    check_spec(lane)


def test_large_pairs_want_a_large_gpu(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("dflash_viz.lanes.device.is_cpu_build", lambda: False)
    lanes = [lane for name in ("qwen3-8b", "llama-3.1-8b") for lane in load_preset(name).lanes]
    smi.put_smi(monkeypatch, tmp_path / "large", smi.A100)
    for lane in lanes:
        check_spec(lane)
    smi.put_smi(monkeypatch, tmp_path / "small", smi.L4)
    for lane in lanes:
        with pytest.raises(LaneError, match=r"23\.7 GB of 24\.2 GB on NVIDIA L4 are free"):
            check_spec(lane)


@pytest.mark.parametrize("says", [None, smi.H200])
def test_the_build_for_cpus_runs_no_pair_for_gpus(
    says: str | None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    smi.put_smi(monkeypatch, tmp_path, says)
    monkeypatch.setattr("dflash_viz.lanes.device.is_cpu_build", lambda: True)
    refused = (
        "Lane 'dflash' needs 33.7 GB of GPU memory, and engines run on the CPU here: the vLLM that is "
        "installed is the one for CPUs. Choose a pair for this machine, as the app does with --preset auto; "
        'for a GPU see "An engine on a GPU" in the README.'
    )
    with pytest.raises(LaneError) as error:
        check_spec(load_preset("qwen3-8b").lanes[0])
    assert str(error.value) == refused
    check_spec(LaneSpec("dflash", "dflash", drafter="mine", num_speculative_tokens=7))


def test_a_pair_for_gpus_is_refused_before_its_weights_are_fetched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dflash_viz.lanes.device.is_cpu_build", lambda: True)
    monkeypatch.setattr(Lane, "_weights", None)
    lane = Lane(load_preset("qwen3-8b").lanes[0])
    lane.start()
    with pytest.raises(LaneError, match=r"33\.7 GB of GPU memory.*the one for CPUs"):
        lane.wait_ready(30)
    lane.close()


def test_the_build_and_the_lanes_choice_decide(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    smi.put_smi(monkeypatch, tmp_path, smi.TWO)
    lane = LaneSpec("second", "none", environment={"CUDA_VISIBLE_DEVICES": "1"})
    monkeypatch.setattr("dflash_viz.lanes.device.is_cpu_build", lambda: True)
    assert engine_gpus(lane) == []
    monkeypatch.setattr("dflash_viz.lanes.device.is_cpu_build", lambda: False)
    assert [gpu.free // 2**20 for gpu in engine_gpus(lane)] == [9000]
    assert len(engine_gpus(LaneSpec("any", "none"))) == 2
