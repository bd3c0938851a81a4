"""The app as a Hugging Face Space: the Spacefile, what is rendered from it, and its deployment."""

from dflash_viz.space.model import Limits, SpaceError, Spacefile
from dflash_viz.space.spacefile import check_spacefile, read_spacefile

__all__ = ["Limits", "SpaceError", "Spacefile", "check_spacefile", "read_spacefile"]
