"""How much memory is left: the machine's, or a container's."""

from __future__ import annotations

from pathlib import Path

import psutil
import pytest

from dflash_viz.lanes import ram

GB = 10**9


@pytest.fixture
def cgroup(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """No container yet, on a machine that has 64 GB left."""
    memory = psutil.virtual_memory()._replace(available=64 * GB)
    monkeypatch.setattr(psutil, "virtual_memory", lambda: memory)
    monkeypatch.setattr(ram, "CGROUP", tmp_path)
    return tmp_path


def test_a_machine_of_ones_own(cgroup: Path) -> None:
    assert ram.free_ram() == 64 * GB


def test_a_container_has_its_limit_and_gets_back_what_files_hold(cgroup: Path) -> None:
    (cgroup / "memory.max").write_text(f"{30 * GB}\n")
    (cgroup / "memory.current").write_text(f"{25 * GB}\n")
    (cgroup / "memory.stat").write_text(f"anon {5 * GB}\ninactive_file {12 * GB}\nactive_file {6 * GB}\n")
    assert ram.free_ram() == 23 * GB
    (cgroup / "memory.max").write_text("max\n")
    assert ram.free_ram() == 64 * GB


def test_the_older_kind_of_container(cgroup: Path) -> None:
    (cgroup / "memory").mkdir()
    (cgroup / "memory/memory.limit_in_bytes").write_text(f"{30 * GB}\n")
    (cgroup / "memory/memory.usage_in_bytes").write_text(f"{10 * GB}\n")
    stat = f"cache {4 * GB}\ntotal_inactive_file {3 * GB}\ntotal_active_file {GB}\n"
    (cgroup / "memory/memory.stat").write_text(stat)
    assert ram.free_ram() == 24 * GB
    (cgroup / "memory/memory.limit_in_bytes").write_text(f"{2**63 - 4096}\n")
    assert ram.free_ram() == 64 * GB


@pytest.mark.parametrize("stat", ["", "inactive_file 1", "garbage", "inactive_file x\nactive_file y"])
def test_what_cannot_be_read_is_no_limit(cgroup: Path, stat: str) -> None:
    (cgroup / "memory.max").write_text("1000\n")
    (cgroup / "memory.current").write_text("10\n")
    (cgroup / "memory.stat").write_text(stat)
    assert ram.free_ram() == 64 * GB
