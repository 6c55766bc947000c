"""Rises of the loss: how large, since when, and whether beyond chance."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from stabdiag.stats.levels import last_digit
from stabdiag.stats.rise import DRAWUP_FACTOR, Rise, net_rise
from stabdiag.stats.shape import Spike
from stabdiag.stats.tails import CLEAR
from stabdiag.tree.drivers import lr_over
from stabdiag.tree.run import Run

# A rise of one last printed digit may be rounding; two are more.
_DIGITS = 1.5


def rise_of(run: Run, part: slice, spikes: Iterable[Spike]) -> Rise | None:
    """Return the rise over some of the losses, with spikes that recovered taken out.

    Its positions are those of all losses.
    """
    x, repeats = run.loss.values.copy(), run.duplicate_batch_mask
    if repeats is not None:
        # What was learned by heart is no best level to climb from.
        typical = np.flatnonzero(~repeats)
        x[repeats] = np.interp(np.flatnonzero(repeats), typical, x[typical])
    for spike in spikes:
        if spike.recovered:
            x[spike.onset : spike.end] = spike.base
    rise = net_rise(x[part], run.rise_window, run.limits.divergence.significance)
    if rise is None:
        return None
    begin = part.start
    return replace(rise, best=begin + rise.best, onset=begin + rise.onset, crest=begin + rise.crest)


def is_clear(run: Run, rise: Rise) -> bool:
    """Tell whether a rise is both material and more than chance.

    A rise of many times what the run's own noise and ups and downs explain needs no further test;
    any other has to be a significant trend.
    """
    if not is_material(run, rise):
        return False
    significant = rise.p_value < run.limits.divergence.significance
    return significant or rise.amount > DRAWUP_FACTOR * rise.bar


def is_material(run: Run, rise: Rise) -> bool:
    """Tell whether a rise is large enough to matter."""
    return rise.amount > material_bar(run, rise)


def material_bar(run: Run, rise: Rise) -> float:
    """Return the height, in units of the loss, from which on a rise is material.

    Of a loss that first fell far, a small share is a rise that anybody sees. One below the noise of
    single losses is material only if it gives back more: data that get a little harder, or a
    schedule that ends, shift a level by as much.
    """
    limits = run.limits.divergence
    # A change of the last printed digit is rounding.
    least = max(limits.material * rise.progress, _DIGITS * last_digit(run.loss.values))
    if has_rising_lr(run, rise):
        return max(least, rise.bar)
    drowned = max(least, limits.material_below_noise * rise.progress)
    return max(min(drowned, max(least, CLEAR * rise.deviation)), rise.bar)


def has_rising_lr(run: Run, rise: Rise) -> bool:
    """Tell whether the learning rate rose as long as the loss did, which explains a small rise."""
    lr = lr_over(run, run.at(rise.onset), run.at(rise.crest))
    return lr is not None and lr.rises
