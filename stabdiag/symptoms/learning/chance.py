"""A loss stuck at the level of guessing, given the classes, the accuracy or the targets."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import reduce

import numpy as np

from stabdiag.model.arrays import Floats
from stabdiag.model.findings import Action, Severity
from stabdiag.model.findings import ActionKind as Do
from stabdiag.model.frozen import frozen
from stabdiag.model.roles.scores import full_scale
from stabdiag.model.text import num, number_range
from stabdiag.stats.course import beginning, highest_level, late_level
from stabdiag.stats.levels import levels
from stabdiag.stats.quantiles import median
from stabdiag.stats.standards import (
    MIN_CONSECUTIVE,
    MIN_LONG_LOG,
    MIN_SAMPLE,
    NEARLY_ALL,
    NEGLIGIBLE,
    QUARTER,
    RELATIVE_TOLERANCE,
    TENTHS,
)
from stabdiag.symptoms.gradients.layers import grad_vanishing_by_depth
from stabdiag.symptoms.learning.causes import without_learning
from stabdiag.symptoms.learning.rate_fixes import lower_rate
from stabdiag.symptoms.learning.rates import learning_slow
from stabdiag.symptoms.losses import (
    RANGE_TEST,
    best_evaluation,
    few_trained,
    has_ended,
    losses_after_warmup,
    no_distance,
    small_test,
)
from stabdiag.symptoms.symptom import Evidence, Symptom
from stabdiag.symptoms.weights.weight_norms import weight_norm_shrinking
from stabdiag.tree.advice.rates import highest_usual_rate, peak_rate
from stabdiag.tree.case import Case
from stabdiag.tree.pretraining import USUAL_CLASSES, has_chance_level

# Between bursts, the loss of a model that learns nothing returns to one level: this fraction of
# each half of the run is there. In healthy runs it is at most a fifth of both halves.
_RESTS = 0.4

# A network trained on noise ends up to three bands above chance, because it follows its batches.
_ABOVE_CHANCE = 3.0

# A guess among K classes is right for 1/K of the examples, within a quarter of that for a few
# hundred examples.
_GUESSED = QUARTER


@frozen
class Guess:
    """Losses at the level of a guess.

    Attributes:
        late: the levels of the loss that match the guess.
        first: the first step of these levels.
        description: the losses and their range of steps, as a clause.
        guess: the kind of guess, as a noun phrase.
        classes: the number of classes, 0 if unknown.
        cost: the expected loss of the guess.
        is_of_numbers: whether the targets are numbers, not classes.
    """

    late: Floats
    first: int
    description: str
    guess: str
    classes: int
    cost: float
    is_of_numbers: bool = False


def _too_few_losses(case: Case) -> str:
    """Return the reason why there are too few losses to recognize a guess, or "".

    Accuracies need fewer. If the number of classes is known, the level is sufficient, even without
    the beginning of the run.
    """
    if _by_accuracy(case):
        return ""
    return few_trained(case, needs_start=case.manifest.vocab_size is None)


@Symptom(
    slug="plateau-at-chance",
    severity=Severity.ERROR,
    title="The loss is stuck at chance level",
    needs=("loss",),
    explained_by=("nan",),
    preconditions=(_too_few_losses,),
    next_actions=(
        Action(Do.CHECK_LABELS, "Check that labels match their inputs and are not all one class."),
        Action(Do.CHECK_LOSS_FUNCTION, "Check the loss: reduction, mask, shift of the targets."),
        Action(Do.CHECK_MODEL, "Check requires_grad, and that the optimizer has the parameters."),
        Action(Do.LOWER_LR, "Divide the learning rate by 10: far too high also ends at chance."),
    ),
)
def plateau_at_chance(case: Case) -> Evidence | None:
    """Does the loss stay at the level of random guessing?"""
    too_few = few_trained(case, needs_start=case.manifest.vocab_size is None)
    guess = _by_accuracy(case)
    if guess is None and not too_few:
        guess = _by_classes(case) or _by_targets(case)
    if guess is None:
        return None
    evidence = without_learning(
        case,
        plateau_at_chance,
        step=guess.first,
        because=f"{guess.description}: {guess.guess} gives {num(guess.cost)}",
        measured={
            "loss": float(guess.late[-1]),
            "variance" if guess.is_of_numbers else "log_k": guess.cost,
        }
        | ({"classes": guess.classes} if guess.classes else {}),
        first=lower_rate(case)
        if _jumped(case, guess.cost)
        else _fix_of_layers(case) or small_test(guess.cost),
    )
    next_actions = (
        plateau_at_chance.next_actions if evidence.next_actions is None else evidence.next_actions
    )
    peak = peak_rate(case)
    # A rate that low is not far too high for any optimizer.
    is_low = peak is not None and peak <= RELATIVE_TOLERANCE * highest_usual_rate(case)
    unhelpful = {evidence.first.kind, *((Do.LOWER_LR,) if is_low else ())}
    return replace(
        evidence,
        next_actions=(
            *(action for action in next_actions if action.kind not in unhelpful),
            *((RANGE_TEST,) if is_low else ()),
        ),
        # Some targets are mostly noise: a return, a rare event.
        severity=Severity.WARNING if too_few or guess.is_of_numbers else None,
    )


def _fix_of_layers(case: Case) -> Action | None:
    """Return the action for weights that vanished, or gradients that do not reach the inputs."""
    evidence = weight_norm_shrinking.evidence(case) or grad_vanishing_by_depth.evidence(case)
    return None if evidence is None else evidence.first


def _by_targets(case: Case) -> Guess | None:
    """Return the guess of a regression whose squared error is the variance of its targets.

    Each batch then costs the mean squared distance of its targets from one constant.
    """
    deviation, mean = (case.history.finite(f"recorder/target_{name}") for name in ("std", "mean"))
    if min(len(deviation), len(mean)) < MIN_LONG_LOG:
        return None
    steps = reduce(np.intersect1d, (case.loss.steps, deviation.steps, mean.steps))
    if len(steps) < MIN_LONG_LOG:
        return None
    losses, spread, centers = (
        series.values[np.searchsorted(series.steps, steps)]
        for series in (case.loss, deviation, mean)
    )
    costs = spread**2 + (centers - centers.mean()) ** 2
    cost = float(costs.mean())
    since = len(steps) // 2
    with np.errstate(divide="ignore", invalid="ignore"):
        late = levels(losses[since:] / costs[since:], TENTHS)
    # Batches must follow their own targets: another loss may have the same mean by chance.
    follows = _correlation(losses[since:], costs[since:]) >= NEARLY_ALL
    is_guess = float(np.abs(late - 1).max()) <= NEGLIGIBLE
    if not follows or not is_guess or best_evaluation(case) < cost * (1 - 2 * NEGLIGIBLE):
        return None
    first, last = int(steps[since]), int(steps[-1])
    return Guess(
        late=late * cost,
        first=first,
        description="The loss of each batch is "
        f"{number_range(float(late.min()), float(late.max()))} times "
        f"the variance of its targets from {case.unit} {first} to {last}",
        guess="predicting the mean of the targets",
        classes=0,
        cost=cost,
        is_of_numbers=True,
    )


def _correlation(x: Floats, y: Floats) -> float:
    return float(np.corrcoef(x, y)[0, 1]) if np.ptp(x) > 0 and np.ptp(y) > 0 else 0.0


def _by_classes(case: Case) -> Guess | None:
    """Return the guess among K classes whose cost matches the losses after the warm-up."""
    if not has_chance_level(case):
        return None
    after = losses_after_warmup(case)
    band, configured = case.limits.learning.chance_band, case.manifest.vocab_size
    late = levels(after.values, TENTHS)[1:]
    above = _ABOVE_CHANCE * band if configured else band
    for classes in (configured,) if configured else USUAL_CLASSES:
        chance = math.log(classes)
        if configured and _only_memorized(case, chance, late):
            break
        low = chance * (1 - band)
        is_near = late.max() <= chance * (1 + above)
        if late.min() >= low and (is_near or _returns_to_level(after.values, chance, band)):
            break
    else:
        return None
    if best_evaluation(case) < chance * (1 - 2 * band):
        return None
    # A loss that falls throughout, however slowly, is not stuck, unless the model only memorizes.
    evaluated = np.diff(case.history.finite("eval_loss").values)
    generalizes = len(evaluated) > 0 and bool((evaluated < 0).all())
    memorized = _only_memorized(case, chance, late) and not generalizes
    if not memorized and learning_slow.evidence(case):
        return None
    first, last = int(after.steps[0]), int(after.steps[-1])
    source = "" if configured else " (class count assumed; set it with --set vocab_size=N)"
    return Guess(
        late=late,
        first=first,
        description=f"The loss is {_span(late)} (medians over a tenth of the run) from "
        f"{case.unit} {first} to {last}",
        guess=f"random guessing among {classes} classes{source}",
        classes=classes,
        cost=chance,
    )


def _by_accuracy(case: Case) -> Guess | None:
    """Return the guess that losses and accuracies match in the second half of the run."""
    if no_distance(case):
        return None
    pairs = [("eval_loss", "eval_accuracy"), ("loss", "accuracy")]
    if not len(case.history.finite("eval_loss")):
        pairs.append(("loss", "eval_accuracy"))
    for name, role in pairs:
        loss, accuracy = case.history.finite(name), case.history.finite(role)
        # Skip the intersection, which needs three times the memory.
        if len(accuracy) < MIN_CONSECUTIVE:
            continue
        steps, loss_indices, accuracy_indices = np.intersect1d(
            loss.steps, accuracy.steps, assume_unique=True, return_indices=True
        )
        if len(steps) < MIN_CONSECUTIVE:
            continue
        parts = levels(loss.values[loss_indices], TENTHS)
        count = max(MIN_CONSECUTIVE, len(parts) // 2)
        late, since = parts[-count:], len(steps) - count * (len(steps) // len(parts))
        fractions = accuracy.values[accuracy_indices]
        fractions = fractions / full_scale(fractions.max())
        # If the accuracy never changes, the loss only has to be near the cost of the guess.
        moves = bool(np.ptp(fractions))
        band = case.limits.learning.chance_band if moves else NEGLIGIBLE
        fractions = fractions[since:]
        match = _guess(case, late, fractions, band)
        if match is None and not moves and len(steps) >= MIN_SAMPLE:
            match = _one_class(case, late, median(fractions))
        if match is None or _learned(case, match[1], late, band):
            continue
        classes, cost, guess = match
        first, last = int(steps[since]), int(steps[-1])
        loss_name = "evaluation loss" if name == "eval_loss" else "loss"
        return Guess(
            late=late,
            first=first,
            description=f"The {loss_name} is {_span(late)} and the accuracy "
            f"{num(median(fractions))} from {case.unit} {first} to {last}",
            guess=guess,
            classes=classes,
            cost=cost,
        )
    return None


def _span(late: Floats) -> str:
    """Return the highest and the lowest level, or one figure if they look the same."""
    high, low = num(float(late.max())), num(float(late.min()))
    return high if high == low else f"{high} to {low}"


def _learned(case: Case, cost: float, late: Floats, band: float) -> bool:
    """Return True if a loss is better than the guess, or falls at every level.

    A loss that falls from a jump far above chance only returns to chance.
    """
    training = late_level(case.loss.values)
    generalizes = best_evaluation(case) < cost * (1 - 2 * band)
    falls = bool((np.diff(late) < 0).all()) and not _jumped(case, cost)
    return falls or generalizes or training < cost * (1 - NEGLIGIBLE)


def _jumped(case: Case, cost: float) -> bool:
    """Return True if the loss was far above chance before it settled there."""
    x = case.loss.values
    # The loss of one batch may be far off; the mean of an epoch is not.
    highest = float(x.max()) if case.history.counts_epochs else highest_level(x)
    return highest > case.limits.learning.above_start * cost


def _guess(
    case: Case, late: Floats, fractions: Floats, band: float
) -> tuple[int, float, str] | None:
    """Return the guess that gives these losses and these fractions of right answers.

    A guess among K classes costs log K. A model that always predicts the more frequent of two
    classes has the entropy of their frequencies as its loss, and a constant accuracy.
    """
    right = median(fractions)
    if not np.ptp(fractions) and 0.5 < right < 1 and _is_close(_entropy(right), late, band):
        return 2, _entropy(right), "always predicting the more frequent of two classes"
    if abs(right * np.exp(median(late)) - 1) <= _GUESSED:
        classes = case.manifest.vocab_size or round(math.exp(median(late)))
        if classes > 1 and _is_close(math.log(classes), late, band):
            return classes, math.log(classes), f"random guessing among {classes} classes"
    return None


def _one_class(case: Case, late: Floats, right: float) -> tuple[int, float, str] | None:
    """Return the guess of a model that learned to predict one of several classes every time.

    The loss fell, but no answer changed. The loss is at least the entropy of the right fraction,
    not above the fraction of equally frequent classes, and the same in training.
    """
    level, x = median(late), case.loss.values
    classes = case.manifest.vocab_size
    if classes and level > math.log(classes) * (1 + NEGLIGIBLE):
        return None
    apart = float(np.abs(np.append(late, late_level(x)) - level).max())
    begun = beginning(x) if case.history.counts_epochs else float(levels(x, TENTHS)[0])
    costs = 0 < right < 1 and float(late.min()) >= _entropy(right)
    if not costs or apart > NEGLIGIBLE * level or level > (1 - NEGLIGIBLE) * begun:
        return None
    return classes or 0, level, "always predicting the same class"


def _entropy(p: float) -> float:
    """Return the entropy of a binary variable, in nats."""
    return -p * math.log(p) - (1 - p) * math.log(1 - p)


def _is_close(chance: float, late: Floats, band: float) -> bool:
    """Return True if losses are at a level of chance, apart from a few that are above."""
    usual = median(late)
    return bool(late.min() >= chance * (1 - band) and usual <= chance * (1 + _ABOVE_CHANCE * band))


def _returns_to_level(x: Floats, level: float, band: float) -> bool:
    """Return True if the loss returns to a level after each burst, from beginning to end."""
    is_at_level = np.abs(x - level) <= band * level
    return all(half.mean() >= _RESTS for half in np.array_split(is_at_level, 2))


def _only_memorized(case: Case, chance: float, late: Floats) -> bool:
    """Return True if no evaluation beat chance, and the loss is only slightly better."""
    heldout = case.history.finite("eval_loss").values
    if len(heldout) < case.limits.generalization.min_evaluations or not has_ended(case):
        return False
    limits = case.limits.learning
    at_chance = float(heldout.min()) >= chance * (1 - limits.chance_band)
    ends_at_chance = float(heldout[-1]) <= chance * (1 + NEGLIGIBLE)
    return at_chance and ends_at_chance and bool(late.min() >= chance * limits.memorized_fraction)
