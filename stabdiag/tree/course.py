"""Does a loss rise with what it is measured on, or beside it?

What such a rise looks like in healthy runs was measured on small ones of two dozen kinds: it is
spread over the whole of the change. Where a run breaks meanwhile, most of the rise is made in a
small part of it, and that part may lie anywhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from stabdiag.model.roles import hardens, is_weight
from stabdiag.stats.levels import beginning
from stabdiag.stats.quantiles import median
from stabdiag.stats.spread import lag_and_lead
from stabdiag.tree.rises import comparable_from, is_clear, rise_of

if TYPE_CHECKING:
    from stabdiag.model.arrays import Floats
    from stabdiag.model.history import Series
    from stabdiag.stats.rise import Rise
    from stabdiag.tree.case import Case

# It has settled where it is this near to its last value, in parts of its range.
_NEAR = 0.01

# What changes once or twice is a step, and its jumps are told of as such.
_FEWEST = 4

# A rise is spread over the change if it is nowhere farther off, in parts of the rise: one that goes
# with the square of it is off by 0.25, one that is all made in the second half by 0.5.
_EVEN = 0.25

# So much of the change goes with the rise, and so much of the rise with the change.
_LEAST_CHANGE = 0.5
_MOST_OF_RISE = 0.75

# So few losses tell of no course.
_SHORT = 20

# An evaluation loss, the median of so many, follows a rise that it makes by this share.
_FEW = 3
_FOLLOWS = 0.5


@dataclass(frozen=True, kw_only=True, eq=False)
class RiseWith:
    """A rise of the loss while something that makes it harder went on.

    ``course`` is how hard it makes each loss, rising. ``first`` and ``last`` are the positions of
    the losses between which both went up; it has settled at ``until``, or the log ends too soon
    after to tell. ``weighs`` says that it is the weight of a part of the loss.
    """

    rise: Rise
    course: Floats
    first: int
    last: int
    until: int
    weighs: bool


def rise_with(case: Case, setting: Series) -> RiseWith | None:
    """Return the rise of the loss while a setting made it harder by and by, if both are clear."""
    course = _course(case, setting)
    if course is None or len(course) <= _SHORT:
        return None
    n, near = len(course), _NEAR * np.ptp(course)
    until = int(np.flatnonzero(np.abs(course - course[-1]) > near)[-1]) + 1
    if n - until < case.rise_window:
        until = n
    begin = comparable_from(case, until)
    started = int(np.argmax(np.abs(course - course[0]) > near))
    if setting.role == "loss_weight":
        # What a weight does after it was constant for long enough is asked of that part alone.
        begin = max(begin, _held(course[:until], case.rise_window))
        started = max(started, begin)
    spikes = [spike for spike in case.scan.spikes if spike.recovered]
    rise = rise_of(case, slice(begin, until), spikes)
    if rise is None or not is_clear(case, rise):
        return None
    first, last = max(rise.best, started), min(until, n - 1)
    if last - first < _SHORT:
        return None
    return RiseWith(
        rise=rise, course=course, first=first, last=last, until=until, weighs=_weighs(setting)
    )


def goes_with(case: Case, one: RiseWith) -> bool:
    """Tell whether a rise is owed to what went on meanwhile: in proportion, and to nothing else.

    What gets harder lifts no loss to above where it began; what weighs more may.
    """
    above = one.rise.last_level > beginning(case.loss.values)
    if (above and not one.weighs) or not _is_spread(case, one):
        return False
    return not _has_another_cause(case, one)


def _course(case: Case, setting: Series) -> Floats | None:
    """Return how hard a setting makes each loss, rising; None if it gets no harder, or by a step.

    Between two records of it, what it was at the earlier one holds. A weight may go down again.
    """
    way = _way(setting)
    if way is None or len(setting) <= _FEWEST:
        return None
    if way == 0:
        way = 1 if setting.values[-1] > setting.values[0] else -1
    hard = way * setting.values
    if (hard[1:] < hard[:-1]).any() and setting.role != "loss_weight":
        return None
    if np.count_nonzero(hard[1:] != hard[:-1]) < _FEWEST:
        return None
    at = np.searchsorted(setting.steps, case.loss.steps, side="right") - 1
    course: Floats = hard[np.maximum(at, 0)]
    if not len(course) or course[-1] <= course[0]:
        return None
    return course if np.isfinite(np.ptp(course)) else None


def _way(setting: Series) -> int | None:
    """Return which way a setting makes the loss harder, as ``hardens`` does."""
    if setting.role == "loss_weight":
        return 1
    if setting.words:
        return None
    told = map(hardens, (setting.column, setting.role.partition("/")[2]))
    return next((way for way in told if way is not None), None)


def _weighs(setting: Series) -> bool:
    """Tell whether a setting is the weight of a part of the loss."""
    names = (setting.column, setting.role.partition("/")[2])
    return setting.role == "loss_weight" or any(map(is_weight, names))


def _held(course: Floats, window: int) -> int:
    """Return where the last stretch of so many equal values ends; 0 where there is none."""
    ends = np.append(np.flatnonzero(np.diff(course)) + 1, len(course))
    long = np.flatnonzero(np.diff(ends, prepend=0) >= window)
    return int(ends[long[-1]]) if len(long) else 0


def _is_spread(case: Case, one: RiseWith) -> bool:
    """Tell whether a rise is spread over a change, as the steps go on or as the change does."""
    x, first, last = case.loss.values, one.first, one.last
    near = max((last - first) // _SHORT, 2)
    made = median(x[last - near : last + 1]) - median(x[max(first - near, 0) : first + near + 1])
    if made < _MOST_OF_RISE * one.rise.amount:
        return False
    y, went = x[first : last + 1], one.course[first : last + 1]
    if went[-1] - went[0] < _LEAST_CHANGE * np.ptp(one.course):
        return False
    courses = [case.loss.steps[first : last + 1].astype(np.float64)]
    if (np.diff(went) >= 0).all():
        courses.append(went)
    # The least that a sum can be is a concave function of the weights in it: it may run ahead.
    both = (lag_and_lead(y, along) for along in courses)
    return any(lag <= _EVEN and (one.weighs or lead <= _EVEN) for lag, lead in both)


def _has_another_cause(case: Case, one: RiseWith) -> bool:
    """Tell whether the log shows a cause of a rise, or that held-back data make it as well.

    A learning rate counts that goes beyond what it was when the loss still fell.
    """
    begin, end, limits = case.at(one.first), case.at(one.last), case.limits.divergence
    lr = case.history.finite("lr")
    before, since = lr.until(begin).values, lr.between(begin + 1, end).values
    if len(before) and len(since) and since.max() > limits.lr_rise * before.max():
        return True
    for norm in case.history.group("weight_norm").values():
        over = norm.finite().between(begin, end).values
        if len(over) > 1 and over.max() > limits.weight_norm_ratio * over.min():
            return True
    held = case.history.finite("eval_loss")
    before, since = held.until(begin).values[-_FEW:], held.between(begin + 1, end).values[-_FEW:]
    if not (len(before) and len(since)):
        return False
    return median(since) - median(before) >= _FOLLOWS * one.rise.amount
