"""A loss of exactly zero, up to the end of the log."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stabdiag.model.findings import Action, ActionKind
from stabdiag.model.text import num
from stabdiag.stats.quantiles import median
from stabdiag.symptoms.symptom import Evidence

if TYPE_CHECKING:
    from stabdiag.tree.case import Case

# A loss that is zero at once had this share of its first value in the median of so many losses
# before; what ends in zero by and by does not.
_BEFORE = 5
_AT_ONCE = 0.1


def zero(case: Case, start: int) -> Evidence | None:
    """Tell what a loss means that is zero from a place in the log on."""
    return _unrewarded(case, start) if "reward" in case.history.series else _fallen(case, start)


def _fallen(case: Case, start: int) -> Evidence | None:
    """Tell of a loss that fell to zero at once: one that came down by and by has learned all.

    A policy whose advantages cancel may have a loss of zero, and gradients all the same.
    """
    x, steps = case.loss.values, case.loss.steps
    if start == 0 and _has_gradients(case):
        return None
    before = x[max(0, start - _BEFORE) : start]
    if len(before) and median(before) <= _AT_ONCE * x[0]:
        return None
    first, last, count = int(steps[start]), int(steps[-1]), len(x) - start
    fell = {"before": median(before)} if len(before) else {}
    points = f"the last {count}" if fell else f"all {count}"
    told = f", and was {num(fell['before'])} just before" if fell else ""
    return Evidence(
        because=f"The loss is exactly 0 at {points} logged points, from step {first} to "
        f"{last}{told}.",
        step=first,
        measured={"loss": 0.0, "points": count, **fell},
        first=Action(
            ActionKind.CHECK_LOSS_FUNCTION,
            f"Run the batch of step {first} forward and print the loss itself: some loggers "
            "write 0 for NaN, and a batch whose labels are all masked has no loss.",
        ),
        then=(
            Action(
                ActionKind.CHECK_LABELS, "Count the labels of a batch that are not masked (-100)."
            ),
            Action(
                ActionKind.CHECK_LOSS_FUNCTION,
                "Look at the gradient norm: NaN where 0 stands for NaN, and 0 where all is masked.",
            ),
            Action(
                ActionKind.LOG_MORE,
                "Write the loss with more digits, if it may be smaller than those that are "
                "written.",
            ),
        ),
    )


def _unrewarded(case: Case, start: int) -> Evidence | None:
    """Tell of a policy whose every answer has the same reward, and which therefore has no loss."""
    reward = case.history.series["reward"].finite()
    few = len(reward) < case.limits.learning.constant_points
    if start > 0 or few or np.ptp(reward.values) > 0 or _has_gradients(case):
        return None
    first, value = int(case.loss.steps[0]), float(reward.values[0])
    return Evidence(
        because=f"The loss is exactly 0 at all {len(case.loss)} logged points and the reward is "
        f"{num(value)} at all {len(reward)}: where no answer is better than another, nothing is "
        "learned.",
        step=first,
        measured={"loss": 0.0, "points": len(case.loss), "reward": value},
        first=Action(
            ActionKind.CHECK_LOSS_FUNCTION,
            f"Run the reward function on a few answers of step {first} by hand, and find out why "
            "it gives the same to all.",
        ),
        then=(
            Action(
                ActionKind.CHECK_LOSS_FUNCTION,
                "Check that the answers are not cut before what the reward looks for, and that it "
                "gets the column of the data that it compares them with.",
            ),
            Action(
                ActionKind.CHECK_LOSS_FUNCTION,
                "Reward partial success, so that the answers to one prompt differ.",
            ),
            Action(
                ActionKind.INSPECT_DATA,
                "Sample with a higher temperature, or more answers to each prompt.",
            ),
        ),
    )


def _has_gradients(case: Case) -> bool:
    """Tell whether a gradient was ever measured: one of 0 throughout is left out as unmeasured."""
    return bool(case.history.finite("grad_norm").values.any())
