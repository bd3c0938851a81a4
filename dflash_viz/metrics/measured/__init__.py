"""The figures of a whole benchmark, with intervals over its prompts; pure functions of its result."""

from dflash_viz.metrics.measured.bootstrap import Estimate, mean, paired_difference, paired_ratio, ratio
from dflash_viz.metrics.measured.course import CoursePoint, against, course, stops_paying
from dflash_viz.metrics.measured.figures import (
    MEASURED,
    PromptFigure,
    by_kind,
    by_prompt,
    per_position,
    setting_value,
    setting_values,
)
from dflash_viz.metrics.measured.pairs import Pair, pairs

__all__ = [
    "MEASURED",
    "CoursePoint",
    "Estimate",
    "Pair",
    "PromptFigure",
    "against",
    "by_kind",
    "by_prompt",
    "course",
    "mean",
    "paired_difference",
    "paired_ratio",
    "pairs",
    "per_position",
    "ratio",
    "setting_value",
    "setting_values",
    "stops_paying",
]
