"""Lanes: one method on the target, one engine, one trace per request."""

from dflash_viz.lanes.access import Server, read_secrets, read_servers
from dflash_viz.lanes.client import LaneClient, LaneRun
from dflash_viz.lanes.counted import CountedRun, Text
from dflash_viz.lanes.errors import LaneError
from dflash_viz.lanes.face import LaneFace, LaneStatus
from dflash_viz.lanes.fleet import Fleet
from dflash_viz.lanes.lane import Lane
from dflash_viz.lanes.race import Race, Turn
from dflash_viz.lanes.spec import LaneSpec, load_preset

__all__ = [
    "CountedRun",
    "Fleet",
    "Lane",
    "LaneClient",
    "LaneError",
    "LaneFace",
    "LaneRun",
    "LaneSpec",
    "LaneStatus",
    "Race",
    "Server",
    "Text",
    "Turn",
    "load_preset",
    "read_secrets",
    "read_servers",
]
