"""Is the loss comparable here? Where what it is measured on changed, at once or by and by.

A loss on longer sequences, on another stage's data or with a part that weighs more has another
level: what it was before tells nothing of what it ought to be after. Nobody can tell such a rise
from a fault by the loss alone. But a loss that is no better than when the run began has lost what
was learned, one that goes on rising learns nothing of what is new, and where the rate or the
weights go up too, the log shows another cause.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from stabdiag.model.arrays import Floats
from stabdiag.model.frozen import frozen
from stabdiag.model.history import Series
from stabdiag.model.roles.settings import difficulty_direction, is_loss_weight
from stabdiag.model.text import num
from stabdiag.stats.coincidence import FEW_CHANGES
from stabdiag.stats.levels import CONTEXT_POINTS, beginning
from stabdiag.stats.quantiles import MIN_TREND_POINTS, RELATIVE_TOLERANCE, median
from stabdiag.stats.shape import Spike
from stabdiag.stats.trend import mann_kendall
from stabdiag.tree.changes import Change, named, near_spike
from stabdiag.tree.rises import is_clear, rise_of
from stabdiag.tree.run import Run

# What is logged as a mean, or with a delay, shows a change so many points late at most.
_FOUND_WITHIN = 2

# A rise goes with a change if at half of the one no less than this share of the other was made, and
# no less is left.
_EVEN = 0.25


@frozen
class Shift:
    """A jump that stayed, to which level, and the changes there of what the loss is measured on."""

    spike: Spike
    level: float
    changes: tuple[Change, ...]


@frozen
class Ramp:
    """A setting that made the loss rise: from what to what, and from which level to which.

    ``first`` and ``last`` are the positions of the losses between which it did; from ``until`` on
    losses are comparable again. ``weighs`` says that it is the weight of a part of the loss.
    """

    name: str
    first: int
    last: int
    until: int
    before: str
    after: str
    low: float
    high: float
    weighs: bool

    def holds(self, spike: Spike) -> bool:
        """Whether a jump that stayed is a part of the rise."""
        return not spike.recovered and self.first <= spike.onset < self.last


def shifts_of(run: Run, spikes: Sequence[Spike]) -> tuple[Shift, ...]:
    """Return the jumps that stayed, or may stay, and began at such a change, by their onset."""
    if not run.causes.moves:
        return ()
    x, n, found = run.loss.values, len(run.loss), []
    until = n
    stayed = (spike for spike in spikes if not spike.recovered)
    for spike in sorted(stayed, key=lambda one: one.onset, reverse=True):
        near = near_spike(run, spike, within=_FOUND_WITHIN)
        changes = tuple(change for change in near if change.measured_on)
        end = max(spike.end, spike.onset + 1)
        # §4 looks at what comes after the jump has come to rest, if it can.
        over = min(until, end if n - end >= run.rise_window else n)
        weighs = any(change.weighs for change in changes)
        if changes and _keeps_and_rests(run, spike, over, weighs=weighs):
            shift = Shift(spike=spike, level=median(x[spike.onset : end]), changes=changes)
            if not _jumps_elsewhere(run, shift):
                found.append(shift)
        until = spike.onset
    return tuple(reversed(found))


def _keeps_and_rests(run: Run, spike: Spike, until: int, *, weighs: bool) -> bool:
    """Tell whether the later losses keep some of what was learned, and rise no more.

    What is new may be as bad as at the beginning at first, and be learned; a part of the loss that
    weighs more may lift it by any height. Of a few losses after a jump nothing is known.
    """
    if until - spike.onset < CONTEXT_POINTS:
        return False
    x = run.loss.values
    later = x[(spike.onset + until) // 2 : until]
    keeps = weighs or median(later) < beginning(x)
    return keeps and mann_kendall(later) >= run.limits.divergence.significance


def _jumps_elsewhere(run: Run, shift: Shift) -> bool:
    """Tell whether the log shows a cause of a jump that is no matter of the data.

    A gradient is noisy, and large at first where data are new; that of a loss so many times larger
    is so many times larger too.
    """
    onset = shift.spike.onset
    first, last = run.at(max(onset - _FOUND_WITHIN, 0)), run.at(onset + _FOUND_WITHIN)
    if run.after_logged_cause[onset] or _rises_elsewhere(run, first, last):
        return True
    norm = run.history.finite("grad_norm")
    begin, end = np.searchsorted(norm.steps, [first, run.at(onset + run.reach.recovery)])
    before, later = (
        norm.values[max(begin - CONTEXT_POINTS, 0) : begin],
        norm.values[begin : end + 1],
    )
    if not (len(before) and len(later)):
        return False
    grew = max(shift.level / shift.spike.base, 1.0) if shift.spike.base > 0 else 1.0
    low, high = sorted((median(before), median(later[len(later) // 2 :])))
    return high > run.limits.spike.grad_ratio * grew * low


def ramp_of(run: Run, spikes: Sequence[Spike], shifts: Sequence[Shift]) -> Ramp | None:
    """Return what the loss is measured on, if it got harder by and by and the loss rose with it.

    Of several the one that went on for longest is taken.
    """
    history = run.history
    settings = (*history.group("setting").values(), history.finite("loss_weight"))
    ramps = (_ramp(run, one.finite(), spikes, shifts) for one in settings)
    return max((one for one in ramps if one is not None), key=lambda one: one.until, default=None)


def _ramp(
    run: Run, setting: Series, spikes: Sequence[Spike], shifts: Sequence[Shift]
) -> Ramp | None:
    course = _course(run, setting)
    if course is None or len(course) <= 2 * MIN_TREND_POINTS:
        return None
    n, near = len(course), RELATIVE_TOLERANCE * np.ptp(course)
    until = int(np.flatnonzero(np.abs(course - course[-1]) > near)[-1]) + 1
    if n - until < run.rise_window:
        until = n
    begin = max((one.spike.end for one in shifts if one.spike.onset < until), default=0)
    rise = rise_of(run, slice(min(begin, until), until), spikes)
    if rise is None or not is_clear(run, rise):
        return None
    first = max(rise.best, int(np.argmax(np.abs(course - course[0]) > near)))
    last = min(until, n - 1)
    weighs = setting.role == "loss_weight" or any(map(is_loss_weight, _names(setting)))
    if not weighs and rise.last_level > beginning(run.loss.values):
        return None  # what gets harder lifts no loss to above where it began; what weighs more may
    if last - first < 2 * MIN_TREND_POINTS or 2 * (course[last] - course[first]) < np.ptp(course):
        return None
    if not _goes_with(run, course, first, last, weighs=weighs):
        return None
    if _rises_elsewhere(run, run.at(first), run.at(last)):
        return None
    return Ramp(
        name=named(setting.column),
        first=first,
        last=last,
        until=until,
        before=num(float(setting.until(run.at(first)).values[-1])),
        after=num(float(setting.until(run.at(last)).values[-1])),
        low=rise.best_level,
        high=rise.last_level,
        weighs=weighs,
    )


def _course(run: Run, setting: Series) -> Floats | None:
    """Return how hard a setting makes each loss, rising; None if it gets no harder, or by a step.

    Between two records of it, what it was at the earlier one holds. A weight may go down again.
    """
    way: int | None = 1
    if setting.role != "loss_weight":
        told = () if setting.words else map(difficulty_direction, _names(setting))
        way = next((one for one in told if one is not None), None)
    if way is None or len(setting) <= FEW_CHANGES:
        return None
    if way == 0:
        way = 1 if setting.values[-1] > setting.values[0] else -1
    hard = way * setting.values
    if (hard[1:] < hard[:-1]).any() and setting.role != "loss_weight":
        return None
    if np.count_nonzero(hard[1:] != hard[:-1]) <= FEW_CHANGES:
        return None
    at = np.searchsorted(setting.steps, run.loss.steps, side="right") - 1
    course: Floats = hard[np.maximum(at, 0)]
    if not len(course) or course[-1] <= course[0]:
        return None
    return course if np.isfinite(np.ptp(course)) else None


def _names(setting: Series) -> tuple[str, str]:
    return setting.column, setting.role.partition("/")[2]


def _goes_with(run: Run, course: Floats, first: int, last: int, *, weighs: bool) -> bool:
    """Tell whether a rise is spread over a change, as the steps go on or as the change does.

    The least that a sum can be is a concave function of the weights in it: with a weight, a rise
    may run ahead.
    """
    x, near = run.loss.values, max((last - first) // MIN_TREND_POINTS, 2)
    low, high = median(x[first : first + near]), median(x[last - near : last + 1])
    for along in (run.loss.steps, course):
        half = (along[first] + along[last]) / 2
        at = first + int(np.searchsorted(along[first:last], half))
        made = (median(x[at - near : at + near]) - low) / (high - low) if high > low else 0.0
        if made >= _EVEN and (weighs or made <= 1 - _EVEN):
            return True
    return False


def _rises_elsewhere(run: Run, begin: int, end: int) -> bool:
    """Tell whether the log shows another cause of a rise: a learning rate, or a weight norm.

    A learning rate counts that goes beyond what it was when the loss still fell.
    """
    lr, limits = run.history.finite("lr"), run.limits.divergence
    before, since = lr.until(begin).values, lr.between(begin + 1, end).values
    if len(before) and len(since) and since.max() > limits.lr_rise * before.max():
        return True
    norms = (one.finite().between(begin, end) for one in run.history.group("weight_norm").values())
    return any(
        len(one) > 1 and one.values.max() > limits.weight_norm_ratio * one.values.min()
        for one in norms
    )


def rose_with(run: Run, ramp: Ramp) -> str:
    """Return that the loss rose, and with what."""
    return (
        f"from {run.unit} {run.at(ramp.first)} to {run.at(ramp.last)} the loss rose from "
        f"{num(ramp.low)} to {num(ramp.high)} as {ramp.name} went from {ramp.before} to "
        f"{ramp.after}: the two are not comparable"
    )


def to_compare(ramp: Ramp) -> str:
    """Return what to log, so that losses are comparable."""
    if ramp.weighs:
        return "log the parts of the loss unweighted, too"
    return "an evaluation at one setting of it tells whether the run still learns"
