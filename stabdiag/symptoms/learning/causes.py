"""Causes of a loss that does not change or does not improve."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from stabdiag.model.arrays import Floats, Mask
from stabdiag.model.findings import Action, Scalar
from stabdiag.model.findings import ActionKind as Do
from stabdiag.model.frozen import frozen
from stabdiag.model.text import digits, num
from stabdiag.stats.course import change_of_halves, highest_level
from stabdiag.stats.levels import MOST_DIGITS
from stabdiag.stats.quantiles import power_of_ten
from stabdiag.stats.standards import (
    BEYOND_CHANCE,
    FEW_EVENTS,
    HALF,
    MIN_CONSECUTIVE,
    MIN_SAMPLE,
    NEGLIGIBLE,
    RELATIVE_TOLERANCE,
)
from stabdiag.symptoms.gradients.clipping import clip_limitation, tiny_clip
from stabdiag.symptoms.learning.rate_fixes import (
    rate_near_low,
    setting_out_of_range,
    unfinished_warmup,
)
from stabdiag.symptoms.losses import rate_is_zero
from stabdiag.symptoms.symptom import Evidence, Symptom
from stabdiag.tree.case import Case

# Relative to a weight norm: below this, nearly all updates were lost.
_SAME_NORM = 1e-6

# A value with fewer digits may have been rounded.
MIN_EXACT_DIGITS = 4


_MASTER_WEIGHTS = Action(
    Do.CHECK_PRECISION,
    "Keep the weights that the optimizer updates in fp32: bf16 rounds away updates below 1/256 of "
    "a weight.",
    also=(Do.CHANGE_DTYPE,),
)


@frozen
class Cause:
    """The reason why no step changes the weights."""

    words: str
    first: Action
    next_actions: tuple[Action, ...] = ()


def without_learning(
    case: Case,
    symptom: Symptom,
    *,
    step: int,
    because: str,
    measured: Mapping[str, Scalar],
    first: Action,
    is_constant: bool = False,
) -> Evidence:
    """Return the evidence for a loss that does not change, with the cause if the log shows it.

    With ``is_constant``, the loss is the same to the last digit.
    """
    cause = _cause(case, step)
    out_of_range = (
        unfinished_warmup(case)
        or setting_out_of_range(case)
        or clip_limitation(case)
        or tiny_clip(case)
    )
    # A low rate does not explain a loss that never changes or one that rose.
    if out_of_range is None and not is_constant and not rose_far(case):
        out_of_range = rate_near_low(case)
    if cause is None and out_of_range is not None:
        words, change = out_of_range
        # If the rate is too low, a lower one does not help.
        unhelpful = {change.kind, *((Do.LOWER_LR,) if Do.RAISE_LR in change.kinds else ())}
        return Evidence(
            because=f"{because}. {words}",
            step=step,
            measured=measured,
            first=change,
            next_actions=(
                first,
                *(action for action in symptom.next_actions if action.kind not in unhelpful),
            ),
        )
    if cause is None:
        return Evidence(because=f"{because}.", step=step, measured=measured, first=first)
    # A learning rate of 0 cannot be too high or too low.
    settings = (Do.LOWER_LR, Do.TEST_LR) if rate_is_zero(case, step) else ()
    return Evidence(
        because=f"{because}; {cause.words} throughout.",
        step=step,
        measured=measured,
        first=cause.first,
        next_actions=(
            *cause.next_actions,
            first,
            *(action for action in symptom.next_actions if action.kind not in settings),
        ),
    )


def _cause(case: Case, since: int) -> Cause | None:
    # A loss that changes this much means that the weights change, regardless of other series.
    if loss_changes(case, since) or rose_far(case):
        return None
    if rate_is_zero(case, since):
        return Cause(
            words="the learning rate is 0",
            first=Action(
                Do.FIX_SCHEDULE,
                "Find out why the learning rate is 0: no step changes the weights.",
            ),
            next_actions=(
                Action(Do.LOG_MORE, "Log the learning rate with more digits if it is small."),
            ),
        )
    if _skips_all(case):
        return Cause(
            words=f"{case.history.logged('skipped').column!r} is 1 at every record, so no update "
            "was made",
            first=Action(
                Do.INSPECT_LAYERS,
                "Run one batch under torch.autograd.set_detect_anomaly(True) to find the operation "
                "whose gradient is not finite: every step was skipped.",
                also=(Do.DYNAMIC_LOSS_SCALE,),
            ),
        )
    norm = unchanged_norm(case)
    if norm is not None or evaluations_are_constant(case):
        return _unchanged_weights(case, norm)
    if not case.history.without_gradient:
        return None
    first = Action(
        Do.CHECK_MODEL,
        "Find out why no gradient reaches the weights: print the gradient norm of each parameter.",
    )
    return Cause(words="the logged gradient norm is 0", first=first)


def _unchanged_weights(case: Case, norm: float | None) -> Cause:
    """Return the cause of weights that do not change; ``norm`` is their constant norm if logged."""
    same = "every evaluation is the same" if norm is None else f"the weight norm is {num(norm)}"
    first = Action(
        Do.CHECK_MODEL,
        "Check that the optimizer steps and contains the trained parameters: no weight changes.",
    )
    scale = case.history.finite("loss_scale").values
    # A scaler skips steps with non-finite gradients; an optimizer does not.
    skipped = Action(
        Do.DYNAMIC_LOSS_SCALE,
        "In fp16, let the loss scale adapt (torch.amp.GradScaler), or switch to bf16: a step "
        "whose gradients overflow is skipped.",
        also=(Do.CHANGE_DTYPE,),
    )
    gradients, words = case.history.get("grad_norm"), ""
    if case.manifest.dtype is None and gradients and not len(gradients.finite()):
        words = f"{same} and no gradient norm is finite"
    if case.manifest.dtype == "fp16" and len(scale) and not np.ptp(scale):
        words = f"{same} in fp16, with a loss scale of {num(float(scale[0]))}"
    if words:
        return Cause(words=words, first=skipped, next_actions=(first,))
    if case.manifest.dtype == "bf16":
        return Cause(words=f"{same} in bf16", first=_MASTER_WEIGHTS, next_actions=(first,))
    return Cause(words=same, first=first, next_actions=() if case.manifest.dtype else (skipped,))


def _skips_all(case: Case) -> bool:
    """Return True if each record says that its step was skipped.

    A total that stays at 1 looks the same, but then the loss falls.
    """
    skipped = case.history.finite("skipped").values
    return len(skipped) >= MIN_SAMPLE and bool((skipped == 1).all())


def loss_changes(case: Case, since: int) -> bool:
    """Return True if the loss changes after a step by more than its noise and a twentieth."""
    x = case.loss.values[case.loss.steps >= since]
    if len(x) <= FEW_EVENTS:
        return False
    return change_of_halves(x, NEGLIGIBLE * abs(float(x[0]))) != 0


def unchanged_norm(case: Case) -> float | None:
    """Return the largest weight norm, if every logged one is the same in every record."""
    norms = [series.finite().values for series in case.history.group("weight_norm").values()]
    is_constant = [
        len(x) > FEW_EVENTS
        and abs(x[-1] - x[0]) <= _SAME_NORM * x[0]
        and np.ptp(x) <= _SAME_NORM * x[0]
        and digits(float(x[0])) >= MIN_EXACT_DIGITS
        for x in norms
    ]
    return max(float(x[0]) for x in norms) if norms and all(is_constant) else None


def evaluations_are_constant(case: Case) -> bool:
    """Return True if all evaluations are identical to the last digit."""
    heldout = case.history.finite("eval_loss").values
    if len(heldout) < MIN_CONSECUTIVE:
        return False
    return not np.ptp(heldout) and _is_exact(float(heldout[0]), case.loss.values)


def _is_exact(value: float, losses: Floats) -> bool:
    """Return True if a value was not rounded to few digits.

    A value such as 0.2 counts as exact if the losses next to it were written with a fixed number of
    decimals that shows more digits.
    """
    if digits(value) >= MIN_EXACT_DIGITS:
        return True
    is_fixed = _are_multiples(losses, power_of_ten(-MOST_DIGITS)).all()
    is_coarse = _are_multiples(losses, power_of_ten(1 - MIN_EXACT_DIGITS)).mean() >= HALF
    return bool(is_fixed and not is_coarse)


def _are_multiples(x: Floats, unit: float) -> Mask:
    """Return which values are multiples of a unit."""
    return np.abs(x / unit - np.round(x / unit)) < RELATIVE_TOLERANCE


def rose_far(case: Case) -> bool:
    """Return True if the loss rose far above its start, which requires that the weights change.

    The first batch may be unusual, so the rise must exceed the noise of single losses.
    """
    x = case.loss.values
    if len(x) < 2:
        return False
    began, highest = float(x[0]), highest_level(x)
    beyond = highest - began > BEYOND_CHANCE * case.loss_sigma
    return beyond and highest > case.limits.learning.above_start * began
