"""A loss that is stuck at what guessing costs: by the number of classes, or by the accuracy."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from stabdiag.model.arrays import Floats
from stabdiag.model.findings import Action, Severity
from stabdiag.model.findings import ActionKind as Do
from stabdiag.model.frozen import frozen
from stabdiag.model.text import num
from stabdiag.stats.levels import MIN_CONSECUTIVE, beginning, levels
from stabdiag.stats.quantiles import MIN_SAMPLE, median
from stabdiag.symptoms.losses import (
    HARDLY,
    TENTHS,
    TWENTIETHS,
    USUAL_CLASSES,
    after_warmup,
    best_evaluation,
    few_trained,
    has_ended,
    no_distance,
    small_test,
)
from stabdiag.symptoms.rates import learning_slow, lower_rate
from stabdiag.symptoms.stuck import without_learning
from stabdiag.symptoms.symptom import Evidence, Symptom
from stabdiag.tree.case import Case
from stabdiag.tree.pretraining import has_chance_level

# Between bursts a loss that learns nothing comes back to one level: this share of each half of the
# run lies there. Of healthy runs no more than a fifth of both halves lies at one level of chance.
_RESTS = 0.4

# A network trained on noise ends up to three bands above chance: it follows the batches it saw.
_ABOVE_CHANCE = 3.0

# A guess among K classes is right in 1/K of the examples, give or take a quarter of a few hundred.
_GUESSED = 0.25


@frozen
class Guess:
    """Losses that are what guessing costs.

    ``late`` are the levels that are, ``told`` which losses these are, from one step to another;
    ``guess`` is what guess it is, among how many ``classes``, 0 if that is unknown, and
    ``cost`` what it costs.
    """

    late: Floats
    first: int
    last: int
    told: str
    guess: str
    classes: int
    cost: float


def _few(case: Case) -> str:
    """Return why the losses are too few to show a guess, or ""; accuracies show it sooner.

    With a known number of classes the level is enough, also without the beginning of the run.
    """
    if _by_accuracy(case):
        return ""
    return few_trained(case, needs_start=case.manifest.vocab_size is None)


@Symptom(
    slug="plateau-at-chance",
    severity=Severity.ERROR,
    family="learning",
    title="The loss is stuck at chance level",
    needs=("loss",),
    explained_by=("nan",),
    enough=(_few,),
    then=(
        Action(Do.CHECK_LABELS, "Check that labels match their inputs and are not all one class."),
        Action(Do.CHECK_LOSS_FUNCTION, "Check the loss: reduction, mask, shift of the targets."),
        Action(Do.CHECK_MODEL, "Check requires_grad, and that the optimizer has the parameters."),
        Action(Do.LOWER_LR, "Divide the learning rate by 10: far too high also ends at chance."),
    ),
)
def plateau_at_chance(case: Case) -> Evidence | None:
    """Does the loss stay at what guessing costs?"""
    few = few_trained(case, needs_start=case.manifest.vocab_size is None)
    guess = _by_accuracy(case) or (None if few else _by_classes(case))
    if guess is None:
        return None
    evidence = without_learning(
        case,
        plateau_at_chance,
        step=guess.first,
        because=f"{guess.told}: {guess.guess} costs {num(guess.cost)}",
        measured={"loss": float(guess.late[-1]), "log_k": guess.cost}
        | ({"classes": guess.classes} if guess.classes else {}),
        first=lower_rate(case) if _jumped(case, guess.cost) else small_test(guess.cost),
    )
    then = plateau_at_chance.then if evidence.then is None else evidence.then
    return replace(
        evidence,
        then=tuple(one for one in then if one.kind is not evidence.first.kind),
        severity=Severity.WARNING if few else None,
    )


def _by_classes(case: Case) -> Guess | None:
    """Return the guess among a number of classes that the losses after the warm-up cost."""
    if not has_chance_level(case):
        return None
    after = after_warmup(case)
    band, told = case.limits.learning.chance_band, case.manifest.vocab_size
    late = levels(after.values, TENTHS)[1:]
    above = _ABOVE_CHANCE * band if told else band
    for classes in (told,) if told else USUAL_CLASSES:
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
    generalises = len(evaluated) > 0 and bool((evaluated < 0).all())
    memorised = _only_memorised(case, chance, late) and not generalises
    if not memorised and learning_slow.found(case):
        return None
    first, last = int(after.steps[0]), int(after.steps[-1])
    whose = "of the manifest" if told else "(a common number; the manifest gives none)"
    return Guess(
        late=late,
        first=first,
        last=last,
        told=f"The loss is {num(float(late.max()))} to {num(float(late.min()))} (medians over a "
        f"tenth of the run) from {case.unit} {first} to {last}",
        guess=f"guessing among {classes} classes {whose}",
        classes=classes,
        cost=chance,
    )


def _by_accuracy(case: Case) -> Guess | None:
    """Return the guess that losses and the accuracies logged with them show from midway on."""
    if no_distance(case):
        return None
    for name, role in (("eval_loss", "eval_accuracy"), ("loss", "accuracy")):
        loss, accuracy = case.history.finite(name), case.history.finite(role)
        if (
            len(accuracy) < MIN_CONSECUTIVE
        ):  # to look for what they share takes three times the memory
            continue
        steps, at, beside = np.intersect1d(
            loss.steps, accuracy.steps, assume_unique=True, return_indices=True
        )
        if len(steps) < MIN_CONSECUTIVE:
            continue
        parts = levels(loss.values[at], TENTHS)
        count = max(MIN_CONSECUTIVE, len(parts) // 2)
        late, since = parts[-count:], len(steps) - count * (len(steps) // len(parts))
        shares = accuracy.values[beside]
        shares = shares / 100 if shares.max() > 1 else shares
        # A loss beside an accuracy that never moves only has to be near what the guess costs.
        moves = bool(np.ptp(shares))
        band = case.limits.learning.chance_band if moves else HARDLY
        shares = shares[since:]
        found = _guess(case, late, shares, band)
        if found is None and not moves and len(steps) >= MIN_SAMPLE:
            found = _one_class(case, late, median(shares))
        if found is None or _learned(case, found[1], late, band):
            continue
        classes, cost, guess = found
        first, last = int(steps[since]), int(steps[-1])
        which = "evaluation loss" if name == "eval_loss" else "loss"
        return Guess(
            late=late,
            first=first,
            last=last,
            told=f"The {which} is {num(float(late.max()))} to {num(float(late.min()))} and the "
            f"accuracy {num(median(shares))} from {case.unit} {first} to {last}",
            guess=guess,
            classes=classes,
            cost=cost,
        )
    return None


def _learned(case: Case, cost: float, late: Floats, band: float) -> bool:
    """Tell whether anything is better than a guess, or becomes better from each time to the next.

    What comes down from a jump far above chance only comes back to it.
    """
    training = median(case.loss.values[len(case.loss) // 2 :])
    held = best_evaluation(case) < cost * (1 - 2 * band)
    falls = bool((np.diff(late) < 0).all()) and not _jumped(case, cost)
    return falls or held or training < cost * (1 - HARDLY)


def _jumped(case: Case, cost: float) -> bool:
    """Tell whether the loss stood far above chance before it came there."""
    x = case.loss.values
    # The loss of one batch may be far off; the mean of an epoch is not.
    highest = float((x if case.history.counts_epochs else levels(x, TWENTIETHS)).max())
    return highest > case.limits.learning.above_start * cost


def _guess(case: Case, late: Floats, shares: Floats, band: float) -> tuple[int, float, str] | None:
    """Return the guess that costs these losses and is right in these shares of the examples.

    One among K classes costs log K. Always to name the more frequent of two classes costs the
    entropy of their shares, and the share that is right is always the same.
    """
    right = median(shares)
    if not np.ptp(shares) and 0.5 < right < 1 and _is_at(_entropy(right), late, band):
        return 2, _entropy(right), "always naming the more frequent of two classes"
    if abs(right * np.exp(median(late)) - 1) <= _GUESSED:
        classes = case.manifest.vocab_size or round(math.exp(median(late)))
        if classes > 1 and _is_at(math.log(classes), late, band):
            return classes, math.log(classes), f"guessing among {classes} classes"
    return None


def _one_class(case: Case, late: Floats, right: float) -> tuple[int, float, str] | None:
    """Return the guess of a model that learned one of several classes to name each time.

    The loss fell, and no answer changed. The guess costs the entropy of the share that is right at
    least, and in training it costs the same.
    """
    level, x = median(late), case.loss.values
    apart = float(np.abs(np.append(late, median(x[len(x) // 2 :])) - level).max())
    begun = beginning(x) if case.history.counts_epochs else float(levels(x, TENTHS)[0])
    costs = 0 < right < 1 and float(late.min()) >= _entropy(right)
    if not costs or apart > HARDLY * level or level > (1 - HARDLY) * begun:
        return None
    return case.manifest.vocab_size or 0, level, "always naming the same of several classes"


def _entropy(share: float) -> float:
    """Return what it costs to tell an example of a share from all others, in nats."""
    return -share * math.log(share) - (1 - share) * math.log(1 - share)


def _is_at(chance: float, late: Floats, band: float) -> bool:
    """Tell whether losses are at a level of chance, but for some that lie above."""
    usual = median(late)
    return bool(late.min() >= chance * (1 - band) and usual <= chance * (1 + _ABOVE_CHANCE * band))


def _returns_to(x: Floats, level: float, band: float) -> bool:
    """Tell whether the loss comes back to a level after each burst, from beginning to end."""
    near = np.abs(x - level) <= band * level
    return all(half.mean() >= _RESTS for half in np.array_split(near, 2))


def _only_memorised(case: Case, chance: float, late: Floats) -> bool:
    """Tell whether no evaluation was ever better than chance, and the loss is little better."""
    held = case.history.finite("eval_loss").values
    if len(held) < case.limits.generalisation.min_evaluations or not has_ended(case):
        return False
    limits = case.limits.learning
    at_chance = float(held.min()) >= chance * (1 - limits.chance_band)
    near = float(held[-1]) <= chance * (1 + HARDLY)
    return at_chance and near and bool(late.min() >= chance * limits.memorized_fraction)
