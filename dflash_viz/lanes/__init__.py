"""Lanes: one method on the target, one engine, one trace per request."""

from dflash_viz.lanes.client import LaneClient, LaneRun
from dflash_viz.lanes.errors import LaneError
from dflash_viz.lanes.lane import Lane, LaneStatus
from dflash_viz.lanes.spec import LaneSpec, load_preset

__all__ = [
    "Lane",
    "LaneClient",
    "LaneError",
    "LaneRun",
    "LaneSpec",
    "LaneStatus",
    "load_preset",
]
