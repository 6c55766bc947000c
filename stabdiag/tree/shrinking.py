"""Was a weight norm shrinking already when the loss jumped?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stabdiag.tree.turns import turned_to

if TYPE_CHECKING:
    from stabdiag.history import Series
    from stabdiag.stats.shape import Spike
    from stabdiag.tree.case import Case

# A norm was shrinking already if it had lost this share of itself at the jump.
_LOST = 0.05


def weights_were_shrinking(case: Case, jump: Spike) -> bool:
    """Tell whether a weight norm was falling when the loss jumped, and went on to fall far.

    A weight decay that is too high undoes in a few dozen steps what a run has learned. The loss
    then goes up as fast as in a jump, but the weights began it. A norm that fell at once, as by a
    part of the model that was set back, had the same cause as the jump.
    """
    series = case.history.group("weight_norm").values()
    return any(_was_shrinking(case, norm.finite(), jump) for norm in series)


def _was_shrinking(case: Case, norm: Series, jump: Spike) -> bool:
    window, factor = case.limits.divergence.window, case.limits.divergence.weight_norm_ratio
    onset = case.at(jump.onset)
    turned = turned_to(case, norm, onset - window, onset + window, falling=True)
    if turned is None or turned >= onset:
        return False
    before, then = norm.between(onset - window, turned).values, norm.until(onset).values
    later = norm.between(onset + 1, onset + window).values
    if not (len(before) and len(later)):
        return False
    at, least = float(then[-1]), float(later.min())
    return at < (1 - _LOST) * float(before[-1]) and least < at / factor
