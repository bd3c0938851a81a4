"""Server options, as vLLM takes them."""

from __future__ import annotations

import pytest

from dflash_viz.lanes import LaneSpec
from dflash_viz.lanes.options import cache_bytes, option, size_bytes, whole


def test_dashes_and_underscores_are_the_same() -> None:
    lane = LaneSpec("lane", "none", engine={"max_num_seqs": 8, "kv-cache-memory-bytes": "2k", "seed": None})
    assert (option(lane, "max-num-seqs"), whole(lane, "max-num-seqs", 1)) == (8, 8)
    assert cache_bytes(lane) == 2000
    assert (option(lane, "seed", 5), option(lane, "absent"), whole(lane, "absent", 3)) == (5, None, 3)
    assert whole(LaneSpec("lane", "none", engine={"absent": "many"}), "absent", 3) is None
    assert cache_bytes(LaneSpec("lane", "none")) == 0


@pytest.mark.parametrize(
    ("told", "size"),
    [(5, 5), ("5", 5), ("1.5k", 1500), ("2K", 2048), ("3m", 3_000_000), ("1M", 2**20), ("1g", 10**9),
     ("1.5G", 1.5 * 2**30), ("odd", None), ("1.2.3", None), ("", None), ("-1", None), (None, None)],
)  # fmt: skip
def test_sizes(told: object, size: float | None) -> None:
    assert size_bytes(told) == size
