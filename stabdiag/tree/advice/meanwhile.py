"""What weights and evaluations did while the loss climbed, in words of advice."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stabdiag.model.findings import Action, ActionKind
from stabdiag.model.text import num
from stabdiag.stats.quantiles import median
from stabdiag.tree.advice.words import more_decay
from stabdiag.tree.divergence import climb, found_rise

if TYPE_CHECKING:
    from stabdiag.tree.case import Case

_COMPARE = Action(
    ActionKind.CHECK_EVALUATION,
    "Compare with the evaluation loss: if that still falls, the training data got harder.",
)

# The evaluation loss is the median of so many on either side, and follows a climb that it makes by
# this share at least.
_FEW = 3
_FOLLOWS = 0.5


def evaluated(case: Case) -> Action:
    """Return what the evaluation loss tells of a climb, or that it is to be looked at."""
    first, last = climb(case)
    evaluations = case.history.finite("eval_loss")
    before, after = evaluations.until(first).values, evaluations.between(first + 1, last).values
    if not len(before) or not len(after):
        return _COMPARE
    then, now = median(before[-_FEW:]), median(after[-_FEW:])
    went = f"went from {num(then)} to {num(now)} over the climb"
    if now - then < _FOLLOWS * found_rise(case).amount:
        return Action(
            ActionKind.INSPECT_DATA,
            f"Look for what made the training data harder: the evaluation loss only {went}.",
        )
    return Action(
        ActionKind.CHECK_EVALUATION,
        f"Do not blame harder training data alone: the evaluation loss {went}, too.",
    )


def drift(case: Case) -> Action:
    """Return which weights grew over the climb, or that their norms are to be looked at."""
    groups = case.history.group("weight_norm")
    if not groups:
        return Action(
            ActionKind.LOG_MORE,
            "Check for drift from the initialisation: log weight norms per group.",
        )
    first, last = climb(case)
    grown: list[tuple[float, str, float, float]] = []
    for name, series in groups.items():
        norms = series.finite().between(first, last).values
        if len(norms) > 1 and norms[0] > 0:
            begin, end = float(norms[0]), float(norms[-1])
            grown.append((end / begin, name, begin, end))
    ratio, name, begin, end = max(grown, default=(0.0, "", 0.0, 0.0))
    if ratio <= case.limits.divergence.weight_norm_ratio:
        return Action(
            ActionKind.CHECK_MODEL, "Check the weight norms for drift from the initialisation."
        )
    decay = more_decay(case, name)
    return Action(
        decay.kind,
        f"The weight norm of {name!r} grew from {num(begin)} to {num(end)} over the climb: "
        f"{decay}.",
        **decay.change,
    )
