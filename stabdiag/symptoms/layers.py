"""The symptom of one layer whose gradient is far from that of the others."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stabdiag.model.findings import Action, ActionKind, Severity
from stabdiag.model.text import num
from stabdiag.stats.quantiles import median, robust_sigma
from stabdiag.symptoms.symptom import Evidence, Symptom

if TYPE_CHECKING:
    from stabdiag.tree.case import Case

# A group is known by so many points, and its norm is a median over the last quarter of them.
_LEAST = 8
_QUARTER = 4

# Groups are compared where there are enough of them to tell what is usual.
_LEAST_GROUPS = 4
_SPREADS = 5.0


def grad_layer_outlier(case: Case) -> Evidence | None:
    """Is the gradient of one group far from that of all others?"""
    groups = {
        name: series.finite()
        for name, series in case.history.group("grad_norm").items()
        if name != "all"
    }
    usual = {
        name: median(series.values[-(len(series) // _QUARTER) :])
        for name, series in groups.items()
        if len(series) >= _LEAST
    }
    known = {name: value for name, value in usual.items() if value > 0}
    if len(known) < _LEAST_GROUPS:
        return None
    logs = np.log(np.array(list(known.values())))
    middle = median(logs)
    away = np.abs(logs - middle)
    at = int(np.argmax(away))
    least = np.log(case.limits.gradients.layer_ratio)
    if away[at] <= max(least, _SPREADS * robust_sigma(logs)):
        return None
    name, ratio = list(known)[at], float(np.exp(logs[at] - middle))
    compared = "above" if ratio > 1 else "below"
    times = ratio if ratio > 1 else 1 / ratio
    return Evidence(
        because=f"The gradient norm of {name!r} is {num(known[name])}, {num(times)} x {compared} "
        f"the median of all {len(known)} groups, {num(float(np.exp(middle)))}.",
        measured={"group": name, "norm": known[name], "ratio": ratio, "groups": len(known)},
        first=Action(
            ActionKind.CHECK_MODEL,
            f"Look at what feeds {name!r}: its initialisation, its scale, and whether its "
            "parameters take part in the loss as they should.",
        ),
        then=(
            Action(
                ActionKind.CHANGE_OPTIMIZER,
                "Give the group a learning rate or a clip threshold of its own.",
            ),
            Action(
                ActionKind.CHECK_MODEL, "Check normalisation and residual connections around it."
            ),
        ),
    )


def _few_groups(case: Case) -> str:
    groups = (series for name, series in case.history.group("grad_norm").items() if name != "all")
    count = sum(len(series.finite()) >= _LEAST for series in groups)
    if count >= _LEAST_GROUPS:
        return ""
    return f"takes {_LEAST} points of {_LEAST_GROUPS} groups each, logged of {count}"


SYMPTOMS: tuple[Symptom, ...] = (
    Symptom(
        slug="grad-layer-outlier",
        severity=Severity.WARNING,
        family="gradients",
        title="One layer's gradient is far from the rest",
        check=grad_layer_outlier,
        needs=("grad_norm",),
        limits=("gradients.layer_ratio",),
        enough=(_few_groups,),
    ),
)
