"""The figures of a whole benchmark, with intervals over its prompts; pure functions of its result."""

from dflash_viz.metrics.measured.bootstrap import Estimate, mean, paired_difference, paired_ratio, ratio
from dflash_viz.metrics.measured.counts import ServerCheck, server_checks
from dflash_viz.metrics.measured.course import (
    CoursePoint,
    against,
    course,
    few_questions,
    lane_labels,
    sample_length,
    stops_paying,
)
from dflash_viz.metrics.measured.expectations import (
    EXPECTATIONS,
    Expectation,
    ExpectationError,
    Verdict,
    judge,
    judge_rows,
    read_expectations,
    recorded_expectations,
    write_expectations,
)
from dflash_viz.metrics.measured.figures import (
    KIND_KEYS,
    MEASURED,
    PromptFigure,
    by_kind,
    by_prompt,
    per_position,
    setting_value,
    setting_values,
)
from dflash_viz.metrics.measured.pairs import MAX_PAIRS, Pair, pairs
from dflash_viz.metrics.measured.quality import (
    Quality,
    final_number,
    parses_as_python,
    quality,
    quality_warnings,
)
from dflash_viz.metrics.measured.sums import indexed

__all__ = [
    "EXPECTATIONS",
    "KIND_KEYS",
    "MAX_PAIRS",
    "MEASURED",
    "CoursePoint",
    "Estimate",
    "Expectation",
    "ExpectationError",
    "Pair",
    "PromptFigure",
    "Quality",
    "ServerCheck",
    "Verdict",
    "against",
    "by_kind",
    "by_prompt",
    "course",
    "few_questions",
    "final_number",
    "indexed",
    "judge",
    "judge_rows",
    "lane_labels",
    "mean",
    "paired_difference",
    "paired_ratio",
    "pairs",
    "parses_as_python",
    "per_position",
    "quality",
    "quality_warnings",
    "ratio",
    "read_expectations",
    "recorded_expectations",
    "sample_length",
    "server_checks",
    "setting_value",
    "setting_values",
    "stops_paying",
    "write_expectations",
]
