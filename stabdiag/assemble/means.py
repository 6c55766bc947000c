"""Losses that are means of earlier losses: since their epoch began, or weighted exponentially."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from stabdiag.assemble.losses import Losses
from stabdiag.assemble.records import MIN_RECORDS, MIN_SERIES_LENGTH, USUAL_FRACTION
from stabdiag.assemble.steps import Steps, are_epochs
from stabdiag.model.arrays import Floats, Ints, Mask
from stabdiag.model.events import Event, EventKind
from stabdiag.model.unique import unique_values
from stabdiag.readers.columns import Bar

# An epoch is divided into at most this many intervals. Their means are exact to this fraction of
# the loss, although the means on the bar are rounded.
_INTERVALS: Final = 50
_MAX_ROUNDING: Final = 0.01
_PLACES: Final = 9

# Losses settle like a mean if a quarter of their moves changes direction, over steps that grow by
# this factor, and the moves shrink in proportion within this error of the exponent.
_TURNED: Final = 0.25
_SPAN: Final = 8
_SLOPE_ERROR: Final = 0.3
_RATIOS: Final = 80

# An average that starts at zero remembers at least this many values, so that it starts below a
# quarter of its level. The single values that it implies stay within this factor of their median.
_MIN_MEMORY: Final = 4

# The log has this many times as many points. While the average starts, at least this fraction of
# its changes are rises and, corrected by its decay, it varies by a factor of two at most.
_MEMORIES: Final = MIN_RECORDS
_MIN_RISING: Final = 0.9

# The decay and the level depend on each other, and converge within this many iterations.
_MAX_ITERATIONS: Final = 30


def without_running_means(
    losses: Losses, clock: Steps, steps: Ints, run: Mask, bar: Bar | None
) -> Losses:
    """Return the losses without the memory of the running means of a progress bar.

    Over many epochs, only the last loss of each epoch is kept. On a bar of Keras, or on another bar
    whose losses settle like means, the losses of few epochs become the means between its states.
    A short excerpt keeps the printed losses.
    ``steps`` are the steps of the clock, continued across epochs.
    """
    rows = np.flatnonzero(losses.records & run)
    counts, values = clock.steps[rows], losses.values[rows]
    ends = ends_of_means(counts, values) if (steps[rows] != counts).any() else None
    if ends is not None:
        message = "each loss is a running mean of its epoch: only the last of each epoch is used"
    elif len(rows) < MIN_SERIES_LENGTH:
        return losses  # the reader of a few lines looks for the values that are printed there
    elif not clock.of_epochs and _shows_means(bar, counts, values):
        ends, values = interval_means(counts, values)
        message = "each loss is a running mean of its epoch: the means of intervals are used"
    else:
        return losses
    records, changed = losses.records.copy(), losses.values.copy()
    records[rows], changed[rows] = ends, values
    event = Event(kind=EventKind.COLUMN, message=message)
    return replace(losses, records=records, values=changed, events=[*losses.events, event])


def with_corrected_start(losses: Losses, steps: Ints, run: Mask) -> Losses:
    """Return the losses without the low start of an exponential moving average.

    Many programs begin the average at zero, so that it rises to the level of the losses first.
    """
    rows = np.flatnonzero(losses.records & run)
    values, counts = losses.values[rows], steps[rows]
    # A resume may begin the average again.
    is_end = ~np.isfinite(values)
    is_end[1:] |= np.diff(counts) <= 0
    size = int(is_end.argmax()) if is_end.any() else len(rows)
    corrected = corrected_average(values[:size])
    if corrected is None:
        return losses
    changed = losses.values.copy()
    changed[rows[:size]] = corrected
    message = "the loss is a moving average that started at 0: its first values are corrected"
    event = Event(kind=EventKind.COLUMN, message=message)
    return replace(losses, values=changed, events=[*losses.events, event])


def _shows_means(bar: Bar | None, counts: Ints, losses: Floats) -> bool:
    if bar is Bar.KERAS:
        return bool((np.diff(counts) > 0).any())
    return bar is Bar.OTHER and settles_like_a_mean(counts, losses)


def settles_like_a_mean(counts: Ints, losses: Floats) -> bool:
    """Return True if losses wander around a level like the mean of the first epoch so far.

    At step c of an epoch the mean moves by about σ/c in either direction, so its moves become
    smaller in proportion. The noise of a single step stays the same. A mean of positive losses also
    never falls faster than losses of zero would make it fall.

    Args:
        counts: the steps as logged, shape (records,), which restart with each epoch.
        losses: shape (records,).
    """
    turns = np.flatnonzero((np.diff(counts) <= 0) | ~np.isfinite(losses[1:]))
    size = int(turns[0]) + 1 if len(turns) else len(counts)
    done, means = counts[:size] + max(1.0 - counts.min(initial=1), 0.0), losses[:size]
    if size < MIN_SERIES_LENGTH or done[-1] < _SPAN * done[0] or means.min() <= 0:
        return False
    # Moves over equal ratios of steps stay larger than the rounding.
    rows = unique_values(np.searchsorted(done, np.geomspace(done[0], done[-1], _RATIOS)))
    done, means = done[rows], means[rows]
    moves = np.diff(means)
    is_moved = moves != 0
    if is_moved.sum() < MIN_SERIES_LENGTH:
        return False
    unit = np.abs(moves[is_moved]).min()
    is_too_low = np.diff(done * means) < -done[1:] * unit
    turned = np.mean(np.diff(np.sign(moves[is_moved])) != 0)
    if turned < _TURNED or is_too_low.any():
        return False
    spread = np.sqrt(-np.diff(1 / done))
    slope = np.polyfit(np.log(spread[is_moved]), np.log(np.abs(moves[is_moved])), 1)[0]
    # The mean of a window of steps keeps moving as it did when the window was full.
    sizes = [np.mean(part) for part in np.array_split(np.abs(moves) / spread, 4)]
    return bool(abs(slope - 1) < _SLOPE_ERROR and sizes[-1] < 2 * np.mean(sizes[:-1]))


def interval_means(counts: Ints, means: Floats) -> tuple[Mask, Floats]:
    """Return a mask of the records that end an interval, and the losses as means of intervals.

    An epoch has at most 50 intervals of equal length. Non-finite means are kept as they are.

    Args:
        counts: the steps as logged, shape (records,), which restart with each epoch.
        means: the mean loss since the epoch began, shape (records,).
    """
    kept, values = ~np.isfinite(means), means.copy()
    done = counts + max(1 - int(counts.min(initial=1)), 0)
    intervals = _interval_count(means[~kept])
    for rows in np.split(np.arange(len(done)), 1 + np.flatnonzero(np.diff(done) < 0)):
        finite = rows[np.isfinite(means[rows])]
        # The line at the end of an epoch repeats the last state of its bar.
        finite = finite[np.append(np.diff(done[finite]) > 0, True)] if len(finite) else finite
        if not len(finite):
            continue
        bounds = np.linspace(0, done[finite[-1]], intervals + 1)[1:]
        ends = finite[unique_values(np.searchsorted(done[finite], bounds))]
        kept[ends] = True
        lengths = np.diff(done[ends], prepend=0)
        values[ends] = np.diff(done[ends] * means[ends], prepend=0.0) / lengths
    return kept, values


def _interval_count(means: Floats) -> int:
    """Return the largest number of intervals that keeps the rounding of the means negligible."""
    places = next((n for n in range(_PLACES) if (means == np.round(means, n)).all()), _PLACES)
    level = float(np.median(np.abs(means))) if len(means) else 0.0
    return int(np.clip(_MAX_ROUNDING * level * 10.0**places, MIN_RECORDS, _INTERVALS))


def ends_of_means(counts: Ints, losses: Floats) -> Mask | None:
    """Return a mask of the losses to keep if each is a mean since its epoch began, or None.

    The last loss of each epoch is kept. From step b of an epoch to step c a mean moves by about
    σ√(1/b - 1/c), while the loss of a single step varies by the same amount everywhere. The more
    likely of both models is chosen, assuming a Laplace distribution. The first epoch is not used
    because any loss falls fastest there.

    A counter that restarts once or twice, or after unequal counts, shows resumes instead of epochs:
    after a bad restart the loss falls like a mean. A mean of losses above zero falls only as fast
    as losses of zero would make it fall.

    Args:
        counts: the steps as logged, shape (records,), which restart with each epoch.
        losses: shape (records,); non-finite losses are always kept.
    """
    finite = np.isfinite(losses)
    done = counts[finite] + max(1.0 - counts.min(initial=1), 0.0)
    turned = np.diff(done) <= 0
    if not are_epochs(done[:-1][turned]):
        return None
    inside = ~turned & (np.cumsum(turned) > 0)
    moves = np.abs(np.diff(losses[finite]))[inside]
    if len(moves) < MIN_SERIES_LENGTH or not moves.any():
        return None
    sums = done * losses[finite]
    rounding = done[1:] * moves[moves > 0].min()
    is_too_low = np.diff(sums)[inside] < -rounding[inside]
    if losses[finite].min() >= 0 and np.mean(is_too_low) > 1 - USUAL_FRACTION:
        return None
    spread = np.sqrt(-np.diff(1 / done)[inside])
    as_means = np.log(np.mean(moves / spread)) + np.mean(np.log(spread))
    # A few nats in total are sufficient evidence.
    if len(moves) * (np.log(np.mean(moves)) - as_means) < MIN_RECORDS:
        return None
    # The last epoch may be incomplete, and then its last loss is a mean of too few steps.
    ends = np.append(turned, done[-1] >= done[:-1][turned][-1])
    kept = ~finite
    kept[np.flatnonzero(finite)[ends]] = True
    return kept


def corrected_average(x: Floats) -> Floats | None:
    """Return an exponential moving average that started at zero, corrected, or None.

    Args:
        x: shape (n,), finite, in its own unit.

    Returns:
        Shape (n,), x[t] / (1 - b ** (t + 1)) for the decay b, as Adam corrects its moments (Kingma
        & Ba 2015, arXiv:1412.6980, section 3). None if the series is not of this kind.

    The decay gives the first value, 1 - b of the level, and also the number of points until the
    average reaches its level. A loss that rises for another reason does not satisfy both.
    """
    decay = _zero_start_decay(x)
    if decay is None:
        return None
    corrected: Floats = x / (1 - decay ** np.arange(1, len(x) + 1))
    start = corrected[: round(_MEMORIES / (1 - decay))]
    memory = round(1 / (1 - decay))
    level = float(np.median(start))
    if start.max() > 2 * start.min() or _MIN_MEMORY * x[0] > level:
        return None
    if np.mean(np.diff(x[:memory]) > 0) < _MIN_RISING:
        return None
    # Later losses do not vary independently either.
    if not _is_smooth(x[len(x) // 2 :]):
        return None
    values = np.diff(x[: memory + 1], prepend=0.0) / (1 - decay)
    values[1:] += x[:memory]
    is_usual = (_MIN_MEMORY * values > level) & (values < _MIN_MEMORY * level)
    return corrected if is_usual.all() else None


def _zero_start_decay(x: Floats) -> float | None:
    """Return the decay of a series if it is an average that started at zero, or None.

    The level is the median of the corrected series, which depends on the decay.
    """
    if len(x) < _MEMORIES * _MIN_MEMORY or x[0] <= 0:
        return None
    at, level, decay = _MIN_MEMORY, float(x[: len(x) // 2].max()), 0.0
    if _MIN_MEMORY * x[0] >= level:
        return None
    for _ in range(_MAX_ITERATIONS):
        if not 0 < x[at] < level:
            return None
        decay = float((1 - x[at] / level) ** (1 / (at + 1)))
        memory = 1 / (1 - decay) if decay < 1 else np.inf
        if memory < _MIN_MEMORY or _MEMORIES * memory > len(x):
            return None
        stop = round(_MEMORIES * memory)
        start = x[:stop] / (1 - decay ** np.arange(1, stop + 1))
        # The mean of as many values as the average remembers has less noise than the first, and
        # hardly contains the losses of the first steps, which may be much higher.
        at = round(memory)
        earlier, later = np.array_split(start[at:], 2)
        level, last_level = float(np.median(earlier)), float(np.median(later))
        level += max(level - last_level, 0.0) / 2  # a falling loss was higher before
    return decay


def _is_smooth(x: Floats) -> bool:
    """Return True if changes over several points vary more than twice as much as over one."""
    short, long = np.diff(x), x[_MIN_MEMORY:] - x[:-_MIN_MEMORY]
    return bool(np.abs(long).mean() > np.sqrt(2) * np.abs(short).mean())
