"""The symptoms of a loss that stands still: constant, or at chance."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING

import numpy as np

from stabdiag.model.findings import Action, ActionKind, Severity
from stabdiag.model.text import digits, num
from stabdiag.stats.levels import levels
from stabdiag.symptoms.frozen import LOWER, STEPS, with_cause
from stabdiag.symptoms.losses import best_evaluation, chance, few_trained, trained
from stabdiag.symptoms.symptom import Evidence, Symptom, at_least
from stabdiag.symptoms.zero import zero

if TYPE_CHECKING:
    from stabdiag.model.arrays import Floats
    from stabdiag.tree.case import Case

# Numbers of classes by which a loss at chance is known where no manifest tells: those of the usual
# benchmarks. Two is not among them: the losses of preferences and of discriminators rest there.
_USUAL_CLASSES = (10, 100, 1000)

# A network that is trained on noise stays this many times the band above chance: it follows the
# batches it has seen. Where the manifest tells the number of classes, that is chance as well.
_ABOVE = 3.0

# A run is looked at in so many stretches.
STRETCHES = 10

# The losses of a run that ends flat differ by no more digits than these.
_FINE = 1e-4

# How finely they were written is told by so many of them.
_WRITTEN = 100

# One that never came below this share of its first value did not end flat, it stands still; with so
# many digits it is not merely rounded.
_STUCK = 0.5
_DIGITS = 3

ONE_BATCH = Action(ActionKind.TRY_SMALL, "Train on one batch alone: the loss has to go to zero.")


def loss_constant(case: Case) -> Evidence | None:
    """Is the loss one value to the last digit, up to the end of the log?"""
    x, steps = case.loss.values, case.loss.steps
    if len(x) < case.limits.learning.constant_points:
        return None
    changes = np.flatnonzero(x != x[-1])
    start = int(changes[-1]) + 1 if len(changes) else 0
    count = len(x) - start
    if count < case.limits.learning.constant_points:
        return None
    if x[-1] == 0:
        return zero(case, start)
    coarse = start > 0 and _resolution(x[:start]) > _FINE * abs(float(x[-1]))
    stuck = x[-1] > _STUCK * x[0] and digits(float(x[-1])) >= _DIGITS
    if coarse and not stuck:
        return None
    value, first = num(float(x[-1])), int(steps[start])
    which = "each of the last" if start else "all"
    found = Evidence(
        because=f"The loss is {value} at {which} {count} logged points, from step {first} "
        f"to {int(steps[-1])}, to the last digit.",
        step=first,
        measured={"loss": float(x[-1]), "points": count},
        first=Action(
            ActionKind.CHECK_MODEL,
            f"Check at step {first} that the parameters change and get gradients: print which "
            "have requires_grad and are in the optimizer.",
            step=first,
        ),
        then=(
            Action(
                ActionKind.CHECK_MODEL,
                "Look for a detach(), a no_grad() or an .item() between the model and the loss.",
            ),
            STEPS,
            ONE_BATCH,
        ),
    )
    return with_cause(case, found)


def _resolution(x: Floats) -> float:
    """Return how finely a loss was written: its smallest change, or the last decimal of any.

    Few losses may all lie farther apart than they could.
    """
    changes = np.abs(np.diff(x))
    some = x[-_WRITTEN:]
    # What was stored in four bytes was written with no more digits than these hold.
    stored = some.astype(np.float32)
    written = map(str, stored) if (stored == some).all() else map(str, some)
    last = min(Decimal(text).as_tuple().exponent for text in written)
    return min(float(changes[changes > 0].min(initial=np.inf)), 10.0 ** int(last))


def plateau_at_chance(case: Case) -> Evidence | None:
    """Does the loss stay at the logarithm of the number of classes?"""
    after = trained(case)
    if after is None:
        return None
    band = case.limits.learning.chance_band
    told = case.manifest.vocab_size
    late = levels(after.values, STRETCHES)[1:]
    for classes in (told,) if told else _USUAL_CLASSES:
        level = chance(classes)
        above = _ABOVE * band if told else band
        if late.min() < level * (1 - band) or late.max() > level * (1 + above):
            continue
        if best_evaluation(case) < level * (1 - 2 * band):
            return None
        whose = "of the manifest" if told else "of a usual benchmark"
        found = Evidence(
            because=f"The loss is stuck at {num(float(late[-1]))} from step {int(after.steps[0])} "
            f"to {int(after.steps[-1])}: the logarithm of {classes} classes ({whose}) is "
            f"{num(level)}, which is what guessing costs.",
            step=int(after.steps[0]),
            measured={"loss": float(late[-1]), "log_k": level, "classes": classes},
            first=Action(
                ActionKind.TRY_SMALL,
                f"Train on 32 examples alone: their loss has to fall from {num(level)} to nearly "
                "zero, and if it does not, the fault is in the data, the loss or the wiring.",
            ),
            then=(
                Action(
                    ActionKind.CHECK_LABELS,
                    "Check that labels belong to their inputs, and are not all of one class.",
                ),
                Action(
                    ActionKind.CHECK_LOSS_FUNCTION,
                    "Check the loss: its reduction, its mask, the shift of its targets.",
                ),
                Action(
                    ActionKind.CHECK_MODEL,
                    "Check requires_grad, and that the optimizer holds the parameters.",
                ),
                LOWER,
            ),
        )
        return with_cause(case, found)
    return None


SYMPTOMS: tuple[Symptom, ...] = (
    Symptom(
        slug="loss-constant",
        severity=Severity.ERROR,
        family="learning",
        title="The loss does not change at all",
        check=loss_constant,
        needs=("loss",),
        limits=("learning.constant_points",),
        explained_by=("nan", "divergence", "loss-scale"),
        enough=(at_least("learning.constant_points", "loss"),),
    ),
    Symptom(
        slug="plateau-at-chance",
        severity=Severity.ERROR,
        family="learning",
        title="The loss is stuck at chance level",
        check=plateau_at_chance,
        needs=("loss",),
        limits=("learning.chance_band", "learning.min_points", "learning.min_steps"),
        explained_by=("nan",),
        enough=(few_trained,),
    ),
)
