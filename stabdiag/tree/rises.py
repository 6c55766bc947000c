"""Rises of the loss: how large, since when, and whether beyond chance."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from stabdiag.stats.levels import is_trimmed
from stabdiag.stats.quantiles import medians
from stabdiag.stats.rise import Rise, net_rise
from stabdiag.tree.lr_over import lr_over

if TYPE_CHECKING:
    from collections.abc import Iterable

    from stabdiag.model.history import Series
    from stabdiag.stats.shape import Spike
    from stabdiag.tree.case import Case

# A rise of so many times the run's own ups and downs is obvious.
_OBVIOUS = 2.5

# A rise of fewer deviations of single losses than this cannot be seen among them.
SEEN = 4.0

# A jump is but the beginning of a climb whose level is so many times as high as at first, already
# over the next steps, and in the end.
_GOES_ON = 1.5
_TO_COME = 2.0

# A level after a jump is a median of at least so many losses.
_LEAST_SPAN = 10

# A climb that made less than this share of a jump's height does not explain the jump.
_SHARE_OF_JUMP = 0.05


def rise_of(case: Case, part: slice, spikes: Iterable[Spike]) -> Rise | None:
    """Return the rise over some of the losses, with spikes that recovered taken out.

    Its positions are those of all losses.
    """
    x, repeats = case.loss.values.copy(), case.on_repeats
    if repeats is not None and not case.literal:
        # What was learned by heart is no best level to climb from.
        typical = np.flatnonzero(~repeats)
        x[repeats] = np.interp(np.flatnonzero(repeats), typical, x[typical])
    for spike in spikes:
        if spike.recovered:
            x[spike.onset : spike.end] = spike.base
    rise = net_rise(x[part], case.rise_window, case.limits.divergence.significance)
    if rise is None:
        return None
    begin = part.start
    return replace(rise, best=begin + rise.best, onset=begin + rise.onset, crest=begin + rise.crest)


def climb(case: Case) -> tuple[int, int]:
    """Return the first and last step that Q4.2 to Q4.4 look at.

    They go from where the climb began to where most of it was done; to the letter, they are those
    of the last window.
    """
    if case.literal:
        window = last_window(case)
        return int(window.steps[0]), int(window.steps[-1])
    rise = found_rise(case)
    first, last = case.at(rise.onset), case.at(rise.crest)
    return first, max(last, first + 1)


def last_window(case: Case) -> Series:
    """Return the losses of the last window of §4; on a sparse log, as many as it takes at least."""
    loss, limits = case.loss, case.limits.divergence
    fewest = loss.steps[-min(limits.min_points, len(loss))]
    last = int(loss.steps[-1])
    return loss.between(min(last - limits.window, int(fewest)), last)


def found_rise(case: Case) -> Rise:
    """Return the rise that Q4.1 has found."""
    if case.rise is None:
        raise LookupError("Q4.2 to Q4.4 are asked of a loss that rises")
    return case.rise


def mean_of(points: int) -> str:
    """Return what the level is that so many points at the end have, which are two blocks."""
    return f"{'trimmed mean' if is_trimmed(points // 2) else 'mean'} of {points}"


def best_step(case: Case) -> int:
    """Return the step at which the loss was at its best before the rise that Q4.1 has found."""
    return case.at(found_rise(case).best)


def is_clear(case: Case, rise: Rise) -> bool:
    """Tell whether a rise is both material and more than chance.

    A rise of many times what the run's own noise and ups and downs explain needs no further test;
    any other has to be a significant trend.
    """
    if not _is_material(case, rise):
        return False
    significant = rise.p_value < case.limits.divergence.significance
    return significant or rise.amount > _OBVIOUS * rise.bar


def comparable_from(case: Case, position: int) -> int:
    """Return from which position on losses can be compared with the one at a position.

    Before a shift the loss was measured on something else.
    """
    ends = (shift.spike.end for shift in case.shifts if shift.spike.onset < position)
    return min(max(ends, default=0), position)


def climbs_before(case: Case, jump: Spike, spikes: Iterable[Spike]) -> bool:
    """Tell whether the loss was already climbing materially before it jumped.

    Where the learning rate rose as long as the loss did, and beyond where it had been, the two have
    a cause in common: then the climb needs no test, however small it is beside the jump.
    """
    begin = comparable_from(case, jump.onset)
    rise = rise_of(case, slice(begin, jump.onset), spikes)
    if rise is None or not _is_material(case, rise):
        return False
    if _has_rising_lr(case, rise):
        return True
    return is_clear(case, rise) and rise.amount > _SHARE_OF_JUMP * jump.height


def climbs_on(case: Case, jump: Spike, spikes: Iterable[Spike]) -> bool:
    """Tell whether a jump is only the beginning of a larger climb.

    Labels that rot, or data that get harder by and by, tear the loss up in single bursts at first.
    A loss that stands still, or comes down, before it rises again has another trouble then.
    """
    span = case.points(2 * case.limits.spike.recovery_steps, _LEAST_SPAN)
    after = case.loss.values[jump.onset :]
    if len(after) < 2 * span:
        return False
    levels = medians(after[: len(after) // span * span].reshape(-1, span)) - jump.base
    first = max(levels[0], 0.0)
    if levels[1] <= _GOES_ON * first or levels.max() <= _TO_COME * first:
        return False
    rise = rise_of(case, slice(comparable_from(case, jump.onset), len(case.loss)), spikes)
    return rise is not None and is_clear(case, rise)


def ends_higher(case: Case, spikes: Iterable[Spike]) -> bool:
    """Tell whether the loss has climbed by its end, beyond what it does anyway."""
    rise = rise_of(case, slice(0, len(case.loss)), spikes)
    return rise is not None and is_clear(case, rise)


def _is_material(case: Case, rise: Rise) -> bool:
    return rise.amount > material_bar(case, rise)


def material_bar(case: Case, rise: Rise) -> float:
    """Return the height, in units of the loss, from which on a rise is material.

    Of a loss that first fell far, a small share is a rise that anybody sees. One below the noise of
    single losses is material only if it gives back more: data that get a little harder, or a
    schedule that ends, shift a level by as much.
    """
    limits = case.limits.divergence
    least = limits.material * rise.progress
    if _has_rising_lr(case, rise):
        return max(least, rise.bar)
    drowned = max(least, limits.material_if_drowned * rise.progress)
    return max(min(drowned, max(least, SEEN * rise.deviation)), rise.bar)


def _has_rising_lr(case: Case, rise: Rise) -> bool:
    """Tell whether the learning rate rose as long as the loss did, which explains a small rise."""
    lr = lr_over(case, case.at(rise.onset), case.at(rise.crest))
    return lr is not None and lr.rises and not case.literal
