"""How a loss scaler lives: its search for a scale at the start, its probes, and its falls."""

from __future__ import annotations

import math

import numpy as np

from stabdiag.model.arrays import Floats, Ints, Mask
from stabdiag.model.frozen import frozen
from stabdiag.model.history import Series
from stabdiag.model.roles.names import counts_per_record
from stabdiag.stats.quantiles import SUBSAMPLE_SIZE, distinct, median, usual_gap
from stabdiag.tree.case import Case

# Overflows so many steps apart do not belong to one decline of the scale. A scaler has found its
# first scale once it goes twice as long without one, or a tenth of a short run.
PAUSE = 25

# Scalers begin at 2^32 at most: down to 1 it takes 32 overflows, or with the hysteresis of Megatron
# and DeepSpeed twice as many. A scale that falls by more is none.
_MOST_HALVINGS = 64

# Floors of scalers: Megatron and DeepSpeed 1, fairseq 1e-4.
_KNOWN_FLOORS = (1.0, 1e-4)

# A scale is at its floor if it mostly stays within one probe of it, having been two above or more.
_PROBE = 2.0

# A scale that is written with few digits, 0.002 for 2^-9, is this near to a power of two.
_ROUNDED = 0.05


# Frameworks whose scaler lets an overflow pass before it lowers the scale (hysteresis, delayed
# shift), and how many overflows that may be.
_LENIENT_FORMATS = ("megatron", "deepspeed")
_LENIENCE = 2

# A scaler that waits this many growth intervals without an overflow and does not grow is stuck.
_STUCK_INTERVALS = 2.0

# Fewer records are no run in which nothing was updated.
_MIN_SKIPPED = 3

# A loss that falls by less than this fraction has not learned.
_UNCHANGED = 0.05


@frozen
class Fall:
    """The last fall of a loss scale to a bound: from where, how low, and since when.

    ``usual_until`` is the last step at which it stood no lower than a probe below its usual level.
    """

    top: float
    low: float
    since: int
    usual_until: int


@frozen
class Overflows:
    """Overflows as the log shows them.

    ``at`` are the steps, each of them once, with a non-finite gradient norm, those that the scaler
    skipped, and those at which the loss scale fell. ``times`` is how many overflows each stands
    for: a record may tell of many. ``calibrating`` of them belong to the scaler's search for its
    first scale. ``interval`` is the steps from one probe to the next, ``expected`` the overflows
    that such probing explains.
    """

    at: Ints
    times: Ints
    calibrating: int
    interval: float
    interval_from: str
    expected: float

    @property
    def count(self) -> int:
        """How many overflows there are."""
        return int(self.times.sum())

    @property
    def later(self) -> int:
        """Overflows after the calibration."""
        return self.count - self.calibrating

    def after(self, step: int) -> int:
        """Return how many overflows there are after a step."""
        return int(self.times[self.at > step].sum())

    def began(self, fall: Fall, stride: float) -> int:
        """Return the first of the overflows that led to a fall.

        Those of a decline follow without a long pause, or since the scale stood where it used to.
        """
        led = self.at[self.at <= fall.since]
        if not len(led):
            return fall.since
        pauses = np.flatnonzero(np.diff(led) > max(PAUSE, 3 * stride))
        first = int(led[pauses[-1] + 1]) if len(pauses) else int(led[0])
        lower = led[led > fall.usual_until]
        return min(first, int(lower[0])) if len(lower) else first

    def first_unexplained(self, factor: float) -> int:
        """Return the first overflow after the calibration that no regular probe explains."""
        place = _place(self.times, self.calibrating)
        soon = np.flatnonzero(self._soon(factor))
        return int(self.at[place + soon[0] if len(soon) else place])

    def too_soon(self, factor: float) -> int:
        """Count the overflows after the calibration that are followed by another one too soon.

        After an overflow the scale is halved, and a scaler waits for an interval to try again.
        """
        return int(self._soon(factor).sum())

    def _soon(self, factor: float) -> Ints:
        """Count those that are followed too soon by another at each step after the calibration."""
        place = _place(self.times, self.calibrating)
        times = self.times[place:].copy()
        times[:1] -= self.calibrating - self.times[:place].sum()
        followed = np.append(np.diff(self.at[place:]) * factor < self.interval, False)
        soon: Ints = times - 1 + followed[: len(times)]
        return soon


def _place(times: Ints, number: int) -> int:
    """Return at which step the overflow of this number is, counted from 0."""
    return int(np.searchsorted(np.cumsum(times), number, side="right"))


def tolerated_overflows(case: Case) -> int:
    """Return how many overflows a dynamic scaler may let pass before it lowers its scale.

    To the letter of the tree, none: a scale that is constant is static.
    """
    if case.stops_early:
        return 0
    settings = (*case.manifest.also, *case.manifest.unknown, *case.history.config)
    is_lenient = any("hysteresis" in name or "delayed_shift" in name for name in settings)
    return _LENIENCE if is_lenient or case.history.source.format in _LENIENT_FORMATS else 0


@frozen
class Stuck:
    """A loss scale that fell and never grew again: its last fall, its value and its wait."""

    since: int
    value: float
    steps: int


def stuck_scale(scale: Series, found: Overflows) -> Stuck | None:
    """Return how a scale that fell stands still, though its growth interval is long over.

    One that stands at its highest value may be at the scaler's upper bound.
    """
    fell, _, grew = _changes(scale)
    moved = max(int(found.at[-1]), int(fell[-1]) if len(fell) else 0)
    waited = int(scale.steps[-1]) - moved
    value = float(scale.values[-1])
    is_highest = value >= float(scale.values.max())
    has_grown = len(grew) > 0 and int(grew[-1]) > moved
    if is_highest or has_grown or waited <= _STUCK_INTERVALS * found.interval:
        return None
    return Stuck(since=moved, value=value, steps=waited)


def skipped_throughout(case: Case) -> int | None:
    """Return the number of records if every one reports a skipped or unusable update, or None.

    Every gradient norm is non-finite, and the loss, where it was logged, does not fall.
    """
    norm, loss = case.history.get("grad_norm"), case.loss.values
    if norm is None or len(norm) < _MIN_SKIPPED or np.isfinite(norm.values).any():
        return None
    half = len(loss) // 2
    if half and median(loss[-half:]) < median(loss[:half]) * (1 - _UNCHANGED):
        return None
    return len(norm)


def find_overflows(case: Case) -> Overflows:
    """Read the overflows off the gradient norm, the skipped steps and the loss scale."""
    norm, scale = case.history.get("grad_norm"), case.history.get("loss_scale")
    found = [np.empty(0, np.int64)]
    if norm is not None:
        found.append(norm.steps[~np.isfinite(norm.values)])
    grew = np.empty(0, np.int64)
    if scale is not None and case.manifest.dtype == "fp16":
        fell, times, grew = _changes(scale)
        # The step that overflows and the record in which the scale has fallen may differ, as far as
        # the scale was logged apart.
        logged = scale.finite().steps
        since = fell - logged[np.searchsorted(logged, fell) - 1]
        seen = _count_before(fell, np.concatenate(found), np.maximum(2 * case.stride, since))
        found.append(np.repeat(fell, np.maximum(times - seen, 0)))
    seen_otherwise = np.sort(np.concatenate(found))
    told, besides = _skipped_besides(case, seen_otherwise)
    at, place = np.unique(np.concatenate([seen_otherwise, told]), return_inverse=True)
    times = np.zeros(len(at), np.int64)
    np.add.at(times, place, np.append(np.ones(len(seen_otherwise), np.int64), besides))
    begun, ended = _ends(case)
    early = np.flatnonzero(at <= (int(grew[0]) if len(grew) else ended))[:_MOST_HALVINGS]
    search = np.repeat(at[early], np.minimum(times[early], _MOST_HALVINGS))[:_MOST_HALVINGS]
    # One loss alone has no distance to the next.
    stride = max(case.stride, 1.0 if scale is None else usual_gap(scale.steps))
    calibrating = _calibration(search, begun, ended, stride, seen=scale is not None)
    interval, source = _interval(case, scale)
    after = _place(times, calibrating)
    first = int(at[_place(times, calibrating - 1)]) if calibrating else begun
    last = case.history.last_step or (int(at[after]) if after < len(at) else ended)
    return Overflows(
        at=at,
        times=times,
        calibrating=calibrating,
        interval=interval,
        interval_from=source,
        expected=max((last - first) / interval, float(len(grew))),
    )


def _calibration(search: Ints, begun: int, ended: int, stride: float, *, seen: bool) -> int:
    """Return how many overflows, from the first on, belong to the calibration at the start.

    ``search`` has the steps of the first ones before the scale first grew: by then it was found. It
    overflows step after step, and pauses only near its end. Where no scale was logged (not
    ``seen``), those that mostly come after a pause are overflows like any other.
    """
    patience = max(min(2 * PAUSE, (ended - begun) / 10), 3 * stride)
    gaps = np.diff(search, prepend=begun)
    over = gaps > patience
    count = int(np.argmax(over)) if over.any() else len(search)
    pauses = gaps[:count] > 2 * stride
    if not seen and (2 * np.cumsum(pauses) > np.arange(1, count + 1)).any():
        return int(np.argmax(pauses))
    return count


def _ends(case: Case) -> tuple[int, int]:
    """Return the first and the last step of the loss, or of all series where it was not logged."""
    logged = [case.loss] if len(case.loss) else [s for s in case.history.series.values() if len(s)]
    return min(int(s.steps[0]) for s in logged), max(int(s.steps[-1]) for s in logged)


def _skipped_besides(case: Case, known: Ints) -> tuple[Ints, Ints]:
    """Return the records that tell of skipped steps, and how many each that nothing else tells of.

    A record tells of the steps since the one before it; a scale that has fallen may come after it.
    """
    skipped = case.history.finite("skipped")
    if not len(skipped) or case.manifest.dtype != "fp16":
        return skipped.steps[:0], skipped.steps[:0]
    stride = round(case.stride)
    since = np.append(max(skipped.steps[0] - stride, -1), skipped.steps[:-1])
    told = np.clip(skips(skipped), 0, skipped.steps - since).astype(np.int64)
    seen = np.searchsorted(known, skipped.steps + 2 * stride, side="right")
    besides = np.maximum.accumulate(np.maximum(np.cumsum(told) - seen, 0))
    more = np.diff(besides, prepend=0)
    return skipped.steps[more > 0], more[more > 0]


def skips(skipped: Series) -> Floats:
    """Return how many steps each record says were skipped; some logs count from the start."""
    counts = skipped.values
    if counts_per_record(skipped.column):
        return counts
    if len(counts) > 1 and np.all(np.diff(counts) >= 0):
        return np.diff(counts, prepend=0.0)
    return counts


def _count_before(steps: Ints, known: Ints, margin: Floats) -> Ints:
    """Count for each step the known ones that are at most its ``margin`` before it."""
    known = np.sort(known)
    until: Ints = np.searchsorted(known, steps, side="right")
    return until - np.searchsorted(known, steps - margin, side="left")


def _changes(scale: Series) -> tuple[Ints, Ints, Ints]:
    """Return the steps at which the scale was seen to have fallen, how often, and to have grown.

    It is halved at one step after another, of which a sparse log shows the last alone.
    """
    finite = scale.finite()
    at = np.flatnonzero(finite.values[1:] != finite.values[:-1]) + 1
    ratio = finite.values[at] / finite.values[at - 1]
    fell = at[ratio <= 0.75]
    # What fell below 0 is no scale, and counts as one halving.
    halvings = np.nan_to_num(np.round(-np.log2(ratio[ratio <= 0.75])), nan=1.0)
    most = np.clip(finite.steps[fell] - finite.steps[fell - 1], 1, _MOST_HALVINGS)
    times = np.clip(halvings, 1, most).astype(np.int64)
    return finite.steps[fell], times, finite.steps[at[ratio >= 1.5]]


def _interval(case: Case, scale: Series | None) -> tuple[float, str]:
    """Return the steps between two probes: the manifest's, the log's own, or the default."""
    if case.manifest.loss_scale_window:
        return float(case.manifest.loss_scale_window), "from the manifest"
    if scale is not None and case.manifest.dtype == "fp16":
        fell, _, grew = _changes(scale)
        if len(grew) >= 2:
            # From the last change of the scale to the doubling.
            moved = np.union1d(fell, grew)
            place = np.searchsorted(moved, grew)
            waits = (grew - moved[np.maximum(place - 1, 0)])[place > 0]
            return max(median(waits.astype(np.float64)), 1.0), "from the log"
    return float(case.limits.precision.growth_interval), "by default"


def last_fall(scale: Series, below: float) -> Fall | None:
    """Return the last fall of a scale below a bound, or None; one that began there did not fall.

    Args:
        scale: finite.
        below: the bound, positive.
    """
    values, steps = scale.values, scale.steps
    low = np.flatnonzero((values < below) & (values < np.maximum.accumulate(values)))
    if not len(low):
        return None
    last = int(low[-1])
    top = float(values[:last].max())
    middle = min(math.sqrt(max(top, 0.0)) * math.sqrt(max(below, 0.0)), top)
    begin = int(np.flatnonzero(values[:last] >= middle)[-1]) + 1
    since = begin + int(np.argmax(values[begin : last + 1] < below))
    level = median(values[:begin])
    usual = np.flatnonzero(values[:begin] >= min(level, level / _PROBE))
    return Fall(
        top=top,
        low=float(values[since : last + 1].min()),
        since=int(steps[since]),
        usual_until=int(steps[usual[-1]]),
    )


def fall_to_floor(case: Case, scale: Series, found: Overflows) -> Fall | None:
    """Return the fall to the scaler's floor, if gradients still overflow there, or None.

    Args:
        case: the case, with the floor in its manifest, if that tells.
        scale: finite, at least one value.
        found: the overflows.
    """
    values, told = scale.values, case.manifest.loss_scale_min
    floors = _KNOWN_FLOORS if told is None else (told,)
    floor = next((one for one in floors if np.isclose(values.min(), one)), None)
    if floor is None or values[-1] > _PROBE * floor:
        return None
    fall = last_fall(scale, _PROBE * floor)
    if fall is None or fall.top <= _PROBE**2 * floor:
        return None
    if median(values[scale.steps >= fall.since]) > _PROBE * floor:
        return None
    # A scaler that rests at its floor is working.
    rests = int(scale.steps[-1]) - fall.since >= max(PAUSE, 3 * case.stride)
    return None if rests and not found.after(fall.since) else fall


def is_averaged(scale: Series) -> bool:
    """Tell whether a finite loss scale is a mean over steps: scalers keep powers of two."""
    values = scale.values[:: max(len(scale) // SUBSAMPLE_SIZE, 1)]
    # fairseq's floor is no power of two. (np.isin imports numpy.ma, 3% of the time of a small log.)
    values = values[(values > 0) & ~np.equal.outer(values, _KNOWN_FLOORS).any(axis=1)]
    if not len(values):
        return False
    nearest = np.exp2(np.round(np.log2(values)))
    powers: Mask = np.abs(values / nearest - 1) < _ROUNDED
    return float(np.mean(powers)) < 0.5 and distinct(values) > 2
