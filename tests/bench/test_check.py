"""A pair's check on real engines: the shipped drafter passes, a damaged one does not; Ctrl-C ends it well."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
import torch
from safetensors.torch import load_file, save_file

from dflash_viz.bench.engines import OwnEngines
from dflash_viz.bench.job import start_job
from dflash_viz.bench.order import Order
from dflash_viz.bench.validation import Check, Choice, conclude, plan_checks
from dflash_viz.lanes import Lane
from dflash_viz.metrics.measured.expectations import read_expectations, recorded_expectations
from dflash_viz.weights.resolver import ROOT
from tests.bench.test_job import Lent, run

pytestmark = pytest.mark.engine
DRAFTER = ROOT / "assets" / "drafters" / "smollm2-135m-instruct-dflash-b8"


def shuffled(out: Path, layer: int) -> Path:
    """A copy of the shipped drafter in which every matrix of one layer has its rows in another order."""
    shutil.copytree(DRAFTER, out, ignore=shutil.ignore_patterns("SHA256SUMS"))
    for file in out.glob("*.safetensors"):
        tensors = load_file(file)
        for name, tensor in tensors.items():
            if name.startswith(f"layers.{layer}.") and tensor.dim() == 2:
                order = torch.randperm(len(tensor), generator=torch.Generator().manual_seed(0))
                tensors[name] = tensor[order].contiguous()
        save_file(tensors, file, metadata={"format": "pt"})
    return out


async def test_the_shipped_drafter_reaches_what_was_recorded(lane: Lane, tmp_path: Path) -> None:
    (check,) = plan_checks("embedded", read_expectations(), Choice(lanes=("dflash",)))
    job = start_job(check.order, Lent(lane), tmp_path / "result")
    await run(job)
    validation = conclude(job.result, check)
    assert validation.passed, validation
    (verdict,) = validation.verdicts
    assert verdict.reasons == (), "the drafter is the one that was recorded"


async def test_a_shuffled_layer_is_found_and_named(lane: Lane, tmp_path: Path) -> None:
    order = Order(limit=15, lanes=("dflash",), max_tokens=32, concurrencies=(15,))
    good = start_job(order, Lent(lane), tmp_path / "good")
    await run(good)
    rows = recorded_expectations(good.result, "embedded", 0.9, "")
    choice = Choice(lanes=("dflash",), drafter=str(shuffled(tmp_path / "drafter", 2)))
    (check,) = plan_checks("embedded", read_expectations(), choice)
    replaced = check.replaced
    bad = start_job(order, OwnEngines(), tmp_path / "bad", replaced)
    await run(bad)
    validation = conclude(bad.result, Check(order, replaced, tuple(rows)))
    (verdict,) = validation.verdicts
    assert verdict.outcome == "fail", verdict
    assert any("drafter is not the one" in reason for reason in verdict.reasons)
    named = [found for found in validation.findings[0] if found.rule == "weights"]
    assert named, validation.findings
    assert "layer 2" in named[0].title
    assert "layer 1" not in named[0].title
    assert "the same numbers in another order in layers.2.mlp.down_proj.weight" in named[0].evidence[0]


def children(process: subprocess.Popen[str]) -> list[psutil.Process]:
    """Every process below it."""
    return psutil.Process(process.pid).children(recursive=True)


def test_ctrl_c_keeps_what_is_there_and_leaves_nothing_running(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "dflash_viz", "bench", "--lanes", "ngram", "--out", str(tmp_path / "r")]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        while not any("api_server" in " ".join(p.cmdline()) for p in children(process)):
            assert process.poll() is None
            time.sleep(0.1)
        below = children(process)
        process.send_signal(signal.SIGINT)
        shown, told = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 130
    assert shown.startswith("## embedded-cpu on builtin"), "the table alone goes to standard output"
    assert "what is answered is kept" in told
    assert f"--resume {tmp_path / 'r'}" in told.replace("\n", "")
    assert "Traceback" not in told
    assert not psutil.wait_procs(below, timeout=20)[1]
