"""What the card of a failed lane tells its reader to do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dflash_viz.lanes import Fleet, LaneSpec, Server
from dflash_viz.lanes.race import Turn
from dflash_viz.trace import Trace, read_trace
from dflash_viz.ui.chat import BACK_HINT, RETRY_HINT, _LaneDrawing

ANSWERED = Path("assets/recorded/gallery/chat/1-dflash.jsonl.gz")


@pytest.mark.parametrize(
    ("lane", "died", "hints"),
    [("own", False, {RETRY_HINT}), ("own", True, {RETRY_HINT}), ("there", False, set()),
     ("there", True, {BACK_HINT})],
)  # fmt: skip
def test_a_server_goes_on_by_itself_and_an_engine_wants_its_button(
    lane: str, died: bool, hints: set[str]
) -> None:
    fleet = Fleet([LaneSpec("own", "none")], [Server("there", "http://h")])
    fleet.lanes[lane].fail("It has gone.")
    recorder: Any = None
    trace: Trace | None = read_trace(ANSWERED) if died else None
    document = _LaneDrawing(lane, fleet, recorder, trace).take(Turn("failed", "It has gone."))
    assert {hint for hint in (RETRY_HINT, BACK_HINT) if hint in document} == hints
