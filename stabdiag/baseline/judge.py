"""The verdict: whether a run lies outside the band of its references, in what, and since when."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from stabdiag.baseline.comparable import comparable, differing_settings
from stabdiag.baseline.profile import RunProfile
from stabdiag.baseline.roles import is_evaluated, prior_of, spoken, worse_direction
from stabdiag.model.arrays import Floats, Mask
from stabdiag.model.baseline import (
    BaselineComparison,
    BaselineStatus,
    LeftOut,
    SeriesComparison,
    Unusable,
)
from stabdiag.model.frozen import frozen
from stabdiag.stats.bands import (
    MAX_SPREAD_FACTOR,
    MIN_COMMON_BINS,
    Band,
    Deviation,
    band_of,
    bar_for,
    bin_start,
    deviation_of,
)

# The first of these that decides gives its name and numbers to the verdict.
_BY_WEIGHT: Final = ("eval_loss", "eval_accuracy", "score", "reward", "loss", "accuracy")

# Fewer references than this cannot outvote one of them.
_MIN_TO_LEAVE_OUT: Final = 4

# A reference is left out if it exceeds the bar this many times; at most one in four is.
_LEAVE_OUT_FACTOR: Final = 2.0
_LEAVE_OUT_SHARE: Final = 4

# From this many references on, a single one does not move the band.
_MANY: Final = 20

# A learning rate has no spread between seeds: the same bar for any number of references.
_RATE_BAR: Final = 5.0

# An excursion that lasts may touch the band again for this many bins.
_MAX_GAP: Final = 2

# More distance between the references than this has no meaning as a fraction of their level.
_MAX_LOG: Final = 50.0


# Losses may be infinite or huge; so are their levels then.
_quiet = np.errstate(all="ignore")


@frozen
class _Guarded:
    """References that were tested against each other, and the worst peak of the rest by role."""

    references: list[RunProfile]
    left_out: list[LeftOut]
    peaks: Mapping[str, float]
    odd_one: LeftOut | None = None


@frozen
class _Peak:
    """How far a reference leaves the others, from which step, and whether it stays away."""

    size: float = 0.0
    step: int = 0
    lasts: bool = False


@_quiet
def judge(
    run: RunProfile, references: Sequence[RunProfile], *, refuse: bool = True
) -> BaselineComparison:
    """Compare a run with references. The run itself is never one of them.

    Unless ``refuse`` is set, references that are all runs of something else are left out.

    Raises:
        StabdiagError: if no reference is a run of the same task, dataset, model or classes.
    """
    others = [reference for reference in references if not run.key or reference.key != run.key]
    kept, left_out = comparable(run, others, refuse=refuse)
    kept, failed = _without_non_finite(kept)
    guarded = _guard(kept)
    kept, left_out = guarded.references, [*left_out, *failed, *guarded.left_out]
    compared = list(_series(run, kept, guarded.peaks))
    usable = [(one, factor) for one, factor in compared if factor <= MAX_SPREAD_FACTOR]
    series = tuple(sorted((one for one, _ in usable), key=_departure))
    deciders = [one for one in series if one.decides]
    if run.loss_kind and any(one.role != "loss" for one in deciders):
        # The loss of a policy or a generator may rise while the run learns.
        deciders = [one for one in deciders if one.role != "loss"]
    result = BaselineComparison(
        status=BaselineStatus.INSIDE,
        references=tuple(reference.name for reference in kept),
        left_out=tuple(left_out),
        series=series,
        settings=tuple(differing_settings(run, kept)),
        settings_known=bool(run.settings) and any(one.settings for one in kept),
        compared_until=max((one.last_step for one in deciders), default=None),
        last_step=run.last_step,
        references_until=max((reference.last_step for reference in kept), default=0),
        unit=run.unit,
    )
    if not kept:
        return replace(result, status=BaselineStatus.UNUSABLE, unusable=Unusable.NONE_LEFT)
    if run.non_finite is not None:
        return replace(result, status=BaselineStatus.WORSE, step=run.non_finite, non_finite=True)
    if guarded.odd_one is not None:
        return replace(
            result,
            status=BaselineStatus.UNUSABLE,
            unusable=Unusable.SPREAD,
            odd_one=guarded.odd_one,
        )
    if not deciders:
        return replace(
            result, status=BaselineStatus.UNUSABLE, unusable=_why_unusable(run, kept, compared)
        )
    return _verdict(result, deciders)


def _verdict(
    result: BaselineComparison, deciders: Sequence[SeriesComparison]
) -> BaselineComparison:
    """Return the comparison with the verdict of the series that decide."""
    weighed = sorted(deciders, key=_weight)
    by_status = {
        status: [one for one in weighed if one.status is status] for status in BaselineStatus
    }
    earliest = min(deciders, key=lambda one: one.first_step)
    if earliest.status is BaselineStatus.UNLIKE and _reaches_end(earliest, result):
        return replace(result, status=BaselineStatus.UNLIKE, deciding=earliest, step=earliest.step)
    better = by_status[BaselineStatus.BETTER]
    # A training loss may end higher where the run generalizes better, as with more dropout.
    is_better_evaluated = any(is_evaluated(one.role) for one in better)
    for one in [*by_status[BaselineStatus.WORSE], *by_status[BaselineStatus.UNLIKE]]:
        if not _reaches_end(one, result) or (is_better_evaluated and not is_evaluated(one.role)):
            continue
        if one.status is BaselineStatus.UNLIKE and not _is_worse(one):
            continue
        return replace(result, status=BaselineStatus.WORSE, deciding=one, step=one.onset)
    for status in (BaselineStatus.BETTER, BaselineStatus.LEFT):
        if by_status[status]:
            one = by_status[status][0]
            step = one.onset if status is BaselineStatus.BETTER else one.step
            return replace(result, status=status, deciding=one, step=step)
    return result


def _reaches_end(series: SeriesComparison, result: BaselineComparison) -> bool:
    """Return True if a series was logged for most of the run.

    Some frameworks log only the first steps in detail: their end is not that of the run.
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
    if any(one.decides for one, _ in compared):
        return Unusable.SPREAD
    logged = {role for reference in references for role in reference.series}
    shared = [role for role in run.series if role in logged and worse_direction(role)]
    return Unusable.FEW_BINS if shared else Unusable.NO_SERIES


def _without_non_finite(
    references: Sequence[RunProfile],
) -> tuple[list[RunProfile], list[LeftOut]]:
    """Return the references whose loss is finite, and the others."""
    kept = [reference for reference in references if reference.non_finite is None]
    left_out = [
        LeftOut(
            name=reference.name, reason="whose loss is NaN or infinite", step=reference.non_finite
        )
        for reference in references
        if reference.non_finite is not None
    ]
    return kept, left_out


def _guard(references: Sequence[RunProfile]) -> _Guarded:
    """Test each reference against the others.

    Of four or more, at most a quarter are left out, the worst first. Three of which one clearly
    leaves the others are no baseline: two against one may be the bad ones.
    """
    kept = list(references)
    left_out: list[LeftOut] = []
    allowed = len(kept) // _LEAVE_OUT_SHARE if len(kept) >= _MIN_TO_LEAVE_OUT else 0
    peaks: list[dict[str, _Peak]] = []
    while len(kept) >= _MIN_TO_LEAVE_OUT - 1:
        bar = bar_for(len(kept) - 1)
        peaks = _peaks(kept)
        worst = [max(own.values(), key=lambda peak: peak.size, default=_Peak()) for own in peaks]
        at = max(range(len(kept)), key=lambda position: worst[position].size)
        if worst[at].size <= _LEAVE_OUT_FACTOR * bar:
            break
        reason = "which differs from the others"
        odd = LeftOut(name=kept[at].name, reason=reason, step=worst[at].step)
        if len(kept) < _MIN_TO_LEAVE_OUT and not left_out and worst[at].lasts:
            return _Guarded(references=kept, left_out=left_out, peaks={}, odd_one=odd)
        if len(left_out) >= allowed:
            break
        left_out.append(odd)
        del kept[at]
    roles = {role for own in peaks for role in own} if len(kept) >= _MIN_TO_LEAVE_OUT else set()
    rest = {role: max(own[role].size for own in peaks if role in own) for role in roles}
    return _Guarded(references=kept, left_out=left_out, peaks=rest)


def _peaks(references: Sequence[RunProfile]) -> list[dict[str, _Peak]]:
    """Return how far each reference leaves the others in the series that decide, and where."""
    out: list[dict[str, _Peak]] = [{} for _ in references]
    for role in _shared_roles(references):
        if worse_direction(role) is None:
            continue
        of_all = _band(role, references) if len(references) > _MANY else None
        for at, reference in enumerate(references):
            own = reference.series.get(role)
            others = [one for one in references if one is not reference]
            band = of_all or _band(role, others)
            if own is None or band is None:
                continue
            deviation = deviation_of(own, band)
            if len(deviation.bins) < MIN_COMMON_BINS:
                continue
            outside = deviation.outside(bar_for(len(others)))
            step = bin_start(int(deviation.bins[int(np.argmax(outside))]))
            out[at][role] = _Peak(size=deviation.peak, step=step, lasts=bool(outside[-1]))
    return out


def _shared_roles(profiles: Sequence[RunProfile]) -> list[str]:
    """Return the roles that at least half of some profiles have."""
    every = dict.fromkeys(role for profile in profiles for role in profile.series)
    least = (len(profiles) + 1) // 2
    return [role for role in every if sum(role in one.series for one in profiles) >= least]


def _band(role: str, references: Sequence[RunProfile], *, log: bool = True) -> Band | None:
    """Return the band of a role, or None if fewer than half of the references have it."""
    levels = [one.series[role] for one in references if role in one.series]
    if len(levels) * 2 < len(references):
        return None
    return band_of(levels, prior_of(role), log=log)


def _series(
    run: RunProfile, references: Sequence[RunProfile], peaks: Mapping[str, float]
) -> Iterator[tuple[SeriesComparison, float]]:
    """Yield each series that run and references share, with the spread factor of the references."""
    for role in _shared_roles(references):
        own = run.series.get(role)
        band = None if own is None else _band(role, references, log=own.is_positive)
        if own is None or band is None:
            continue
        deviation = deviation_of(own, band)
        if len(deviation.bins) < MIN_COMMON_BINS:
            continue
        number = sum(role in reference.series for reference in references)
        bar = _RATE_BAR if role == "lr" else max(bar_for(number), peaks.get(role, 0.0))
        yield _compared(role, run, deviation, band, bar), band.factor


def _compared(
    role: str, run: RunProfile, deviation: Deviation, band: Band, bar: float
) -> SeriesComparison:
    """Return how a series compares with the band of the references."""
    outside = deviation.outside(bar)
    steps = [max(bin_start(int(number)), run.first_step) for number in deviation.bins]
    status, at = _status(role, deviation, outside)
    onset = steps[_onset(outside)] if outside[-1] else None
    last = int(np.flatnonzero(outside)[-1]) if outside.any() else None
    of = int(np.searchsorted(band.bins, deviation.bins[at]))
    difference, center = float(deviation.difference[at]), float(band.center[of])
    apart = float(band.high[of] - band.low[of])
    starts = np.array([bin_start(int(number)) for number in band.bins], np.int64)
    reach = bar * np.sqrt(band.variance + band.error)
    return SeriesComparison(
        role=role,
        column=run.columns.get(role, role),
        name=spoken(role, run.columns.get(role, role)),
        status=status,
        decides=worse_direction(role) is not None,
        bins=len(steps),
        peak=deviation.peak,
        bar=bar,
        level=_plain(center + difference, band),
        reference=_plain(center, band),
        ratio=float(np.exp(min(difference, _MAX_LOG))) if band.log else None,
        closeness=float(np.expm1(min(apart, _MAX_LOG))) if band.log else apart,
        higher=difference > 0,
        first_step=steps[0],
        last_step=min(bin_start(int(deviation.bins[-1]) + 1) - 1, run.last_step),
        step=steps[int(np.argmax(outside))] if outside.any() else None,
        onset=onset,
        back=steps[last + 1] if last is not None and not outside[-1] else None,
        band_steps=np.append(starts, bin_start(int(band.bins[-1]) + 1) - 1),
        band_low=_edge(band.center - reach, band),
        band_high=_edge(band.center + reach, band),
    )


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
    is_worse = np.sign(deviation.values[-1]) == direction
    return BaselineStatus.WORSE if is_worse else BaselineStatus.BETTER, end


def _onset(outside: Mask) -> int:
    """Return the position from which on a series lies outside, small gaps aside."""
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
    return float(np.exp(min(value, _MAX_LOG))) if band.log else value


def _edge(values: Floats, band: Band) -> Floats:
    """Return an edge of the band in the unit of the series, up to the end of the last bin."""
    values = np.append(values, values[-1])
    return np.exp(np.minimum(values, _MAX_LOG)) if band.log else values
