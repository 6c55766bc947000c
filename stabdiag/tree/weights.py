"""§4: does a weight norm change with the loss, and since when?"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stabdiag.tree.question import Reply, no, unknown, yes
from stabdiag.tree.rises import climb, found_rise
from stabdiag.tree.turns import logarithms, turned_to
from stabdiag.tree.words import num

if TYPE_CHECKING:
    from stabdiag.findings import Scalar
    from stabdiag.history import Series
    from stabdiag.tree.case import Case


def did_a_weight_norm_change(case: Case) -> Reply:
    """Q4.3: has the norm of a group of weights changed much, and since when?"""
    groups = case.history.group("weight_norm")
    if not groups:
        return unknown("no weight norm was logged")
    first, last = climb(case)
    window = case.limits.divergence.window
    # The norms that drive a climb change before it shows, from the best level on, and a climb may
    # be shorter than the window in which they do.
    if not case.literal:
        first = min(case.at(case.settled.start + found_rise(case).best), last - window)
    changes = {
        name: _largest_change(series, first, last, window) for name, series in groups.items()
    }
    name = max(changes, key=lambda group: abs(np.log(changes[group])))
    ratio, limit = changes[name], case.limits.divergence.weight_norm_ratio
    measured: dict[str, Scalar] = {"group": name, "ratio": ratio, "groups": len(groups)}
    told = f"the weight norm of {name!r} changed most, {num(ratio)} x within {window} steps"
    if max(ratio, 1 / ratio) <= limit:
        return no(told, first, last, measured=measured)
    branch = "climbing" if ratio > 1 else "collapsing"
    turned = turned_to(case, groups[name], first, last, falling=ratio < 1)
    if turned is not None:
        told += f"; the change began at step {turned}"
        measured["turned"] = turned
    return yes(told, first, last, branch=branch, measured=measured)


def _largest_change(series: Series, first: int, last: int, window: int) -> float:
    """Return the ratio farthest from 1 of two values at most ``window`` steps apart."""
    steps, logs = logarithms(series.finite().between(first, last))
    if len(logs) < 2:
        return 1.0
    changes = logs - logs[np.searchsorted(steps, steps - window)]
    return float(np.exp(np.clip(changes[np.argmax(np.abs(changes))], -700, 700)))
