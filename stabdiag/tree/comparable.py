"""Changes of the data or the objective, sudden or gradual, that make losses incomparable.

Longer sequences, another stage's data or a larger loss weight give the loss a new level, and the
earlier level says nothing about it. The loss alone cannot separate this kind of rise from a fault.
Three signs do: a loss back at its initial level has forgotten what was learned, a loss that keeps
rising does not learn the new data, and a rising learning rate or weight norm is another cause.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

import numpy as np

from stabdiag.model.arrays import Floats
from stabdiag.model.frozen import frozen
from stabdiag.model.history import Series
from stabdiag.model.roles.settings import difficulty_direction, is_loss_weight
from stabdiag.model.text import num
from stabdiag.stats.coincidence import FEW_CHANGES
from stabdiag.stats.course import beginning
from stabdiag.stats.quantiles import median
from stabdiag.stats.shape import Spike, centered_median
from stabdiag.stats.standards import (
    CONTEXT_POINTS,
    MIN_TREND_POINTS,
    QUARTER,
    QUARTERS,
    RELATIVE_TOLERANCE,
    TENTH,
    THIRD,
)
from stabdiag.stats.trend import mann_kendall
from stabdiag.tree.changes import NearbyChange, near_spike, nearby_changes, quoted_name
from stabdiag.tree.rises import is_clear, measure_rise
from stabdiag.tree.run import Run

# A loss that is logged as a mean or with a delay shows a change at most this many points late.
_MAX_DELAY = 2

# A rise follows a change if, halfway through the change, at least this fraction of the rise is done
# and at least this fraction remains.
_MIN_REMAINING_FRACTION = QUARTER

# A running mean covers two fifths of a jump in the first quarter of its approach, or less if the
# loss falls in the meantime. A line covers a quarter.
_MIN_EARLY_FRACTION = THIRD


@frozen
class ObjectiveChange:
    """A lasting jump, its new level, and the settings that changed the objective there.

    Losses are comparable again from the position ``until`` on.
    """

    spike: Spike
    level: float
    changes: tuple[NearbyChange, ...]
    until: int


@frozen
class CurriculumRamp:
    """A setting that gradually made the task harder, and the rise of the loss with it.

    The loss rose between the positions ``first`` and ``last``, from ``low`` to ``high``. Losses are
    comparable again from ``until`` on. ``is_loss_weight`` means that the setting weights a term of
    the loss.
    """

    name: str
    first: int
    last: int
    until: int
    before: str
    after: str
    low: float
    high: float
    is_loss_weight: bool

    def contains(self, spike: Spike) -> bool:
        """Return True if a lasting jump is a part of the rise."""
        return not spike.recovered and self.first <= spike.onset < self.last


def find_objective_changes(run: Run, spikes: Sequence[Spike]) -> tuple[ObjectiveChange, ...]:
    """Return the lasting (or unresolved) jumps that began at a change of the objective."""
    if not run.causes.moves:
        return ()
    x, n = run.loss.values, len(run.loss)
    objective_changes: list[ObjectiveChange] = []
    until = n
    stayed = (spike for spike in spikes if not spike.recovered)
    for spike in sorted(stayed, key=lambda spike: spike.onset, reverse=True):
        candidates = near_spike(run, spike, within=_MAX_DELAY)
        changes = tuple(change for change in candidates if change.changes_objective)
        end = max(spike.end, spike.onset + 1)
        # §4 examines the part after the jump has settled, if that is long enough.
        stop = min(until, end if n - end >= run.rise_window else n)
        is_weighted = any(change.is_loss_weight for change in changes)
        candidate: ObjectiveChange | None
        if changes and _keeps_learning(run, spike, stop, is_weighted=is_weighted):
            level = median(x[spike.onset : end])
            candidate = ObjectiveChange(
                spike=spike, level=level, changes=changes, until=spike.onset
            )
        else:
            candidate = _approached_change(run, spike, until)
        if candidate is not None and not _has_other_cause(run, candidate):
            objective_changes.append(candidate)
        until = spike.onset
    return tuple(reversed(objective_changes))


def _keeps_learning(run: Run, spike: Spike, until: int, *, is_weighted: bool) -> bool:
    """Return True if the later losses stay below the initial level and do not keep rising.

    New data may start as high as the run did and then be learned. A larger loss weight may raise
    the loss to any level. A few losses after a jump are not enough to tell.
    """
    if until - spike.onset < CONTEXT_POINTS:
        return False
    x = run.loss.values
    later = x[(spike.onset + until) // 2 : until]
    keeps = is_weighted or median(later) < beginning(x)
    return keeps and mann_kendall(later) >= run.limits.divergence.significance


def _approached_change(run: Run, spike: Spike, until: int) -> ObjectiveChange | None:
    """Return the change after which a running mean approached a new level, or None.

    It shows a jump late, and takes long to reach the new level.
    """
    change = next((x for x in near_spike(run, spike) if x.changes_objective), None)
    if change is None:
        return None
    first = int(np.searchsorted(run.loss.steps, change.step))
    approach = _find_approach(run, first, until)
    if approach is None or approach.high > beginning(run.loss.values):
        return None
    return ObjectiveChange(spike=spike, level=approach.high, changes=(change,), until=approach.last)


def _has_other_cause(run: Run, change: ObjectiveChange) -> bool:
    """Return True if the log shows a cause of a jump that is unrelated to the data.

    A gradient is noisy, and large at first on new data. It scales with the loss.
    """
    onset = change.spike.onset
    first, last = run.at(max(onset - _MAX_DELAY, 0)), run.at(onset + _MAX_DELAY)
    if run.after_logged_cause[onset] or _has_rising_cause(run, first, last):
        return True
    norm = run.history.finite("grad_norm")
    begin, end = np.searchsorted(norm.steps, [first, run.at(onset + run.reach.recovery)])
    before, later = (
        norm.values[max(begin - CONTEXT_POINTS, 0) : begin],
        norm.values[begin : end + 1],
    )
    if not (len(before) and len(later)):
        return False
    growth = max(change.level / change.spike.base, 1.0) if change.spike.base > 0 else 1.0
    low, high = sorted((median(before), median(later[len(later) // 2 :])))
    return high > run.limits.spike.grad_ratio * growth * low


def find_curriculum_ramp(
    run: Run, spikes: Sequence[Spike], objective_changes: Sequence[ObjectiveChange]
) -> CurriculumRamp | None:
    """Return the setting that gradually made the task harder and raised the loss, or None.

    If there are several, the longest one is returned.
    """
    history = run.history
    settings = (*history.group("setting").values(), history.finite("loss_weight"))
    ramps = [_ramp(run, setting.finite(), spikes, objective_changes) for setting in settings]
    ramps.append(_delayed_change(run, spikes))
    return max(filter(None, ramps), key=lambda ramp: ramp.until, default=None)


def _ramp(
    run: Run, setting: Series, spikes: Sequence[Spike], objective_changes: Sequence[ObjectiveChange]
) -> CurriculumRamp | None:
    course = _course(run, setting)
    if course is None or len(course) <= 2 * MIN_TREND_POINTS:
        return None
    n, tolerance = len(course), RELATIVE_TOLERANCE * np.ptp(course)
    until = int(np.flatnonzero(np.abs(course - course[-1]) > tolerance)[-1]) + 1
    if n - until < run.rise_window:
        until = n
    begin = max(
        (change.spike.end for change in objective_changes if change.spike.onset < until), default=0
    )
    rise = measure_rise(run, slice(min(begin, until), until), spikes)
    if rise is None or not is_clear(run, rise):
        return None
    first = max(rise.best, int(np.argmax(np.abs(course - course[0]) > tolerance)))
    last = min(until, n - 1)
    is_weighted = setting.role == "loss_weight" or any(map(is_loss_weight, _names(setting)))
    if not is_weighted and rise.last_level > beginning(run.loss.values):
        return None  # only a loss weight can raise the loss above its initial level
    if last - first < 2 * MIN_TREND_POINTS or 2 * (course[last] - course[first]) < np.ptp(course):
        return None
    if not _rises_along(run, course, first, last, is_weighted=is_weighted):
        return None
    if _has_rising_cause(run, run.at(first), run.at(last)):
        return None
    return CurriculumRamp(
        name=quoted_name(setting.column),
        first=first,
        last=last,
        until=until,
        before=num(float(setting.until(run.at(first)).values[-1])),
        after=num(float(setting.until(run.at(last)).values[-1])),
        low=rise.best_level,
        high=rise.last_level,
        is_loss_weight=is_weighted,
    )


def _delayed_change(run: Run, spikes: Sequence[Spike]) -> CurriculumRamp | None:
    """Return the sudden change of a setting after which the loss approached a new level, or None.

    A running mean shows a jump as an approach: fastest at first, and settled in the end. A fault
    accelerates, or continues.
    """
    if not run.causes.moves:
        return None
    x, n = run.loss.values, len(run.loss)
    rise = measure_rise(run, slice(0, n), spikes)
    if rise is None or rise.amount <= rise.bar or rise.last_level > beginning(x):
        return None
    # The onset is the last point near the best level, which is a mean of several points.
    begins = (rise.best, max(rise.best - rise.points, 0))
    candidates = (nearby_changes(run, run.at(begin), run.at(rise.onset)) for begin in begins)
    change = next((change for change in chain(*candidates) if change.changes_objective), None)
    if change is None:
        return None
    first = int(np.searchsorted(run.loss.steps, change.step))
    approach = _find_approach(run, first, n)
    if approach is None:
        return None
    return CurriculumRamp(
        name=change.name,
        first=first,
        last=approach.last,
        until=approach.last,
        before=change.before,
        after=change.after,
        low=approach.low,
        high=approach.high,
        is_loss_weight=change.is_loss_weight,
    )


@frozen
class _Approach:
    """The approach of a running mean to a new level, which it reaches at the position ``last``."""

    last: int
    low: float
    high: float


def _find_approach(run: Run, first: int, until: int) -> _Approach | None:
    """Return the approach to a new level from a position on, or None.

    It is fastest at first, and settles before the position ``until``.
    """
    x, width = run.loss.values[:until], MIN_TREND_POINTS // 2
    if not first or until - first < QUARTERS * MIN_TREND_POINTS:
        return None
    before, smooth = median(x[max(first - width, 0) : first]), centered_median(x, 2 * width + 1)
    height = float(smooth[first:].max()) - before
    last = first + int(np.argmax(smooth[first:] >= before + (1 - TENTH) * height))
    quarter = (last - first) // QUARTERS
    settled = x[last + quarter :]
    is_approach = smooth[first + quarter] - before > _MIN_EARLY_FRACTION * height > 0
    # It was observed at its new level for at least as long as it took to get there.
    if not is_approach or until - last < max(last - first, 2 * MIN_TREND_POINTS):
        return None
    if mann_kendall(settled) < run.limits.divergence.significance:
        return None
    if _has_rising_cause(run, run.at(max(first - 1, 0)), run.at(last)):
        return None
    return _Approach(last=last, low=before, high=before + height)


def _course(run: Run, setting: Series) -> Floats | None:
    """Return the difficulty that a setting gives each loss, or None.

    The difficulty rises, in more than a few steps. Between two records, the earlier value applies.
    Only a loss weight may decrease again.
    """
    direction: int | None = 1
    if setting.role != "loss_weight":
        directions = () if setting.words else map(difficulty_direction, _names(setting))
        direction = next((sign for sign in directions if sign is not None), None)
    if direction is None or len(setting) <= FEW_CHANGES:
        return None
    if direction == 0:
        direction = 1 if setting.values[-1] > setting.values[0] else -1
    difficulty = direction * setting.values
    if (difficulty[1:] < difficulty[:-1]).any() and setting.role != "loss_weight":
        return None
    if np.count_nonzero(difficulty[1:] != difficulty[:-1]) <= FEW_CHANGES:
        return None
    at = np.searchsorted(setting.steps, run.loss.steps, side="right") - 1
    course: Floats = difficulty[np.maximum(at, 0)]
    if not len(course) or course[-1] <= course[0]:
        return None
    return course if np.isfinite(np.ptp(course)) else None


def _names(setting: Series) -> tuple[str, str]:
    return setting.column, setting.role.partition("/")[2]


def _rises_along(run: Run, course: Floats, first: int, last: int, *, is_weighted: bool) -> bool:
    """Return True if a rise is spread over a change, in proportion to the steps or the setting.

    The minimum of a weighted sum is a concave function of its weights, so a loss weight may raise
    the loss faster than it grows itself.
    """
    x, width = run.loss.values, max((last - first) // MIN_TREND_POINTS, 2)
    low, high = median(x[first : first + width]), median(x[last - width : last + 1])
    for axis in (run.loss.steps, course):
        half = (axis[first] + axis[last]) / 2
        middle = first + int(np.searchsorted(axis[first:last], half))
        rise = median(x[middle - width : middle + width]) - low
        fraction = rise / (high - low) if high > low else 0.0
        if fraction >= _MIN_REMAINING_FRACTION and (
            is_weighted or fraction <= 1 - _MIN_REMAINING_FRACTION
        ):
            return True
    return False


def _has_rising_cause(run: Run, begin: int, end: int) -> bool:
    """Return True if the learning rate or a weight norm rises too, which is another cause.

    The learning rate has to exceed its level from when the loss still fell.
    """
    lr, limits = run.history.finite("lr"), run.limits.divergence
    before, since = lr.until(begin).values, lr.between(begin + 1, end).values
    if len(before) and len(since) and since.max() > limits.lr_rise * before.max():
        return True
    groups = run.history.group("weight_norm").values()
    norms = (norm.finite().between(begin, end).values for norm in groups)
    return any(
        len(norm) > 1 and norm.max() > limits.weight_norm_ratio * norm.min() for norm in norms
    )


def describe_ramp(run: Run, ramp: CurriculumRamp) -> str:
    """Describe how the loss rose with a setting."""
    return (
        f"from {run.unit} {run.at(ramp.first)} to {run.at(ramp.last)} the loss rose from "
        f"{num(ramp.low)} to {num(ramp.high)} as {ramp.name} went from {ramp.before} to "
        f"{ramp.after}: the two are not comparable"
    )


def comparison_advice(ramp: CurriculumRamp) -> str:
    """Return a clause on what to log so that losses are comparable."""
    if ramp.is_loss_weight:
        return "log the parts of the loss unweighted, too"
    return "an evaluation at a fixed value of it shows whether the run still learns"
