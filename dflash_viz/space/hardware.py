"""The machines that the Hub lends to Spaces, by the names that it gives them."""

from __future__ import annotations

from typing import NamedTuple


class Hardware(NamedTuple):
    """``memory_gb`` is that of all its GPUs together, or the machine's own where it has none."""

    gpus: int
    memory_gb: int


CPU_BASIC = "cpu-basic"
"""The free one, which sleeps after 48 hours without visitors, whatever it is told."""

# https://huggingface.co/docs/hub/spaces-gpus. The Hub's client does not list h100 and h200, which not every
# account can have: the Hub refuses them where it does not lend them.
HARDWARE = {
    CPU_BASIC: Hardware(0, 16),
    "cpu-upgrade": Hardware(0, 32),
    "l4x1": Hardware(1, 24),
    "l4x4": Hardware(4, 96),
    "a10g-small": Hardware(1, 24),
    "a10g-large": Hardware(1, 24),
    "a10g-largex2": Hardware(2, 48),
    "a10g-largex4": Hardware(4, 96),
    "l40sx1": Hardware(1, 48),
    "l40sx4": Hardware(4, 192),
    "l40sx8": Hardware(8, 384),
    "rtx-pro-6000": Hardware(1, 96),
    "rtx-pro-6000x2": Hardware(2, 192),
    "rtx-pro-6000x4": Hardware(4, 384),
    "rtx-pro-6000x8": Hardware(8, 768),
    "a100-large": Hardware(1, 80),
    "a100x4": Hardware(4, 320),
    "a100x8": Hardware(8, 640),
    "h100": Hardware(1, 80),
    "h100x8": Hardware(8, 640),
    "h200": Hardware(1, 141),
    "h200x8": Hardware(8, 1128),
}

UNFIT = {
    "t4-small": "a T4 does not compute in bfloat16",
    "t4-medium": "a T4 does not compute in bfloat16",
    "zero-a10g": "ZeroGPU lends a GPU to single calls, and an engine needs one all the time",
}
"""Why an engine cannot run on what the Hub has besides."""
