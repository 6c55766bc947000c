"""The verdict: whether a run is outside the band of its references, in what, and since when."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from stabdiag.baseline.comparable import comparable, differing_settings, have_known_task
from stabdiag.baseline.guard import GuardedReferences, guard, shared_roles
from stabdiag.baseline.roles import is_evaluated, series_name, usual_spread, worse_direction
from stabdiag.model.arrays import Floats, Mask
from stabdiag.model.baseline import (
    BaselineComparison,
    BaselineStatus,
    SeriesComparison,
    Unusable,
    UnusedReference,
)
from stabdiag.model.profile import RunProfile
from stabdiag.stats.bands import (
    MAX_SPREAD_FACTOR,
    MIN_COMMON_BINS,
    AverageDeviation,
    Band,
    Deviation,
    bin_start,
    comparable_levels,
    deviation_bar,
    end_bar,
    measure_deviation,
)
from stabdiag.stats.leave_one_out import shared_band
from stabdiag.stats.standards import TWICE

# The first of these that decides gives its name and numbers to the verdict.
_BY_WEIGHT: Final = ("eval_loss", "eval_accuracy", "score", "reward", "loss", "accuracy")

# A learning rate has no spread between seeds: the same bar for any number of references.
_RATE_BAR: Final = 5.0

# An excursion that lasts may touch the band again for this many bins.
_MAX_GAP: Final = 2

# More distance between the references than this has no meaning as a fraction of their level.
_MAX_LOG_RATIO: Final = 50.0


# Losses, and hence their levels, may be infinite or huge.
_quiet = np.errstate(all="ignore")


@_quiet
def judge(
    run: RunProfile, references: Sequence[RunProfile], *, refuse: bool = True
) -> BaselineComparison:
    """Compare a run with references. The run itself is never a reference.

    If ``refuse`` is not set, references with another task are left out even if these are all.

    Raises:
        StabdiagError: if no reference has the same task, dataset, model or number of classes.
    """
    others = [other for other in references if not run.key or other.key != run.key]
    comparable_runs, left_out = comparable(run, others, refuse=refuse)
    finite = [other for other in comparable_runs if other.non_finite is None]
    left_out += [
        UnusedReference(name=other.name, reason="loss NaN or infinite", step=other.non_finite)
        for other in comparable_runs
        if other.non_finite is not None
    ]
    guarded = guard(finite)
    kept = guarded.references
    compared = list(_series(run, guarded))
    usable = [series for series, factor in compared if factor <= MAX_SPREAD_FACTOR]
    series = tuple(sorted(usable, key=_departure))
    deciders = [item for item in series if item.decides]
    if run.loss_kind and any(item.role != "loss" for item in deciders):
        # The loss of a policy or a generator may rise while the run learns.
        deciders = [item for item in deciders if item.role != "loss"]
    result = BaselineComparison(
        status=BaselineStatus.INSIDE,
        references=tuple(other.name for other in kept),
        left_out=(*left_out, *guarded.left_out),
        series=series,
        too_different=tuple(s.name for s, _ in compared if s.decides and s not in usable),
        settings=tuple(differing_settings(run, kept)),
        settings_known=bool(run.settings) and any(other.settings for other in kept),
        task_known=have_known_task(run, kept),
        compared_until=max((item.last_step for item in deciders), default=None),
        last_step=run.last_step,
        references_until=max((other.last_step for other in kept), default=0),
        unit=run.unit,
    )
    if not kept:
        return replace(result, status=BaselineStatus.UNUSABLE, unusable=Unusable.NONE_LEFT)
    if run.non_finite is not None:
        return replace(result, status=BaselineStatus.WORSE, step=run.non_finite, non_finite=True)
    if guarded.odd_one is not None or not deciders:
        unusable = Unusable.SPREAD if guarded.odd_one else _why_unusable(run, kept, compared)
        return replace(
            result,
            status=BaselineStatus.UNUSABLE,
            unusable=unusable,
            odd_one=guarded.odd_one,
        )
    return _verdict(result, deciders)


def _verdict(
    result: BaselineComparison, deciders: Sequence[SeriesComparison]
) -> BaselineComparison:
    """Return the comparison with the verdict of the series that decide."""
    earliest = min(deciders, key=lambda series: series.first_step)
    if earliest.status is BaselineStatus.UNLIKE and _reaches_end(earliest, result):
        return replace(result, status=BaselineStatus.UNLIKE, deciding=earliest, step=earliest.step)
    by_weight = sorted(deciders, key=_weight)
    with_status = {
        status: [series for series in by_weight if series.status is status]
        for status in BaselineStatus
    }
    better = with_status[BaselineStatus.BETTER]
    # A training loss may end higher where the run generalizes better, as with more dropout.
    is_better_evaluated = any(is_evaluated(series.role) for series in better)
    outside_throughout = [s for s in with_status[BaselineStatus.UNLIKE] if _is_worse(s)]
    for series in [*with_status[BaselineStatus.WORSE], *outside_throughout]:
        if _reaches_end(series, result) and (not is_better_evaluated or is_evaluated(series.role)):
            return replace(result, status=BaselineStatus.WORSE, deciding=series, step=series.onset)
    if better:
        status, series, step = BaselineStatus.BETTER, better[0], better[0].onset
        result = replace(result, is_unexplained=_is_unexplained(result, better[0], deciders))
    elif with_status[BaselineStatus.LEFT]:
        status, series = BaselineStatus.LEFT, with_status[BaselineStatus.LEFT][0]
        step = series.step
    else:
        return result
    return replace(result, status=status, deciding=series, step=step)


def _is_unexplained(
    result: BaselineComparison, better: SeriesComparison, deciders: Sequence[SeriesComparison]
) -> bool:
    """Return True if a training loss is far better without a known reason or an evaluation.

    Leaked targets, and batches that repeat, look like this.
    """
    is_far = better.ratio is not None and better.ratio * TWICE <= 1 and not better.higher
    has_reason = bool(result.settings) or result.learning_rate is not None
    return is_far and not has_reason and not any(is_evaluated(item.role) for item in deciders)


def _reaches_end(series: SeriesComparison, result: BaselineComparison) -> bool:
    """Return True if a series was logged for most of the run.

    Some frameworks log only the first steps in detail: their end is not the end of the run.
    """
    return 2 * series.last_step >= (result.compared_until or 0)


def _weight(series: SeriesComparison) -> tuple[bool, int]:
    """Return the place of a series among those that decide, held-out data first."""
    first = series.role.partition("/")[0]
    place = _BY_WEIGHT.index(first) if first in _BY_WEIGHT else len(_BY_WEIGHT)
    return not is_evaluated(series.role), place


def _is_worse(series: SeriesComparison) -> bool:
    direction = worse_direction(series.role)
    return direction is not None and series.higher == (direction > 0)


def _departure(series: SeriesComparison) -> tuple[float, tuple[bool, int]]:
    return (np.inf if series.step is None else series.step, _weight(series))


def _why_unusable(
    run: RunProfile,
    references: Sequence[RunProfile],
    compared: Sequence[tuple[SeriesComparison, float]],
) -> Unusable:
    if any(series.decides for series, _ in compared):
        return Unusable.SPREAD
    logged = {role for reference in references for role in reference.series}
    has_shared = any(role in logged and worse_direction(role) for role in run.series)
    return Unusable.FEW_BINS if has_shared else Unusable.NO_SERIES


def is_worse(comparison: BaselineComparison) -> bool:
    """Return True if the run is worse than its references, or unlike them and on the worse side."""
    deciding = comparison.deciding
    if comparison.status is BaselineStatus.UNLIKE and deciding is not None:
        return _is_worse(deciding)
    return comparison.status is BaselineStatus.WORSE


def _series(
    run: RunProfile, guarded: GuardedReferences
) -> Iterator[tuple[SeriesComparison, float]]:
    """Yield each series that run and references share, with the spread factor of the references."""
    references = guarded.references
    for role in shared_roles(references):
        own = [profile.series.get(role) for profile in (run, *references)]
        levels, *others = comparable_levels(own)
        if levels is None:
            continue
        band = shared_band(others, usual_spread(role), log=levels.is_positive)
        if band is None:
            continue
        deviation = measure_deviation(levels, band)
        if len(deviation.bins) < MIN_COMMON_BINS:
            continue
        count = sum(role in reference.series for reference in references)
        bar = _RATE_BAR if role == "lr" else max(deviation_bar(count), guarded.peaks.get(role, 0.0))
        yield _compared(role, run, deviation, band, bar), band.factor


def _compared(
    role: str, run: RunProfile, deviation: Deviation, band: Band, bar: float
) -> SeriesComparison:
    """Compare a series with the band of the references."""
    column = run.columns.get(role, role)
    outside = deviation.outside(bar)
    direction = worse_direction(role) or 0
    at_end = np.zeros(len(outside), np.bool_)
    average = None
    if direction and deviation.bins[-1] == band.bins[-1]:
        at_end = deviation.outside_at_end(end_bar(bar), direction)
        if not outside[-1] and not at_end[-1]:
            average = _worse_average(deviation, end_bar(bar), direction)
    if average is not None:
        at_end[-average.bins :] = True
    is_low_bar = bool(at_end[-1]) and not outside[-1]
    outside |= at_end
    steps = [max(bin_start(int(number)), run.first_step) for number in deviation.bins]
    status, at = _status(role, deviation, outside)
    onset = steps[_onset(outside)] if outside[-1] else None
    last = int(np.flatnonzero(outside)[-1]) if outside.any() else None
    of = int(np.searchsorted(band.bins, deviation.bins[at]))
    difference = deviation.difference[at] if average is None else average.difference
    difference, center = float(difference), float(band.center[of])
    apart = float(band.high[of] - band.low[of])
    starts = np.array([bin_start(int(number)) for number in band.bins], np.int64)
    reach = bar * np.sqrt(band.variance + band.error)
    # The edge on the worse side is where the run is judged to be outside.
    judged = np.isin(band.bins, deviation.bins[at_end])
    noise = band.error if average is None else 0.0  # it averages out
    worse_reach = np.where(judged, end_bar(bar) * np.sqrt(band.variance + noise), reach)
    return SeriesComparison(
        role=role,
        column=column,
        name=series_name(role, column),
        status=status,
        decides=bool(direction),
        bins=len(steps),
        peak=deviation.peak if average is None else abs(average.value),
        bar=end_bar(bar) if is_low_bar else bar,
        level=_plain(center + difference, band),
        reference=_plain(center, band),
        ratio=float(np.exp(min(difference, _MAX_LOG_RATIO))) if band.log else None,
        closeness=float(np.expm1(min(apart, _MAX_LOG_RATIO))) if band.log else apart,
        averaged=average is not None,
        higher=difference > 0,
        first_step=steps[0],
        last_step=min(bin_start(int(deviation.bins[-1]) + 1) - 1, run.last_step),
        step=steps[int(np.argmax(outside))] if outside.any() else None,
        onset=onset,
        back=steps[last + 1] if last is not None and not outside[-1] else None,
        band_steps=np.append(starts, bin_start(int(band.bins[-1]) + 1) - 1),
        band_low=_edge(band.center - (worse_reach if direction < 0 else reach), band),
        band_high=_edge(band.center + (worse_reach if direction > 0 else reach), band),
    )


def _worse_average(deviation: Deviation, bar: float, direction: int) -> AverageDeviation | None:
    """Return the average over the last octave if it exceeds a bar on the worse side."""
    average = deviation.average_at_end()
    return None if average is None or average.value * direction <= bar else average


def _status(role: str, deviation: Deviation, outside: Mask) -> tuple[BaselineStatus, int]:
    """Return the status of a series, and the position whose numbers describe it."""
    end = len(outside) - 1
    if not outside.any():
        return BaselineStatus.INSIDE, end
    if not outside[-1]:
        at = int(np.argmax(np.where(outside, np.abs(deviation.values), -1.0)))
        return BaselineStatus.LEFT, at
    direction = worse_direction(role)
    if direction is None:
        return BaselineStatus.DIFFERS, end
    if outside.all():
        return BaselineStatus.UNLIKE, end
    is_better = np.sign(deviation.values[-1]) == -direction
    return BaselineStatus.BETTER if is_better else BaselineStatus.WORSE, end


def _onset(outside: Mask) -> int:
    """Return the position where a series leaves the band, ignoring small gaps."""
    at = inside = len(outside) - 1
    gap = 0
    while inside >= 0 and gap <= _MAX_GAP:
        if outside[inside]:
            at, gap = inside, 0
        else:
            gap += 1
        inside -= 1
    return at


def _plain(value: float, band: Band) -> float:
    return float(np.exp(min(value, _MAX_LOG_RATIO))) if band.log else value


def _edge(values: Floats, band: Band) -> Floats:
    """Return an edge of the band in the unit of the series, up to the end of the last bin."""
    values = np.append(values, values[-1])
    return np.exp(np.minimum(values, _MAX_LOG_RATIO)) if band.log else values
