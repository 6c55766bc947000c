"""Runs that do not learn: a constant loss, a loss at chance level, a loss that never falls."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from stabdiag.model.findings import Action, Severity
from stabdiag.model.findings import ActionKind as Do
from stabdiag.model.text import digits, num
from stabdiag.stats.levels import block_levels, levels
from stabdiag.stats.quantiles import diff_sigma, median
from stabdiag.symptoms.losses import (
    TENTHS,
    after_warmup,
    best_evaluation,
    changes_meaning,
    few_trained,
    from_the_start,
    has_ended,
    is_distance,
    rate_is_zero,
    trained,
)
from stabdiag.symptoms.rates import learning_slow, setting_off
from stabdiag.symptoms.symptom import FEW, Evidence, Symptom, at_least, too_few

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stabdiag.model.arrays import Floats
    from stabdiag.model.findings import Scalar
    from stabdiag.tree.case import Case

# A value with fewer digits may have been rounded.
_DIGITS = 4

# A loss that falls to 0 at once had more than this share of its first value just before.
_AT_ONCE = 0.1

# Between bursts a loss that learns nothing comes back to one level: this share of each half of the
# run lies there. Of healthy runs no more than a fifth of both halves lies at one level of chance.
_RESTS = 0.4

# Two is no usual number of classes: the losses of preferences and discriminators rest at log 2.
_USUAL_CLASSES = (10, 100, 1000)

# A network trained on noise ends up to three bands above chance: it follows the batches it saw.
_ABOVE_CHANCE = 3.0

# Nine in ten evaluations are better than the one before.
_ALL_ALONG = 0.9

# A fall by more than three standard errors is no noise.
_ERRORS = 3.0

# If the first k losses are all as low as a share p of the others, chance does that with p ** k.
_FIRST = (3, 5, 10)
_BY_CHANCE = 0.001

# An evaluation in the first twentieth of a run is one of a model that has hardly been trained.
_AT_FIRST = 0.05

# A loss that falls by less than a twentieth is one that a net reaches by memorising its batches.
_MEMORISED = 0.05

RANGE_TEST = Action(Do.TEST_LR, "Run a learning-rate range test: too low crawls, too high bounces.")
# With five losses in each tenth, the levels of tenths tell whether any of them fell.
_TOLD = 50

ONE_BATCH = Action(Do.TRY_SMALL, "Train on one batch alone: the loss has to go to zero.")


@dataclass(frozen=True, kw_only=True)
class Cause:
    """Why the log shows that no step changes the weights."""

    words: str
    first: Action
    then: tuple[Action, ...] = ()


def loss_constant(case: Case) -> Evidence | None:
    """Does the loss keep one value, to the last digit, up to the end of the log?"""
    x, steps = case.loss.values, case.loss.steps
    if len(x) < case.limits.learning.constant_points:
        return None
    changes = np.flatnonzero(x != x[-1])
    start = int(changes[-1]) + 1 if len(changes) else 0
    count, first = len(x) - start, int(steps[start])
    if count < case.limits.learning.constant_points:
        return None
    if x[-1] == 0:
        return _zero(case, start)
    if start and digits(_written(float(x[-1]))) < _DIGITS:
        return None
    which = f"the last {count}" if start else f"all {count}"
    return _without_learning(
        case,
        LOSS_CONSTANT,
        step=first,
        because=f"The loss is exactly {num(float(x[-1]))} at {which} logged points, from "
        f"{case.unit} {first} to {int(steps[-1])}",
        measured={"loss": float(x[-1]), "points": count},
        first=Action(
            Do.CHECK_MODEL,
            f"Check at {case.unit} {first} which parameters have requires_grad and are in the "
            "optimizer.",
            step=first,
        ),
    )


def _written(value: float) -> float:
    """Return a value as it was written: one stored in four bytes has no more digits than those."""
    short = np.float32(value)
    return float(str(short)) if short == value else value


def _zero(case: Case, start: int) -> Evidence | None:
    """Report a loss of 0, except one that came down gradually or belongs to a policy."""
    x, steps = case.loss.values, case.loss.steps
    # The loss of a policy whose advantages cancel is 0, and its gradients are not.
    has_gradients = bool(case.history.finite("grad_norm").values.any())
    if "reward" in case.history.series or (start == 0 and has_gradients):
        return None
    before = x[max(0, start - 5) : start]
    if len(before) and median(before) <= _AT_ONCE * x[0]:
        return None
    first, count = int(steps[start]), len(x) - start
    fell = {"before": median(before)} if len(before) else {}
    points = f"the last {count}" if fell else f"all {count}"
    was = f"; just before, it was {num(fell['before'])}" if fell else ""
    return Evidence(
        because=f"The loss is exactly 0 at {points} logged points, from {case.unit} {first} to "
        f"{int(steps[-1])}{was}.",
        step=first,
        measured={"loss": 0.0, "points": count, **fell},
        first=Action(
            Do.CHECK_LOSS_FUNCTION,
            f"Run the batch of {case.unit} {first} forward and print the loss: some loggers write "
            "0 for NaN, and a batch with all labels masked has no loss.",
        ),
        then=(
            Action(Do.CHECK_LABELS, "Count the labels of a batch that are not masked (-100)."),
            Action(
                Do.CHECK_LOSS_FUNCTION,
                "Look at the gradient norm: NaN if 0 stands for NaN, 0 if all labels are masked.",
            ),
            Action(Do.LOG_MORE, "Log the loss with more digits if it may be very small."),
        ),
    )


def _without_learning(
    case: Case,
    symptom: Symptom,
    *,
    step: int,
    because: str,
    measured: Mapping[str, Scalar],
    first: Action,
) -> Evidence:
    """Return the evidence for a loss that stands still, with what the log shows of the cause."""
    cause = _cause(case, step)
    if cause is None and (off := setting_off(case)) is not None:
        words, change = off
        return Evidence(
            because=f"{because}. {words}",
            step=step,
            measured=measured,
            first=change,
            then=(first, *symptom.then),
        )
    if cause is None:
        return Evidence(because=f"{because}.", step=step, measured=measured, first=first)
    # A learning rate of 0 can be neither too high nor too low.
    settings = (Do.LOWER_LR, Do.TEST_LR) if rate_is_zero(case, step) else ()
    return Evidence(
        because=f"{because}; {cause.words} all that time.",
        step=step,
        measured=measured,
        first=cause.first,
        then=(*cause.then, first, *(one for one in symptom.then if one.kind not in settings)),
    )


def _cause(case: Case, since: int) -> Cause | None:
    if rate_is_zero(case, since):
        return Cause(
            words="the learning rate is 0",
            first=Action(
                Do.FIX_SCHEDULE,
                "Find out what sets the learning rate to 0: no step changes the weights.",
            ),
            then=(Action(Do.LOG_MORE, "Log the learning rate with more digits if it is small."),),
        )
    norm = _unchanged_norm(case)
    if norm is not None or _held_out_is_constant(case):
        same = "every evaluation is the same" if norm is None else f"the weight norm is {num(norm)}"
        first = Action(
            Do.CHECK_MODEL,
            "Check that the optimizer steps and holds the trained parameters: no weight changes.",
        )
        scale = case.history.finite("loss_scale").values
        skipped = Action(
            Do.DYNAMIC_LOSS_SCALE,
            "In fp16, let the loss scale adapt (torch.amp.GradScaler), or switch to bf16: a step "
            "whose gradients overflow is skipped.",
            also=(Do.CHANGE_DTYPE,),
        )
        if case.manifest.dtype == "fp16" and len(scale) and not np.ptp(scale):
            told = f"{same} in fp16, under a loss scale of {num(float(scale[0]))}"
            return Cause(words=told, first=skipped, then=(first,))
        return Cause(words=same, first=first, then=() if case.manifest.dtype else (skipped,))
    if not case.history.without_gradient:
        return None
    first = Action(
        Do.CHECK_MODEL,
        "Find out why no gradient reaches the weights: print the gradient norm of each parameter.",
    )
    if case.manifest.dtype == "fp16":
        first = Action(
            Do.DYNAMIC_LOSS_SCALE,
            "Scale the loss (torch.amp.GradScaler), or switch to bf16: small gradients become 0 in "
            "fp16.",
            also=(Do.CHANGE_DTYPE,),
        )
    return Cause(words="the logged gradient norm is 0", first=first)


def _unchanged_norm(case: Case) -> float | None:
    """Return the largest weight norm, if every logged one is the same in every record."""
    norms = [series.finite().values for series in case.history.group("weight_norm").values()]
    still = [len(x) > FEW and not np.ptp(x) and digits(float(x[0])) >= _DIGITS for x in norms]
    return max(float(x[0]) for x in norms) if norms and all(still) else None


LOSS_CONSTANT = Symptom(
    slug="loss-constant",
    severity=Severity.ERROR,
    family="learning",
    title="The loss does not change at all",
    check=loss_constant,
    needs=("loss",),
    limits=("learning.constant_points",),
    explained_by=("nan", "divergence", "loss-scale"),
    enough=(at_least("learning.constant_points", "loss"),),
    then=(
        Action(Do.CHECK_MODEL, "Look for a detach(), no_grad() or .item() between model and loss."),
        Action(Do.CHECK_MODEL, "Check that the optimizer steps."),
        ONE_BATCH,
    ),
)


def plateau_at_chance(case: Case) -> Evidence | None:
    """Does the loss stay at the logarithm of the number of classes?"""
    after = trained(case)
    if after is None:
        return None
    band, told = case.limits.learning.chance_band, case.manifest.vocab_size
    late = levels(after.values, TENTHS)[1:]
    above = _ABOVE_CHANCE * band if told else band
    for classes in (told,) if told else _USUAL_CLASSES:
        chance = math.log(classes)
        if told and _only_memorised(case, chance, late):
            break
        low = chance * (1 - band)
        settled = late.max() <= chance * (1 + above)
        if late.min() >= low and (settled or _returns_to(after.values, chance, band)):
            break
    else:
        return None
    if best_evaluation(case) < chance * (1 - 2 * band):
        return None
    # A loss that falls all along, however slowly, is not stuck, unless it only memorises.
    evaluated = np.diff(case.history.finite("eval_loss").values)
    generalises = len(evaluated) > 0 and (evaluated < 0).mean() >= _ALL_ALONG
    memorised = _only_memorised(case, chance, late) and not generalises
    if not memorised and learning_slow(case) is not None:
        return None
    first, last = int(after.steps[0]), int(after.steps[-1])
    whose = "the manifest's" if told else "as in usual benchmarks,"
    return _without_learning(
        case,
        PLATEAU_AT_CHANCE,
        step=first,
        because=f"The loss is {num(float(late.max()))} to {num(float(late.min()))} (medians over "
        f"a tenth of the run) from {case.unit} {first} to {last}: guessing "
        f"among {whose} {classes} classes costs {num(chance)}",
        measured={"loss": float(late[-1]), "log_k": chance, "classes": classes},
        first=_small_test(chance),
    )


def _returns_to(x: Floats, level: float, band: float) -> bool:
    """Tell whether the loss comes back to a level after each burst, from beginning to end."""
    near = np.abs(x - level) <= band * level
    return all(half.mean() >= _RESTS for half in np.array_split(near, 2))


def _small_test(level: float) -> Action:
    """Return a test whose result tells the model and the rate from the labels and the data."""
    return Action(
        Do.TRY_SMALL,
        f"Train on 32 examples alone. If their loss stays near {num(level)}, check the gradients "
        "and the learning rate. If it falls to nearly zero, the model learns: print 20 examples "
        "with their labels.",
        also=(Do.CHECK_MODEL, Do.CHECK_LABELS),
    )


def _only_memorised(case: Case, chance: float, late: Floats) -> bool:
    """Tell whether no evaluation was ever better than chance, and the loss is little better."""
    held = case.history.finite("eval_loss").values
    if len(held) < case.limits.generalisation.min_evaluations or not has_ended(case):
        return False
    limits = case.limits.learning
    at_chance = float(held.min()) >= chance * (1 - limits.chance_band)
    near = float(held[-1]) <= chance * (1 + _MEMORISED)
    return at_chance and near and bool(late.min() >= chance * limits.hardly)


PLATEAU_AT_CHANCE = Symptom(
    slug="plateau-at-chance",
    severity=Severity.ERROR,
    family="learning",
    title="The loss is stuck at chance level",
    check=plateau_at_chance,
    needs=("loss",),
    limits=(
        *("learning.chance_band", "learning.hardly", "learning.min_points", "learning.min_steps"),
        "learning.min_steps_ended",
    ),
    explained_by=("nan",),
    enough=(few_trained,),
    then=(
        Action(Do.CHECK_LABELS, "Check that labels match their inputs and are not all one class."),
        Action(Do.CHECK_LOSS_FUNCTION, "Check the loss: reduction, mask, shift of the targets."),
        Action(Do.CHECK_MODEL, "Check requires_grad, and that the optimizer has the parameters."),
        Action(Do.LOWER_LR, "Divide the learning rate by 10: far too high also ends at chance."),
    ),
)


def not_learning(case: Case) -> Evidence | None:
    """Has the loss not fallen at all, at a level other than chance?"""
    if not is_distance(case) or not from_the_start(case) or changes_meaning(case):
        return None
    if plateau_at_chance(case) is not None or loss_constant(case) is not None:
        return None
    x, steps = case.loss.values, case.loss.steps
    least = case.limits.learning.least_fall
    if best_evaluation(case) < float(x[0]) * (1 - 2 * least):
        return None
    begin, tenths = num(float(x[0])), levels(x, TENTHS)
    measured = {"first_loss": float(x[0]), "last_loss": float(tenths[-1])}
    because = (
        f"The loss began at {begin} and is {num(float(tenths[-1]))} after {int(steps[-1])} "
        f"{case.unit}s; no tenth of the run has a median below {num(float(tenths.min()))}"
    )
    still = _stands_still(case)
    if not still and _rose_at_once(case):
        return Evidence(
            because=f"{because}: it rose in the first steps.",
            step=int(steps[0]),
            measured=measured,
            first=Action(
                Do.LOWER_LR,
                "Start again with a tenth of the learning rate and a longer warm-up: the first "
                "steps made the model worse than untrained.",
                also=(Do.ADD_WARMUP,),
                checkpoint=0,
            ),
            then=(
                ONE_BATCH,
                Action(
                    Do.CHECK_LOSS_FUNCTION,
                    "Check the sign of the loss, and that gradients are zeroed before each step.",
                ),
                RANGE_TEST,
            ),
        )
    if not still and not _never_fell(case) and not _held_out_never_fell(case):
        return None
    return _without_learning(
        case,
        NOT_LEARNING,
        step=int(steps[0]),
        because=because,
        measured=measured,
        first=_small_test(float(x[0])),
    )


def _stands_still(case: Case) -> bool:
    """Tell whether the log shows that no step changes the weights, and the loss does not fall.

    A logged rate of 0 may have been rounded: a loss that falls proves it.
    """
    x = case.loss.values
    if len(x) <= FEW:
        return False
    if (
        not rate_is_zero(case, int(case.loss.steps[0]))
        and _unchanged_norm(case) is None
        and not _held_out_is_constant(case)
    ):
        return False
    early, late = x[: len(x) // 2], x[len(x) // 2 :]
    error = diff_sigma(x) * float(np.sqrt(1 / len(early) + 1 / len(late)))
    least = case.limits.learning.least_fall * float(early.mean())
    return float(early.mean() - late.mean()) <= max(least, _ERRORS * error)


def _held_out_is_constant(case: Case) -> bool:
    """Tell whether all evaluations are the same to the last digit."""
    held = case.history.finite("eval_loss").values
    enough = len(held) >= case.limits.generalisation.min_evaluations
    return bool(enough and not np.ptp(held) and digits(float(held[0])) >= _DIGITS)


def _rose_at_once(case: Case) -> bool:
    """Tell whether the first losses are lower than nearly all that follow, not by chance."""
    after, x = trained(case), case.loss.values
    return after is not None and any(
        float((x[k:] <= x[:k].max()).mean()) ** k < _BY_CHANCE for k in _FIRST if len(x) > 2 * k
    )


def _never_fell(case: Case) -> bool:
    """Tell whether no tenth of the log lies below the first tenth or the first three losses."""
    if _few_losses(case):
        return False
    x, least = case.loss.values, case.limits.learning.least_fall
    tenths, _ = block_levels(x, len(x) // TENTHS)
    noise = _ERRORS * diff_sigma(x) / (len(x) // TENTHS) ** 0.5
    first = float(tenths[0])
    began = max(first, median(x[:3]) - noise)
    return bool(began - float(tenths.min()) <= min(noise, 2 * least * first))


def _held_out_never_fell(case: Case) -> bool:
    """Tell whether a run ended with evaluations no better than the first, and the same losses."""
    held, x, learning = case.history.finite("eval_loss"), case.loss.values, case.limits.learning
    if len(held) < case.limits.generalisation.min_evaluations or few_trained(case):
        return False
    first, last = int(case.loss.steps[0]), int(case.loss.steps[-1])
    if not has_ended(case) or int(held.steps[0]) - first > _AT_FIRST * (last - first):
        return False
    begun, tenths = float(held.values[0]), levels(x, TENTHS)
    gained = begun - float(held.values.min())
    same = float(tenths[-1]) >= (1 - _MEMORISED) * float(tenths[0])
    return same and gained <= learning.least_fall * begun


def _few_losses(case: Case) -> str:
    """Return why a loss that never fell cannot be recognised here, or ""."""
    if not is_distance(case):
        return "takes a loss that tells how far a run is from its end"
    if not from_the_start(case):
        return "takes the beginning of the run"
    if changes_meaning(case):
        return "takes a loss that is measured alike throughout"
    after, count = len(after_warmup(case)), len(case.loss)
    if count < _TOLD:
        return too_few(_TOLD, f"{count} of loss")
    span = int(np.ptp(case.loss.steps)) + case.stride
    if not case.history.counts_epochs and span < case.limits.learning.min_steps_ended:
        return f"takes {case.limits.learning.min_steps_ended} {case.unit}s, logged: {span:.0f}"
    return "" if 2 * after >= count else f"takes half of the losses after the warm-up, not {after}"


NOT_LEARNING = Symptom(
    slug="not-learning",
    family="learning",
    title="The loss does not fall",
    check=not_learning,
    needs=("loss",),
    limits=(
        *("learning.least_fall", "learning.min_points", "learning.min_steps"),
        "learning.min_steps_ended",
    ),
    explained_by=("nan", "divergence", "loss-scale", "spike-persistent", "spike-unresolved"),
    enough=(_few_losses,),
    then=(
        RANGE_TEST,
        Action(Do.CHECK_LABELS, "Check for shuffled labels, shifted targets and a wrong mask."),
        Action(Do.CHECK_MODEL, "Check requires_grad, and that the optimizer has all parameters."),
        Action(Do.CHECK_MODEL, "Check the initialisation and normalisation; regularise less."),
    ),
)
