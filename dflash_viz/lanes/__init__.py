"""Lanes: one method on the target, one engine, one trace per request."""

from dflash_viz.lanes.client import LaneClient, LaneRun
from dflash_viz.lanes.errors import LaneError
from dflash_viz.lanes.fleet import Fleet
from dflash_viz.lanes.lane import Lane, LaneStatus
from dflash_viz.lanes.race import Race, Turn
from dflash_viz.lanes.spec import LaneSpec, load_preset

__all__ = [
    "Fleet",
    "Lane",
    "LaneClient",
    "LaneError",
    "LaneRun",
    "LaneSpec",
    "LaneStatus",
    "Race",
    "Turn",
    "load_preset",
]
