"""The symptoms of generalisation: training loss against evaluation loss."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from stabdiag.findings import Severity
from stabdiag.stats.levels import levels
from stabdiag.stats.quantiles import median
from stabdiag.stats.rolling import MAD_TO_SIGMA
from stabdiag.symptoms.losses import chance, counts_epochs, from_the_start, is_distance, trained
from stabdiag.symptoms.symptom import Evidence, Symptom
from stabdiag.tree.words import num

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stabdiag.history import Series
    from stabdiag.tree.case import Case

    Floats = NDArray[np.float64]

# The last level of an evaluation is the median of so many.
_LAST = 3

# A training loss at a step is the median of so many on either side of it.
_AROUND = 5

# A turn that is clear is larger than this many deviations of one evaluation from the next.
_SIGMAS = 4.0

# A training loss that has fallen to this share since the best evaluation has run away from it.
_RUN_AWAY = 0.5


@dataclass(frozen=True, kw_only=True)
class Turn:
    """The best evaluation and the last, with the training loss around each.

    It is clear where it stands out from the noise of the evaluations.
    """

    step: int
    best: float
    last: float
    train_then: float
    train_now: float
    is_clear: bool

    @property
    def words(self) -> str:
        """What the evaluation loss did, and the training loss meanwhile."""
        return (
            f"The evaluation loss was lowest, {num(self.best)}, at step {self.step}, and is "
            f"{num(self.last)} now, while the training loss went from {num(self.train_then)} to "
            f"{num(self.train_now)}"
        )

    @property
    def measured(self) -> dict[str, float]:
        """The numbers by name."""
        return {
            "best_eval_loss": self.best,
            "eval_loss": self.last,
            "train_loss_then": self.train_then,
            "train_loss": self.train_now,
        }


def overfitting(case: Case) -> Evidence | None:
    """Did the evaluation loss turn while the training loss went on falling?"""
    turn = _turn(case)
    if turn is None or not _still_falls(case, turn):
        return None
    # Few noisy evaluations will do where the training loss runs away from them.
    if not turn.is_clear and turn.train_now > _RUN_AWAY * turn.train_then:
        return None
    return Evidence(
        because=f"{turn.words}.",
        step=turn.step,
        measured=turn.measured,
        first=f"Keep the checkpoint nearest to step {turn.step}, where the evaluation loss was "
        f"{num(turn.best)}, and stop there.",
        then=(
            "Add regularisation: weight decay, dropout.",
            "Add augmentation, or more data; see each example fewer times.",
            "Reduce the capacity of the model.",
        ),
    )


def eval_rising(case: Case) -> Evidence | None:
    """Did the evaluation loss turn although the training loss does not fall any more?"""
    turn = _turn(case)
    if turn is None or not turn.is_clear or _still_falls(case, turn):
        return None
    return Evidence(
        because=f"{turn.words}: this is no learning by heart.",
        step=turn.step,
        measured=turn.measured,
        first=f"Keep the checkpoint nearest to step {turn.step}, and evaluate it again on the same "
        "data in evaluation mode: if it gives another number, the evaluation is at fault.",
        then=(
            "Check that the evaluation data did not change, and that averaged weights and "
            "batch-norm statistics are saved and loaded.",
            "Lower the learning rate: the weights may be drifting where the training loss is flat.",
        ),
    )


def eval_gap_from_start(case: Case) -> Evidence | None:
    """Is the evaluation loss far above the training loss from the first evaluation on?"""
    pair = _both(case)
    # In an epoch a model can learn much by heart.
    if pair is None or not from_the_start(case) or counts_epochs(case):
        return None
    train, held = pair
    limits = case.limits.generalisation
    begin, end = int(train.steps[0]), int(train.steps[-1])
    # A model that knows nothing yet knows as little of either set.
    soon = np.flatnonzero(held.steps <= begin + limits.early * (end - begin))
    if not len(soon):
        return None
    since = held.between(int(held.steps[soon[-1]]), end + round(case.stride))
    beside = np.array([_near(train, step) for step in since.steps.tolist()])
    ratios = since.values / beside
    least, ratio, first = float(ratios.min()), float(ratios[0]), int(since.steps[0])
    # What was learned by heart soon is a gap that opened, only sooner.
    if least < limits.gap or overfitting(case) is not None:
        return None
    return Evidence(
        because=f"At step {first}, {(first - begin) / max(end - begin, 1):.0%} into the run, the "
        f"evaluation loss is {num(float(since.values[0]))} beside a training loss of "
        f"{num(float(beside[0]))}, and no later one is less than {num(least)} x the training loss.",
        step=first,
        measured={"first_ratio": ratio, "least_ratio": least},
        first=f"Evaluate the checkpoint of step {first} on training batches, once in training and "
        "once in evaluation mode: if the two differ, batch-norm statistics or dropout are at "
        "fault, and if not, the data is.",
        then=(
            "Check that both losses are means over the same unit, with the same mask and the same "
            "smoothing.",
            "Check that evaluation data is prepared by the same code: tokenizer, normalisation.",
        ),
    )


def underfitting(case: Case) -> Evidence | None:
    """Are both losses still near chance at the end of the run?"""
    pair, after, classes = _both(case), trained(case), case.manifest.vocab_size or 0
    if pair is None or after is None or classes < 2:
        return None
    last, held = float(levels(after.values, 10)[-1]), median(pair[1].values[-_LAST:])
    level = chance(classes)
    learned = last < level * (1 - 5 * case.limits.learning.chance_band)
    if not learned or last < case.limits.generalisation.underfit * level or held < last:
        return None
    return Evidence(
        because=f"After {int(after.steps[-1])} steps the training loss is {num(last)} and the "
        f"evaluation loss {num(held)}; a guess among {classes} classes has {num(level)}.",
        step=None,
        measured={"loss": last, "eval_loss": held, "log_k": level},
        first=f"Train longer than {int(after.steps[-1])} steps if the loss still falls; if it does "
        "not, raise the learning rate with care.",
        then=(
            "Take a larger model.",
            "Reduce weight decay, dropout and label smoothing.",
        ),
    )


def _near(train: Series, step: int) -> float:
    """Return the training loss around a step, from some of the points nearest to it."""
    at = int(np.searchsorted(train.steps, step))
    return median(train.values[max(at - _AROUND, 0) : at + _AROUND + 1])


def _both(case: Case) -> tuple[Series, Series] | None:
    """Return training and evaluation losses where both are there, positive, and enough."""
    logged = case.history.get("eval_loss")
    if logged is None or not is_distance(case):
        return None
    held = logged.finite()
    held = held.between(int(case.loss.steps[0]), int(case.loss.steps[-1]) + round(case.stride))
    least = case.limits.generalisation.min_evaluations
    if len(held) < least or len(case.loss) < least or held.values.min() <= 0:
        return None
    return case.loss, held


def _turn(case: Case) -> Turn | None:
    """Return where the evaluation loss turned, if it did."""
    pair = _both(case)
    if pair is None:
        return None
    train, held = pair
    x = held.values
    smooth = np.array([median(x[max(i - 1, 0) : i + 2]) for i in range(len(x))])
    at = int(np.argmin(smooth))
    best, last = float(smooth[at]), median(x[-_LAST:])
    if at > len(x) - 1 - _LAST or last - best <= case.limits.generalisation.eval_rise * best:
        return None
    changes = np.diff(x)
    noise = median(np.abs(changes - median(changes))) * MAD_TO_SIGMA / np.sqrt(2)
    step, gap = int(held.steps[at]), int(np.median(np.diff(held.steps)))
    then, now = train.between(step - gap, step), train.between(int(held.steps[-1]) - gap, 2**62)
    if not len(then) or not len(now):
        return None
    return Turn(
        step=step,
        best=best,
        last=last,
        train_then=median(then.values),
        train_now=median(now.values),
        is_clear=last - best > _SIGMAS * noise,
    )


def _still_falls(case: Case, turn: Turn) -> bool:
    return turn.train_now < turn.train_then * (1 - case.limits.generalisation.train_fall)


_TURNED = ("nan", "divergence", "spike-persistent", "spike-unresolved")

SYMPTOMS: tuple[Symptom, ...] = (
    Symptom(
        slug="overfitting",
        severity=Severity.WARNING,
        family="generalisation",
        title="The model learns the training data by heart",
        check=overfitting,
        needs=("loss", "eval_loss"),
        limits=(
            "generalisation.eval_rise",
            "generalisation.train_fall",
            "generalisation.min_evaluations",
        ),
        explained_by=("nan",),
    ),
    Symptom(
        slug="eval-rising",
        severity=Severity.WARNING,
        family="generalisation",
        title="The evaluation loss rises alone",
        check=eval_rising,
        needs=("loss", "eval_loss"),
        limits=(
            "generalisation.eval_rise",
            "generalisation.train_fall",
            "generalisation.min_evaluations",
        ),
        explained_by=_TURNED,
    ),
    Symptom(
        slug="eval-gap-from-start",
        severity=Severity.WARNING,
        family="generalisation",
        title="The evaluation loss is far above the training loss from the start",
        check=eval_gap_from_start,
        needs=("loss", "eval_loss"),
        limits=(
            "generalisation.gap",
            "generalisation.early",
            "generalisation.min_evaluations",
        ),
        explained_by=("nan",),
    ),
    Symptom(
        slug="underfitting",
        severity=Severity.NOTE,
        family="generalisation",
        title="Both losses end near chance",
        check=underfitting,
        needs=("loss", "eval_loss", "manifest.vocab_size"),
        limits=("generalisation.underfit", "generalisation.min_evaluations"),
        explained_by=_TURNED,
    ),
)
