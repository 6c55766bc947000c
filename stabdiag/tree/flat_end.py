"""The flat end of a run: since when its loss, its reward or its score no longer improves."""

from __future__ import annotations

import numpy as np

from stabdiag.model.history import Series
from stabdiag.model.roles.scores import Direction
from stabdiag.model.text import num, percent
from stabdiag.stats.course import position_after
from stabdiag.stats.levels import block_levels
from stabdiag.stats.quantiles import diff_sigma, median
from stabdiag.stats.standards import (
    BEYOND_CHANCE,
    HALF,
    MAX_CHANCE,
    MIN_CONSECUTIVE,
    QUARTER,
    RELATIVE_TOLERANCE,
    TWENTIETHS,
)
from stabdiag.stats.trend import mann_kendall
from stabdiag.tree.case import Case
from stabdiag.tree.scores import scores


def describe_flat_end(case: Case) -> str:
    """Describe the end of the log if nothing improves there, for a quarter of it or more.

    A loss, or without a loss the first score, stays within a hundredth, or does not improve beyond
    its noise over its second half. The loss of a policy or an adversary says nothing.
    """
    if case.loss_kind is not None or case.reward is not None:
        return ""
    if len(case.loss):
        return _describe(case, "The loss", case.loss, Direction.LOWER)
    score = next(iter(scores(case)), None)
    return "" if score is None else _describe(case, repr(score.name), score.series, score.direction)


def _describe(case: Case, name: str, series: Series, direction: Direction) -> str:
    x, steps = series.values * -float(direction), series.steps
    if len(x) < TWENTIETHS:
        return ""
    level, starts = block_levels(x, len(x) // TWENTIETHS)
    last = float(level[-1])
    begin = position_after(np.abs(level - last) > RELATIVE_TOLERANCE * abs(last))
    if begin <= (1 - QUARTER) * len(level):
        since = f"since {case.unit} {int(steps[starts[begin]])}" if begin else "throughout"
        value = num(-last * direction)
        return f"{name} has stayed within {percent(RELATIVE_TOLERANCE)} of {value} {since}."
    begin = position_after(
        level - median(level[-MIN_CONSECUTIVE:]) > BEYOND_CHANCE * diff_sigma(level)
    )
    if not 0 < begin <= HALF * len(level) or mann_kendall(-x[starts[begin] :]) < MAX_CHANCE:
        return ""
    verb = "fallen" if direction is Direction.LOWER else "risen"
    return f"{name} has not {verb} beyond its noise since {case.unit} {int(steps[starts[begin]])}."
