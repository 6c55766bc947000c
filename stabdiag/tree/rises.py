"""Rises of the loss: size, start and significance."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from stabdiag.model.arrays import Floats
from stabdiag.stats.abrupt import MIN_LEVEL_RATIO, multiplies
from stabdiag.stats.levels import last_digit
from stabdiag.stats.quantiles import median, medians
from stabdiag.stats.rise import DRAWUP_FACTOR, Rise, net_rise
from stabdiag.stats.shape import Spike
from stabdiag.stats.standards import (
    CLEAR,
    FAR_RATIO,
    MAJORITY,
    MIN_TREND_POINTS,
    NEGLIGIBLE,
    RELATIVE_TOLERANCE,
    ROUNDING_DIGITS,
    TENFOLD,
    TWICE,
)
from stabdiag.tree.drivers import climb_rates
from stabdiag.tree.run import Run

# A rise of one printed digit may be rounding.
_ROUNDING_DIGITS = ROUNDING_DIGITS

# If the loss fell by less than it rose, a rise by a smaller fraction of it does not matter: a
# smoothed loss that does not learn wanders by a percent.
_MIN_RELATIVE_RISE = TWICE * RELATIVE_TOLERANCE

# A tenfold rise, as the levels show it: the best level is a mean, above the lowest losses.
_MIN_MULTIPLE = MAJORITY * TENFOLD


def measure_rise(run: Run, part: slice, spikes: Iterable[Spike]) -> Rise | None:
    """Return the rise over a range of the losses, without recovered spikes.

    Its positions refer to all losses.
    """
    x, repeats = run.loss.values.copy(), run.duplicate_batch_mask
    if repeats is not None and not repeats.all():
        # Losses of repeated batches are memorized, so they do not count as the best level.
        typical = np.flatnonzero(~repeats)
        x[repeats] = np.interp(np.flatnonzero(repeats), typical, x[typical])
    for spike in spikes:
        if spike.recovered:
            x[spike.onset : spike.end] = spike.base
    if len(x) < run.min_losses_for_spikes:
        x = _without_lone_peak(x)
    start = run.chance_start
    if start:  # the low start of a moving average is not a level that the run had
        x[:start] = np.maximum(x[:start], median(x[start : 2 * start + 1]))
    rise = net_rise(x[part], run.rise_window, run.limits.divergence.significance)
    if rise is None:
        return None
    if run.average is not None:  # its noise may last for longer than a level
        rise = replace(rise, bar=max(rise.bar, CLEAR * run.average.level_sigma(rise.points)))
    moved = _moved(rise, part.start)
    if _is_multiple(x[part], rise) and not is_clear(run, moved):
        multiple = _multiple(run, x[part])
        return moved if multiple is None else _moved(multiple, part.start)
    return moved


def _without_lone_peak(x: Floats) -> Floats:
    """Cut a single high loss to the height of those before it, if the loss then went back there.

    In a log too short to test for spikes, it would raise the mean of the last losses.
    """
    at = int(x.argmax()) if len(x) else 0
    if not 0 < at < len(x) - 1:
        return x
    before, after = float(x[:at].max()), float(x[at + 1 :].max())
    if after > before + NEGLIGIBLE * (x[at] - before):
        return x
    cut = x.copy()
    cut[at] = max(before, after)
    return cut


def _moved(rise: Rise, begin: int) -> Rise:
    """Return a rise with its positions counted from ``begin`` losses earlier."""
    return replace(rise, best=begin + rise.best, onset=begin + rise.onset, crest=begin + rise.crest)


def _is_multiple(x: Floats, rise: Rise) -> bool:
    """Return True if a positive loss fell by an order of magnitude, and then rose by one."""
    least = (_MIN_MULTIPLE - 1) * rise.best_level
    return bool(x.min() > 0 and min(rise.amount, rise.progress) > least)


def _multiple(run: Run, x: Floats) -> Rise | None:
    """Return the rise of the logarithm of a loss, in units of the loss near its best level.

    If a loss fell by orders of magnitude, the noise of its first levels and a fraction of its fall
    exceed every later level. In the logarithm they do not.
    """
    rise = net_rise(np.log(x), run.rise_window, run.limits.divergence.significance)
    if rise is None or rise.amount < np.log(FAR_RATIO):
        return None
    level = float(np.exp(rise.best_level))
    return replace(
        rise,
        best_level=level,
        last_level=float(np.exp(rise.last_level)),
        bar=level * float(np.expm1(rise.bar)),
        progress=level * rise.progress,
        deviation=level * rise.deviation,
    )


def is_clear(run: Run, rise: Rise) -> bool:
    """Return True if a rise is both material and significant.

    A rise of many times the normal variation needs no test; any other has to be a significant
    trend.
    """
    if not is_material(run, rise):
        return False
    significant = rise.p_value < run.limits.divergence.significance
    return significant or rise.amount > DRAWUP_FACTOR * rise.bar


def is_material(run: Run, rise: Rise) -> bool:
    """Return True if a rise is large enough to matter."""
    return rise.amount > material_bar(run, rise)


def material_bar(run: Run, rise: Rise) -> float:
    """Return the minimum height of a material rise, in units of the loss.

    It is a small fraction of the earlier fall of the loss. For a rise below the noise of single
    losses the fraction is larger, because slightly harder data or the end of a schedule shift a
    level by this much.
    """
    limits = run.limits.divergence
    # A change of the last printed digit is rounding.
    least = max(limits.material * rise.progress, _ROUNDING_DIGITS * last_digit(run.loss.values))
    negligible = _MIN_RELATIVE_RISE * abs(rise.best_level)
    if rise.progress < rise.amount:
        least = max(least, negligible)
    if has_rising_lr(run, rise):
        return max(least, rise.bar)
    below_noise = max(least, limits.material_below_noise * rise.progress)
    return max(min(below_noise, max(least, CLEAR * rise.deviation)), rise.bar)


def has_rising_lr(run: Run, rise: Rise) -> bool:
    """Return True if the learning rate rose with the loss, which explains a small rise."""
    lr = climb_rates(run, run.at(rise.onset), run.at(rise.crest))
    return lr is not None and lr.rises


def is_end_of_climb(run: Run, jump: Spike, spikes: Iterable[Spike], begin: int) -> bool:
    """Return True if the loss was already climbing materially before it jumped.

    The losses from the position ``begin`` to the jump are comparable. If the learning rate rose to
    a new maximum over the same steps, it explains both the climb and the jump. Then a climb of any
    material size counts, and needs no significance test.
    """
    rise = measure_rise(run, slice(begin, jump.onset), spikes)
    if rise is None or not is_material(run, rise):
        return False
    explains = rise.amount > run.limits.divergence.material * jump.height
    return has_rising_lr(run, rise) or (explains and is_clear(run, rise))


def is_start_of_climb(run: Run, jump: Spike, spikes: Iterable[Spike], begin: int) -> bool:
    """Return True if a jump is the first part of a sustained increase.

    Growing label noise or gradually harder data first shows as isolated spikes. If the loss
    flattens or falls before it rises again, the second rise has its own cause. In a log too short
    to test for spikes, a loss that keeps multiplying until the end counts as divergence. Losses
    from the position ``begin`` on are comparable.
    """
    span = run.points(2 * run.limits.spike.recovery_steps, MIN_TREND_POINTS)
    after = run.loss.values[jump.onset :]
    if len(after) >= 2 * span:
        levels = medians(after[: len(after) // span * span].reshape(-1, span)) - jump.base
        if levels[1] <= MIN_LEVEL_RATIO * max(levels[0], 0.0):
            return False
    elif len(run.loss) >= run.min_losses_for_spikes or not multiplies(run.loss.values, jump):
        return False
    rise = measure_rise(run, slice(begin, len(run.loss)), spikes)
    return rise is not None and is_clear(run, rise)
