"""Q4.3: does a weight norm change while the loss climbs, and since when?"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stabdiag.model.text import times
from stabdiag.stats.quantiles import usual_gap
from stabdiag.tree.question import Reply, no, unknown, yes
from stabdiag.tree.rises import best_step, climb
from stabdiag.tree.turns import at_or_near, logarithms, turned_to

if TYPE_CHECKING:
    from stabdiag.model.findings import Scalar
    from stabdiag.model.history import Series
    from stabdiag.tree.case import Case


def did_a_weight_norm_change(case: Case) -> Reply:
    """Q4.3: has the norm of a group of weights changed much, and since when?"""
    groups = case.history.group("weight_norm")
    if not groups:
        return unknown("no weight norm was logged")
    began, last = climb(case)
    first, window = began, case.limits.divergence.window
    # The norms that drive a climb change before it shows, from the best level on, and a climb may
    # be shorter than the window in which they do.
    if not case.literal:
        first = min(best_step(case), last - window)
    logged = {
        name: span
        for name, series in groups.items()
        if len(span := series.finite().between(first, last)) > 1
    }
    if not logged:
        return unknown("too few weight norms were logged over the climb")
    within = {name: _within(span, window) for name, span in logged.items()}
    changes = {name: _largest_change(span, within[name]) for name, span in logged.items()}
    name = max(changes, key=lambda group: abs(np.log(changes[group])))
    ratio, limit = changes[name], case.limits.divergence.weight_norm_ratio
    measured: dict[str, Scalar] = {"group": name, "ratio": ratio, "groups": len(groups)}
    told = (
        f"the weight norm of {name!r} changed most, to {times(ratio)} within {within[name]} steps"
    )
    if within[name] > window:
        told += f" (not {window}: it was logged too seldom)"
    if max(ratio, 1 / ratio) <= limit:
        return no(told, first, last, measured=measured)
    branch = "climbing" if ratio > 1 else "collapsing"
    turned = turned_to(case, groups[name], first, last, falling=ratio < 1)
    if turned is not None and turned > began:
        # What came later than the climb did not begin it, however much larger it was.
        turned = turned_to(case, groups[name], first, began + window, falling=ratio < 1)
    if turned is not None:
        told += f"; the change began {at_or_near(groups[name], turned)}"
        measured["turned"] = turned
    return yes(told, first, last, branch=branch, measured=measured)


def _within(series: Series, window: int) -> int:
    """Return the steps over which a change counts: enough of them to hold three values."""
    return max(window, round(2 * usual_gap(series.steps)))


def _largest_change(series: Series, window: int) -> float:
    """Return the ratio farthest from 1 of two values at most ``window`` steps apart."""
    steps, logs = logarithms(series)
    if len(logs) < 2:
        return 1.0
    changes = logs - logs[np.searchsorted(steps, steps - window)]
    return float(np.exp(np.clip(changes[np.argmax(np.abs(changes))], -700, 700)))
