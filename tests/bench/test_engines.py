"""An engine for a benchmark has room for all the requests that it is to answer at once."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from dflash_viz.bench.engines import roomy
from dflash_viz.lanes import LaneSpec, load_preset


def lane(**engine: Any) -> LaneSpec:
    return LaneSpec("dflash", "dflash", drafter="somewhere", num_speculative_tokens=5, engine=engine)


@pytest.mark.parametrize("concurrency", [1, 15, 16])
def test_an_engine_with_room_stays_as_it_is(concurrency: int) -> None:
    spec = load_preset("embedded-cpu").lanes[0]
    assert roomy(spec, concurrency) is spec


@pytest.mark.parametrize(("concurrency", "cache"), [(17, "640M"), (32, "640M"), (33, "960M"), (128, "2560M")])
def test_each_request_has_as_much_cache_as_the_preset_gives(concurrency: int, cache: str) -> None:
    spec = load_preset("embedded-cpu").lanes[0]
    made = roomy(spec, concurrency)
    changed = {"max-num-seqs": concurrency, "kv-cache-memory-bytes": cache}
    assert made == msgspec.structs.replace(spec, engine={**spec.engine, **changed})
    assert spec.engine["max-num-seqs"] == 16, "the preset itself was changed"


@pytest.mark.parametrize(
    ("cache", "more"),
    [(1000, "3000"), ("320000000", "960000000"), ("1.5g", "4.5g"), ("25.6k", "76.8k")],
)
def test_the_cache_is_written_in_any_way(cache: object, more: str) -> None:
    made = roomy(lane(**{"max-num-seqs": 2, "kv-cache-memory-bytes": cache}), 6)
    assert made.engine == {"max-num-seqs": 6, "kv-cache-memory-bytes": more}


def test_where_the_preset_says_nothing_the_engine_decides() -> None:
    assert roomy(lane(), 128) == lane()
    by_share = lane(**{"max-num-seqs": 4, "gpu-memory-utilization": 0.4})
    assert roomy(by_share, 5).engine == {"max-num-seqs": 5, "gpu-memory-utilization": 0.4}
    unlike = lane(**{"max-num-seqs": "16"})
    assert roomy(unlike, 128) == unlike
