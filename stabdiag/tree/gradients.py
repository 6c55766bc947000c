"""Q4.4: does the gradient norm rise while the loss climbs?"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stabdiag.model.text import num
from stabdiag.stats.trend import mann_kendall
from stabdiag.tree.question import Reply, no, unknown, yes
from stabdiag.tree.rises import climb, found_rise, is_clear

if TYPE_CHECKING:
    from stabdiag.model.findings import Scalar
    from stabdiag.tree.case import Case


def is_the_grad_norm_rising(case: Case) -> Reply:
    """Q4.4: does the gradient norm rise with the loss?"""
    material = case.literal or is_clear(case, found_rise(case))
    first, last = climb(case)
    # To the letter, a loss that rises without its gradient norm is a model that is done training.
    kind = "unexplained" if material and not case.literal else "plateau"
    # Its second half against half as long before it: a norm that rose at once has risen too.
    back = last - first if case.literal else (last - first) // 2
    span = case.history.finite("grad_norm").between(first - back, last)
    third = len(span) // 3
    if third < 3:
        return unknown("too few gradient norms were logged over the climb", branch=kind)
    before, after = float(np.mean(span.values[:third])), float(np.mean(span.values[-third:]))
    ratio = after / before if before > 0 else float("inf")
    times = f", {num(ratio)} x" if before > 0 else ""
    # It rose with the loss, or had risen before it: then it no longer does.
    chance = min(mann_kendall(part.values) for part in (span, span.between(first, last)))
    told = (
        f"the gradient norm's mean went from {num(before)} to {num(after)}{times}, over the climb"
    )
    measured: dict[str, Scalar] = {
        "before": before,
        "after": after,
        "ratio": ratio if before > 0 else None,
        "p_value": chance,
    }
    higher = ratio > case.limits.divergence.grad_norm_rise
    rising = higher and chance < 0.01
    if rising and material:
        return yes(told, first, last, measured=measured)
    if rising:
        return no(
            f"{told}, but the loss hardly rose: that convicts nobody",
            branch=kind,
            measured=measured,
        )
    if higher:
        told += f", but not steadily: a flat one does so with chance {num(chance)}"
    return no(told, first, last, branch=kind, measured=measured)
