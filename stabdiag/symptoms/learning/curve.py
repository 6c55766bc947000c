"""The shape of the loss curve: oscillation, and where it ends."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial

import numpy as np

from stabdiag.model.findings import Action, Severity
from stabdiag.model.findings import ActionKind as Do
from stabdiag.model.roles.scores import PERCENT
from stabdiag.model.text import num, typed
from stabdiag.stats.course import end_level, evaluation_level, flat_part, late_level, second_half
from stabdiag.stats.levels import levels
from stabdiag.stats.quantiles import median, quantiles, typical
from stabdiag.stats.smooth import count_waves
from stabdiag.stats.standards import (
    CONTEXT_POINTS,
    FAR_RATIO,
    MAX_CHANCE,
    MIN_COMPARED,
    MIN_TREND_POINTS,
    NEARLY_ALL,
    QUARTERS,
    TENFOLD,
    TENTH,
    TENTHS,
    TWENTIETHS,
)
from stabdiag.symptoms.losses import (
    FALLEN,
    RANGE_TEST,
    few_trained,
    from_the_start,
    losses_after_warmup,
    no_distance,
)
from stabdiag.symptoms.symptom import Evidence, Symptom, at_least
from stabdiag.tree.advice.rates import lowered
from stabdiag.tree.advice.shared import clip_action
from stabdiag.tree.case import Case
from stabdiag.tree.pretraining import chance_loss, starts_pretrained
from stabdiag.tree.progress import find_progress

# Waves are counted on this many levels. On more, the noise of healthy runs looks like waves as
# well.
_LEVELS = 100

# If nothing improved, shorter waves count, on more levels of at least four points each. Fewer than
# six may be parts of a slow drift.
_SHORT_LEVELS = 400
_SHORT_POINTS = MIN_COMPARED
_MIN_SHORT_WAVES = 6


@Symptom(
    slug="loss-oscillating",
    title="The loss oscillates",
    needs=("loss",),
    explained_by=("nan",),
    yields_to=("epoch-pattern",),
    preconditions=(at_least("learning.min_points", "loss"), no_distance),
    next_actions=(
        Action(Do.FIX_SCHEDULE, "Use a gentler schedule: linear or cosine decay, not steps."),
        Action(Do.CHANGE_OPTIMIZER, "Lower the momentum, or Adam's β2 towards 0.95."),
        RANGE_TEST,
    ),
)
def loss_oscillating(case: Case) -> Evidence | None:
    """Does the loss swing up and down, in slow waves or far above where it began?"""
    above_start = _above_start(case) if from_the_start(case) else None
    return _waves(case) or above_start or _evaluations_swing(case)


def _waves(case: Case) -> Evidence | None:
    limits, smooth = case.limits.learning, levels(case.loss.values, _LEVELS)
    waves = count_waves(np.log(smooth), math.log(limits.swing))
    if waves < limits.swings:
        count = min(_SHORT_LEVELS, len(case.loss) // _SHORT_POINTS)
        smooth = levels(case.loss.values, max(count, _LEVELS))
        waves = count_waves(np.log(smooth), math.log(limits.swing))
        if waves < _MIN_SHORT_WAVES or find_progress(case).better is not False:
            return None
    if _is_cyclic(case):
        return None
    first, last = int(case.loss.steps[0]), int(case.loss.steps[-1])
    low, high = float(smooth.min()), float(smooth[1:].max())
    return _oscillating(
        case,
        f"The loss rose by {num(limits.swing)} x or more and fell again {waves} times between "
        f"{case.unit}s {first} and {last}, from {num(low)} to {num(high)}.",
        {"waves": waves, "low": low, "high": high},
    )


def _evaluations_swing(case: Case) -> Evidence | None:
    """Report an evaluation loss that swings and does not improve while the training loss falls."""
    limits, heldout = case.limits.learning, case.history.finite("eval_loss")
    late = heldout.values[len(heldout) // QUARTERS :]
    if len(late) < 2 * MIN_TREND_POINTS or late.min() <= 0 or case.loss_kind is not None:
        return None
    low, high = quantiles(late, (TENTH, NEARLY_ALL)).tolist()
    above = late > median(late)
    turns = int((above[1:] != above[:-1]).sum())
    changes = {change.role: change for change in find_progress(case).changes}
    train, evaluation = changes.get("loss"), changes.get("eval_loss")
    if train is None or evaluation is None or not train.better or evaluation.better:
        return None
    # A steady rise, as with overfitting, crosses its median once.
    if high < limits.swing * low or turns < len(late) / QUARTERS:
        return None
    step = int(heldout.steps[len(heldout) // QUARTERS])
    evidence = _oscillating(
        case,
        f"The evaluation loss swings between {num(low)} and {num(high)} from {case.unit} {step} on "
        f"and does not improve, while the training loss went {train.text}.",
        {"low": low, "high": high, "turns": turns},
    )
    look = Action(
        Do.CHECK_EVALUATION, "Evaluate one checkpoint twice, on more data: it may only be noise."
    )
    return replace(
        evidence,
        title="The evaluation loss oscillates",
        severity=Severity.NOTE,
        next_actions=(look, *loss_oscillating.next_actions),
    )


def _above_start(case: Case) -> Evidence | None:
    limits, x = case.limits.learning, case.loss.values
    late = second_half(x)
    began, level = float(x[0]), late_level(x)
    if level < limits.above_start * began:
        return None
    low, high = quantiles(late, (TENTH, NEARLY_ALL)).tolist()
    # If later losses are occasionally as low as the first, the first may be low by chance.
    by_chance = np.mean(late <= began) >= MAX_CHANCE
    if high < limits.swing * low or by_chance:
        return None
    has_fallen = level < FALLEN * typical(x[: len(x) // TENTHS])
    # A loss that keeps rising diverges, which the tree reports.
    keeps_rising = level >= limits.swing * typical(x[len(x) // QUARTERS : len(x) // 2])
    if has_fallen or keeps_rising:
        return None
    step = int(case.loss.steps[len(x) // 2])
    return _oscillating(
        case,
        f"The loss began at {num(began)}; from {case.unit} {step} on it swings around "
        f"{num(level)}, mostly between {num(low)} and {num(high)}: worse than an untrained model.",
        {"first_loss": began, "level": level, "low": low, "high": high},
    )


def _is_cyclic(case: Case) -> bool:
    """Return True if the learning rate itself goes up and down, as with warm restarts."""
    rises = np.diff(case.history.finite("lr").values) > 0
    return int((rises[1:] & ~rises[:-1]).sum()) > 1


def _oscillating(case: Case, because: str, measured: dict[str, float]) -> Evidence:
    lr = case.history.finite("lr")
    logged = float(lr.values.max()) if len(lr) else case.manifest.peak_lr
    peak = logged or None
    to = lowered(case, peak, FAR_RATIO) if peak else None
    divide = "Divide the peak learning rate by 5"
    if peak and to:
        verb = divide if to == typed(peak / FAR_RATIO) else "Lower the peak learning rate"
        divide = f"{verb} (from {num(peak)} to {num(to)})"
    return Evidence(
        because=because,
        step=int(case.loss.steps[0]),
        measured=measured,
        first=Action(
            Do.LOWER_LR,
            f"{divide} and restart with a warm-up.",
            also=(Do.ADD_WARMUP,),
            setting="peak_lr",
            from_=peak,
            to=to,
        ),
        next_actions=(
            *loss_oscillating.next_actions,
            clip_action(case),
        ),
    )


@Symptom(
    slug="plateau-early",
    title="The loss went flat above its target",
    needs=("loss", "manifest.target_loss"),
    explained_by=("nan", "divergence"),
    preconditions=(few_trained,),
    next_actions=(
        Action(Do.LOG_MORE, "Log each layer's gradient norm to see whether it vanishes early on."),
        Action(Do.CHANGE_MODEL, "Train a larger model: if it gets lower, capacity is the limit."),
    ),
)
def plateau_early(case: Case) -> Evidence | None:
    """Did the loss fall and then go flat far above the manifest's target?"""
    after, target = losses_after_warmup(case), case.manifest.target_loss
    level = levels(after.values, TWENTIETHS)
    last = float(level[-1])
    fallen = float(after.values[0]) - last
    flat = flat_part(level, fallen) <= TENTHS
    if target is None or last <= case.limits.learning.above_target * target:
        return None
    if not flat or fallen <= 0:
        return None
    step = int(after.steps[len(after) // 2])
    return Evidence(
        because=f"The loss is flat at {num(last)} from {case.unit} {step} on; the manifest's "
        f"target is {num(target)}.",
        step=step,
        measured={"loss": last, "target_loss": target},
        first=Action(
            Do.STOP_EARLY,
            f"Stop the run and check the learning rate at {case.unit} {step}: it may have decayed "
            "too early or be too low.",
            also=(Do.FIX_SCHEDULE,),
            step=step,
        ),
    )


@Symptom(
    slug="too-good",
    title="The loss is too good to be true",
    needs=("loss", "manifest.vocab_size or eval_accuracy"),
    explained_by=("nan",),
    preconditions=(at_least(TENTHS, "loss"), partial(no_distance, to_zero=True)),
    next_actions=(
        Action(Do.CHECK_EVALUATION, "Evaluate on data that no part of the pipeline has touched."),
        Action(Do.INSPECT_DATA, "Count how often each example is seen: small sets are memorized."),
    ),
)
def too_good(case: Case) -> Evidence | None:
    """Has the loss of a language model gone to nearly zero, or is every evaluation perfect?"""
    return _near_zero_loss(case) or _near_zero_evaluation(case) or _always_perfect(case)


def _near_zero_evaluation(case: Case) -> Evidence | None:
    """Report evaluations that leave next to no loss, for any number of classes.

    Real data have wrong labels and ambiguous examples; only an algorithm, such as an addition, is
    learned without any error.
    """
    chance, heldout = chance_loss(case), case.history.finite("eval_loss")
    if chance is None or len(heldout) < case.limits.generalization.min_evaluations:
        return None
    last, begun = evaluation_level(heldout.values), float(case.loss.values[0])
    least = case.limits.learning.suspicious_loss * TENTH * chance
    # The mean of a first epoch may be low although the model was untrained.
    is_pretrained = case.names_pretrained_model or (
        not case.history.counts_epochs and begun < chance / 2
    )
    if last >= least or is_pretrained:
        return None
    step = int(heldout.steps[np.argmax(heldout.values < least)])
    return Evidence(
        severity=Severity.NOTE,
        title="The evaluation loss is too good to be true",
        because=f"The evaluation loss ends at {num(last)}, and the loss began at {num(begun)}. "
        f"Random guessing among {case.manifest.vocab_size} classes gives {num(chance)}; data with "
        "any wrong label or ambiguous example do not allow that.",
        step=step,
        measured={"first_loss": begun, "eval_loss": last, "log_k": chance},
        first=Action(
            Do.INSPECT_DATA,
            "Print one evaluation batch with its labels and check whether the inputs contain the "
            "label: unshifted targets, a mask that shows the future, a leaking feature.",
            also=(Do.CHECK_LABELS,),
        ),
    )


def _always_perfect(case: Case) -> Evidence | None:
    """Report a run whose evaluations are all perfect although the model had to learn.

    Few tasks are solved by the first evaluation. With a single class, or a label among the inputs,
    they are.
    """
    right = case.history.finite("eval_accuracy")
    loss, x = case.loss, right.values
    if len(right) < CONTEXT_POINTS or np.ptp(x) or x[0] not in (1, PERCENT):
        return None
    first, last = float(loss.values[0]), float(levels(loss.values, TENTHS)[-1])
    if starts_pretrained(case) or not from_the_start(case) or not 0 <= last < first / TENFOLD:
        return None
    step = int(right.steps[0])
    return Evidence(
        title="Every evaluation is perfect from the first one on",
        because=f"{right.column!r} is {num(float(x[0]))} at all {len(x)} evaluations, from "
        f"{case.unit} {step} to {int(right.steps[-1])}, and the loss went from {num(first)} to "
        f"{num(last)}: the task may be trivial.",
        step=step,
        measured={"first_loss": first, "loss": last, "evaluations": len(x)},
        severity=Severity.NOTE,
        first=Action(
            Do.CHECK_LABELS,
            "Count the labels of each class in the training and the evaluation data: if only one "
            "class occurs, every guess is right.",
            also=(Do.INSPECT_DATA,),
        ),
        next_actions=(
            Action(Do.INSPECT_DATA, "Check whether an input contains the label."),
            *too_good.next_actions,
        ),
    )


def _near_zero_loss(case: Case) -> Evidence | None:
    """Report a loss over a large vocabulary that went to nearly zero."""
    limits, classes = case.limits.learning, case.manifest.vocab_size or 0
    chance = chance_loss(case)
    if classes < limits.min_classes or chance is None:
        return None
    x = case.loss.values
    last = end_level(x)
    # A model that starts that low was trained before.
    if last >= limits.suspicious_loss * chance or x[0] < chance / 2:
        return None
    # A model that evaluates badly has memorized its data, which is another symptom.
    evaluated = case.history.finite("eval_loss").values
    if len(evaluated) and evaluated[-1] > TENFOLD * last:
        return None
    step = int(case.loss.steps[np.argmax(x < limits.suspicious_loss * chance)])
    return Evidence(
        because=f"The loss fell from {num(float(x[0]))} to {num(last)}, below "
        f"{limits.suspicious_loss:.0%} of chance level ({num(chance)} for {classes} classes), "
        f"first at {case.unit} {step}.",
        step=step,
        measured={"first_loss": float(x[0]), "loss": last, "log_k": chance},
        first=Action(
            Do.INSPECT_DATA,
            f"Print one batch of {case.unit} {step} with its labels and check whether the inputs "
            "contain the label: unshifted targets, a mask that shows the future, a leaking "
            "feature.",
            step=step,
        ),
    )
