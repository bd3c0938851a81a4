"""The kernel that finds top-k, in Triton's interpreter on the CPU: the numbers, not the launch."""

from __future__ import annotations

import os
import subprocess
import sys

from gpu.kernel import TOLERANCE

# In a process of its own: Triton asks for the interpreter when it is imported.
COMPARE = """
import torch
from dflash_viz.hooks.fused import Fused
from gpu.kernel import as_hooks_ask, difference
device = torch.device("cpu")
cases = as_hooks_ask(device, torch.Generator().manual_seed(0))
print(*(difference(Fused(device), at) for at in cases))
"""


def test_it_finds_what_torch_finds() -> None:
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    done = subprocess.run(
        [sys.executable, "-c", COMPARE], env=environment, stdout=subprocess.PIPE, check=True
    )
    differences = [float(word) for word in done.stdout.split()]
    assert len(differences) == 3
    assert max(differences) < TOLERANCE
