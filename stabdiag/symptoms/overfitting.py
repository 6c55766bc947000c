"""The symptoms of an evaluation loss that turns, while the training loss goes on or stays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from stabdiag.findings import Severity
from stabdiag.stats.quantiles import median
from stabdiag.stats.rolling import MAD_TO_SIGMA
from stabdiag.symptoms.losses import LAST_EVALUATIONS, with_evaluations
from stabdiag.symptoms.symptom import Evidence, Symptom
from stabdiag.tree.words import num

if TYPE_CHECKING:
    from stabdiag.tree.case import Case

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


def _turn(case: Case) -> Turn | None:
    """Return where the evaluation loss turned, if it did."""
    pair = with_evaluations(case)
    if pair is None:
        return None
    train, held = pair
    x = held.values
    smooth = np.array([median(x[max(i - 1, 0) : i + 2]) for i in range(len(x))])
    at = int(np.argmin(smooth))
    best, last = float(smooth[at]), median(x[-LAST_EVALUATIONS:])
    if (
        at > len(x) - 1 - LAST_EVALUATIONS
        or last - best <= case.limits.generalisation.eval_rise * best
    ):
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
        explained_by=("nan", "divergence", "spike-persistent", "spike-unresolved"),
    ),
)
