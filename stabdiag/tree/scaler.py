"""The behavior of a loss scaler: initial calibration, probes and falls of the scale."""

from __future__ import annotations

import numpy as np

from stabdiag.model.arrays import Floats, Ints, Mask
from stabdiag.model.frozen import frozen
from stabdiag.model.history import Series
from stabdiag.model.roles.names import counts_per_record
from stabdiag.stats.course import change_of_halves
from stabdiag.stats.quantiles import distinct, median, usual_gap
from stabdiag.stats.standards import (
    CLEAR_RATIO,
    HUNDREDFOLD,
    MIN_CONSECUTIVE,
    NEGLIGIBLE,
    QUARTER,
    SUBSAMPLE_SIZE,
    TENTHS,
    TWICE,
)
from stabdiag.tree.case import Case
from stabdiag.tree.scale_falls import KNOWN_FLOORS, PROBE, Fall, floors, last_fall

# Overflows this many steps apart belong to different declines of the scale. The calibration ends
# after twice this many steps without an overflow, or a tenth of a short run.
PAUSE = 25

# An answer lists at most this many overflows.
_LISTED_STEPS = 20

# Scalers start at 2^32 at most, so 32 overflows lower the scale to 1, or 64 with the hysteresis of
# Megatron and DeepSpeed.
_MOST_HALVINGS = 64

# Relative tolerance of powers of two in a scale that is logged with few digits, as 0.002 for 2^-9.
_SCALE_TOLERANCE = NEGLIGIBLE


# Frameworks whose scaler tolerates overflows before it lowers the scale (hysteresis, delayed
# shift), and how many.
_LENIENT_FORMATS = ("megatron", "deepspeed")
_TOLERATED = 2

# A scale is stuck if it does not grow for this many growth intervals without an overflow.
_STUCK_INTERVALS = TWICE

# Minimum number of records to state that no update was made.
_MIN_SKIPPED = MIN_CONSECUTIVE

# Maximum relative fall of a loss without learning.
_MAX_FLAT_FALL = NEGLIGIBLE


@frozen
class Overflows:
    """The overflows in a log.

    ``at`` are the unique steps with a non-finite gradient norm, a skipped update or a fall of the
    loss scale. ``times`` is the number of overflows at each of them. The first ``calibrating``
    overflows belong to the calibration. ``interval`` is the number of steps between probes, and
    ``expected`` the number of overflows that probing explains.
    """

    at: Ints
    times: Ints
    calibrating: int
    interval: float
    interval_from: str
    expected: float

    @property
    def first_steps(self) -> list[int]:
        """The first steps with an overflow, as many as an answer lists."""
        steps: list[int] = self.at[:_LISTED_STEPS].tolist()
        return steps

    @property
    def count(self) -> int:
        """The number of overflows."""
        return int(self.times.sum())

    @property
    def later(self) -> int:
        """The number of overflows after the calibration."""
        return self.count - self.calibrating

    def after(self, step: int) -> int:
        """Return the number of overflows after a step."""
        return int(self.times[self.at > step].sum())

    def first_overflow(self, fall: Fall, stride: float) -> int:
        """Return the first overflow that led to a fall.

        The overflows of a decline have no long pauses, or follow the usual level of the scale.
        """
        causes = self.at[self.at <= fall.since]
        if not len(causes):
            return fall.since
        pauses = np.flatnonzero(np.diff(causes) > max(PAUSE, MIN_CONSECUTIVE * stride))
        first = int(causes[pauses[-1] + 1]) if len(pauses) else int(causes[0])
        lower = causes[causes > fall.usual_until]
        return min(first, int(lower[0])) if len(lower) else first

    def first_unexplained(self, factor: float) -> int:
        """Return the first overflow after the calibration that is not a regular probe."""
        position = _position(self.times, self.calibrating)
        soon = np.flatnonzero(self._soon(factor))
        return int(self.at[position + soon[0] if len(soon) else position])

    def too_soon(self, factor: float) -> int:
        """Count the overflows after the calibration that are followed by another too soon.

        After an overflow the scaler halves the scale and waits for an interval before a probe.
        """
        return int(self._soon(factor).sum())

    def _soon(self, factor: float) -> Ints:
        """Count the overflows followed by another too soon, per step after the calibration."""
        position = _position(self.times, self.calibrating)
        times = self.times[position:].copy()
        times[:1] -= self.calibrating - self.times[:position].sum()
        followed = np.append(np.diff(self.at[position:]) * factor < self.interval, False)
        soon: Ints = times - 1 + followed[: len(times)]
        return soon


def _position(times: Ints, number: int) -> int:
    """Return the position of the step of an overflow, by its number from 0."""
    return int(np.searchsorted(np.cumsum(times), number, side="right"))


def tolerated_overflows(case: Case) -> int:
    """Return the number of overflows that a dynamic scaler tolerates before it lowers its scale.

    Under the literal rules it is 0: a constant scale is static.
    """
    if case.stops_early:
        return 0
    settings = (*case.manifest.also, *case.manifest.unknown, *case.history.config)
    is_lenient = any("hysteresis" in name or "delayed_shift" in name for name in settings)
    return _TOLERATED if is_lenient or case.history.source.format in _LENIENT_FORMATS else 0


@frozen
class StuckScale:
    """A loss scale that fell and did not grow again: its last fall, value and wait."""

    since: int
    value: float
    steps: int


def stuck_scale(scale: Series, overflows: Overflows) -> StuckScale | None:
    """Return a scale that fell and did not grow although its growth interval is over, or None.

    A scale at its highest value may be at the upper bound of the scaler.
    """
    fell, _, grew = _changes(scale)
    moved = max(int(overflows.at[-1]), int(fell[-1]) if len(fell) else 0)
    waited = int(scale.steps[-1]) - moved
    value = float(scale.values[-1])
    is_highest = value >= float(scale.values.max())
    has_grown = len(grew) > 0 and int(grew[-1]) > moved
    if is_highest or has_grown or waited <= _STUCK_INTERVALS * overflows.interval:
        return None
    return StuckScale(since=moved, value=value, steps=waited)


def skipped_throughout(case: Case) -> int | None:
    """Return the number of records if none of them has a usable update, or None.

    Every gradient norm is non-finite, and the loss, if logged, does not fall.
    """
    norm, loss = case.history.get("grad_norm"), case.loss.values
    if norm is None or len(norm) < _MIN_SKIPPED or np.isfinite(norm.values).any():
        return None
    if len(loss) > 1 and change_of_halves(loss, _MAX_FLAT_FALL * abs(median(loss))) < 0:
        return None
    return len(norm)


def find_overflows(case: Case) -> Overflows:
    """Find the overflows in the gradient norm, the skipped steps and the loss scale."""
    norm, scale = case.overall_grad_norm, case.history.get("loss_scale")
    steps = [np.empty(0, np.int64)]
    if norm is not None:
        steps.append(norm.steps[~np.isfinite(norm.values)])
    grew = np.empty(0, np.int64)
    if scale is not None and case.manifest.dtype == "fp16":
        fell, times, grew = _changes(scale)
        # The step of an overflow and the record of the fall may differ by the stride of the scale.
        logged = scale.finite().steps
        since = fell - logged[np.searchsorted(logged, fell) - 1]
        reported = _count_recent(fell, np.concatenate(steps), np.maximum(2 * case.stride, since))
        steps.append(np.repeat(fell, np.maximum(times - reported, 0)))
    from_series = np.sort(np.concatenate(steps))
    skipped, counts = _unreported_skips(case, from_series)
    at, inverse = np.unique(np.concatenate([from_series, skipped]), return_inverse=True)
    times = np.zeros(len(at), np.int64)
    np.add.at(times, inverse, np.append(np.ones(len(from_series), np.int64), counts))
    begin, end = _first_and_last(case)
    early = np.flatnonzero(at <= (int(grew[0]) if len(grew) else end))[:_MOST_HALVINGS]
    search = np.repeat(at[early], np.minimum(times[early], _MOST_HALVINGS))[:_MOST_HALVINGS]
    # A single loss has no stride.
    stride = max(case.stride, 1.0 if scale is None else usual_gap(scale.steps))
    is_later = scale is not None and _is_later_part(begin, scale)
    search = search[:0] if is_later else search
    calibrating = _calibration(search, begin, end, stride, has_scale=scale is not None)
    interval, source = _interval(case, scale)
    after = _position(times, calibrating)
    first = int(at[_position(times, calibrating - 1)]) if calibrating else begin
    last = case.history.last_step or (int(at[after]) if after < len(at) else end)
    # A gradient norm alone shows only the overflows of the logged steps.
    is_sampled = scale is None and not case.history.has("skipped")
    covered = max(case.stride, 1.0) if is_sampled else 1.0
    return Overflows(
        at=at,
        times=times,
        calibrating=calibrating,
        interval=interval,
        interval_from=source,
        expected=max((last - first) / interval / covered, float(len(grew))),
    )


def _is_later_part(begin: int, scale: Series) -> bool:
    """Return True if a log begins after the calibration: no scaler starts below a hundred."""
    return begin > 2 * PAUSE and 0 < scale.finite().values[:1].max(initial=0.0) < HUNDREDFOLD


def _calibration(search: Ints, begin: int, end: int, stride: float, *, has_scale: bool) -> int:
    """Return the number of overflows at the start that belong to the calibration.

    ``search`` has the steps of the first overflows before the scale grew, which ends the
    calibration. The calibration overflows at consecutive steps and pauses only near its end.
    Without a logged scale, overflows that mostly follow a pause do not belong to it.
    """
    patience = max(min(2 * PAUSE, (end - begin) / TENTHS), MIN_CONSECUTIVE * stride)
    gaps = np.diff(search, prepend=begin)
    over = gaps > patience
    count = int(np.argmax(over)) if over.any() else len(search)
    pauses = gaps[:count] > 2 * stride
    if not has_scale and (2 * np.cumsum(pauses) > np.arange(1, count + 1)).any():
        return int(np.argmax(pauses))
    return count


def _first_and_last(case: Case) -> tuple[int, int]:
    """Return the first and last step of the loss, or of all series if it was not logged."""
    logged = [case.loss] if len(case.loss) else [s for s in case.history.series.values() if len(s)]
    return min(int(s.steps[0]) for s in logged), max(int(s.steps[-1]) for s in logged)


def _unreported_skips(case: Case, overflows: Ints) -> tuple[Ints, Ints]:
    """Return the records of skipped steps, and the count at each that no other series reports.

    A record covers the steps since the previous record; the fall of the scale may follow it.
    """
    skipped = case.history.finite("skipped")
    if not len(skipped) or case.manifest.dtype != "fp16":
        return skipped.steps[:0], skipped.steps[:0]
    stride = round(case.stride)
    since = np.append(max(skipped.steps[0] - stride, -1), skipped.steps[:-1])
    count = np.clip(skips(skipped), 0, skipped.steps - since).astype(np.int64)
    reported = np.searchsorted(overflows, skipped.steps + 2 * stride, side="right")
    unreported = np.maximum.accumulate(np.maximum(np.cumsum(count) - reported, 0))
    new = np.diff(unreported, prepend=0)
    return skipped.steps[new > 0], new[new > 0]


def skips(skipped: Series) -> Floats:
    """Return the number of skipped steps per record; some logs count from the start."""
    counts = skipped.values
    if counts_per_record(skipped.column):
        return counts
    if len(counts) > 1 and np.all(np.diff(counts) >= 0):
        return np.diff(counts, prepend=0.0)
    return counts


def _count_recent(steps: Ints, overflows: Ints, margin: Floats) -> Ints:
    """Count for each step the overflows at most its ``margin`` before it."""
    overflows = np.sort(overflows)
    until: Ints = np.searchsorted(overflows, steps, side="right")
    return until - np.searchsorted(overflows, steps - margin, side="left")


def _changes(scale: Series) -> tuple[Ints, Ints, Ints]:
    """Return the steps where the scale fell, the number of halvings, and the steps where it grew.

    A sparse log shows only the last of consecutive halvings.
    """
    finite = scale.finite()
    at = np.flatnonzero(finite.values[1:] != finite.values[:-1]) + 1
    ratio = finite.values[at] / finite.values[at - 1]
    has_fallen = ratio <= 1 - QUARTER
    fell = at[has_fallen]
    # A value below 0 is not a scale, and counts as one halving.
    halvings = np.nan_to_num(np.round(-np.log2(ratio[has_fallen])), nan=1.0)
    limit = np.clip(finite.steps[fell] - finite.steps[fell - 1], 1, _MOST_HALVINGS)
    times = np.clip(halvings, 1, limit).astype(np.int64)
    return finite.steps[fell], times, finite.steps[at[ratio >= CLEAR_RATIO]]


def _interval(case: Case, scale: Series | None) -> tuple[float, str]:
    """Return the steps between two probes, from the manifest, the log or the default."""
    if case.manifest.loss_scale_window:
        return float(case.manifest.loss_scale_window), "from the manifest"
    if scale is not None and case.manifest.dtype == "fp16":
        fell, _, grew = _changes(scale)
        if len(grew) >= 2:
            # From the previous change of the scale to its growth.
            changes = np.union1d(fell, grew)
            position = np.searchsorted(changes, grew)
            waits = (grew - changes[np.maximum(position - 1, 0)])[position > 0]
            return max(median(waits.astype(np.float64)), 1.0), "from the log"
    return float(case.limits.precision.growth_interval), "by default"


def fall_to_floor(case: Case, scale: Series, overflows: Overflows) -> Fall | None:
    """Return the fall to the floor of the scaler if gradients still overflow there, or None.

    Args:
        case: the case, with the floor in its manifest, if known.
        scale: finite, at least one value.
        overflows: the overflows.
    """
    values = scale.values
    floor = next((floor for floor in floors(case) if np.isclose(values.min(), floor)), None)
    if floor is None or values[-1] > PROBE * floor:
        return None
    fall = last_fall(scale, PROBE * floor)
    if fall is None or fall.top <= PROBE**2 * floor:
        return None
    if median(values[scale.steps >= fall.since]) > PROBE * floor:
        return None
    # A scaler without overflows at its floor works.
    has_settled = int(scale.steps[-1]) - fall.since >= max(PAUSE, MIN_CONSECUTIVE * case.stride)
    return None if has_settled and not overflows.after(fall.since) else fall


def is_averaged(scale: Series) -> bool:
    """Return True if a finite loss scale is a mean over steps: scalers keep powers of two."""
    values = scale.values[:: max(len(scale) // SUBSAMPLE_SIZE, 1)]
    # fairseq's floor is not a power of two. (np.isin would import numpy.ma, which is slow.)
    values = values[(values > 0) & ~np.equal.outer(values, KNOWN_FLOORS).any(axis=1)]
    if not len(values):
        return False
    nearest = np.exp2(np.round(np.log2(values)))
    powers: Mask = np.abs(values / nearest - 1) < _SCALE_TOLERANCE
    return float(np.mean(powers)) < 0.5 and distinct(values) > 2
