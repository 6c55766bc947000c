"""The symptoms of an evaluation loss that turns, while the training loss goes on or stays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from stabdiag.model.findings import Action, ActionKind, Severity
from stabdiag.model.text import num
from stabdiag.stats.quantiles import diff_sigma, median, medians, usual_gap
from stabdiag.symptoms.losses import FEW_EVALUATIONS, LAST_EVALUATIONS, with_evaluations
from stabdiag.symptoms.symptom import Evidence, Symptom

if TYPE_CHECKING:
    from stabdiag.model.arrays import Floats
    from stabdiag.model.history import Series
    from stabdiag.tree.case import Case

# A turn that is clear is larger than this many deviations of one evaluation from the next.
_SIGMAS = 4.0

# A training loss that has fallen to this share since the best evaluation has run away from it.
_RUN_AWAY = 0.5


@dataclass(frozen=True, kw_only=True)
class Turn:
    """The best evaluation and the last, with the training loss around each.

    These are losses as they were logged; where several training losses belong to an evaluation,
    their median. ``is_clear``: it stands out from the noise of the evaluations. ``falls`` and
    ``runs_away`` tell what the training loss did meanwhile.
    """

    step: int
    best: float
    last: float
    train_then: float
    train_now: float
    several: bool
    is_clear: bool
    falls: bool
    runs_away: bool

    @property
    def words(self) -> str:
        """What the evaluation loss did, and the training loss meanwhile."""
        how = ", in the median," if self.several else ""
        return (
            f"The evaluation loss was lowest, {num(self.best)}, at step {self.step}, and is "
            f"{num(self.last)} now, while the training loss{how} went from {num(self.train_then)} "
            f"to {num(self.train_now)}"
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
    if turn is None or not turn.falls:
        return None
    # Few noisy evaluations will do where the training loss runs away from them.
    if not turn.is_clear and not turn.runs_away:
        return None
    return Evidence(
        because=f"{turn.words}.",
        step=turn.step,
        measured=turn.measured,
        first=Action(
            ActionKind.STOP_EARLY,
            f"Keep the checkpoint nearest to step {turn.step}, where the evaluation loss was "
            f"{num(turn.best)}, and stop there.",
            also=(ActionKind.KEEP_CHECKPOINT,),
            checkpoint=turn.step,
        ),
        then=(
            Action(ActionKind.REGULARISE, "Add regularisation: weight decay, dropout."),
            Action(
                ActionKind.REGULARISE,
                "Add augmentation, or more data; see each example fewer times.",
            ),
            Action(ActionKind.CHANGE_MODEL, "Reduce the capacity of the model."),
        ),
    )


def eval_rising(case: Case) -> Evidence | None:
    """Did the evaluation loss turn although the training loss does not fall any more?"""
    turn = _turn(case)
    if turn is None or not turn.is_clear or turn.falls:
        return None
    return Evidence(
        because=f"{turn.words}.",
        step=turn.step,
        measured=turn.measured,
        first=Action(
            ActionKind.CHECK_EVALUATION,
            f"Keep the checkpoint nearest to step {turn.step}, and evaluate it again on the same "
            "data in evaluation mode: if it gives another number, the evaluation is at fault.",
            also=(ActionKind.KEEP_CHECKPOINT,),
            checkpoint=turn.step,
        ),
        then=(
            Action(
                ActionKind.CHECK_EVALUATION,
                "Check that the evaluation data did not change, and that averaged weights and "
                "batch-norm statistics are saved and loaded.",
            ),
            Action(
                ActionKind.LOWER_LR,
                "Lower the learning rate: the weights may be drifting where the training loss is "
                "flat.",
            ),
        ),
    )


def _turn(case: Case) -> Turn | None:
    """Return where the evaluation loss turned, if it did."""
    pair = with_evaluations(case, to_zero=True)
    if pair is None:
        return None
    train, held = pair
    x = held.values
    middle = medians(np.lib.stride_tricks.sliding_window_view(x, 3))
    smooth = np.concatenate([[x[:2].mean()], middle, [x[-2:].mean()]])
    at = int(np.argmin(smooth))
    best, last = float(smooth[at]), median(x[-LAST_EVALUATIONS:])
    if (
        at > len(x) - 1 - LAST_EVALUATIONS
        or last - best <= case.limits.generalisation.eval_rise * best
    ):
        return None
    gap = int(usual_gap(held.steps))
    lowest = max(at - 1, 0) + int(np.argmin(x[max(at - 1, 0) : at + 2]))
    # Judged around the level that is lowest, and told of where the lowest loss was logged.
    around, now = _beside(train, held, at, gap), _beside(train, held, len(x) - 1, gap)
    then = _beside(train, held, lowest, gap)
    if not len(around) or not len(now) or not len(then):
        return None
    before, after = median(around), median(now)
    return Turn(
        step=int(held.steps[lowest]),
        best=float(x[lowest]),
        last=float(x[-1]),
        train_then=median(then),
        train_now=after,
        several=max(len(then), len(now)) > 1,
        is_clear=last - best > _SIGMAS * diff_sigma(x),
        falls=after < before * (1 - case.limits.generalisation.train_fall),
        runs_away=after <= _RUN_AWAY * before,
    )


def _beside(train: Series, held: Series, at: int, gap: int) -> Floats:
    """Return the training losses since the evaluation before the one at a position."""
    step = int(held.steps[at])
    since = train.between(step - gap + 1, step).values
    return since if len(since) else train.between(step - gap, step + gap).values[:1]


SYMPTOMS: tuple[Symptom, ...] = (
    Symptom(
        slug="overfitting",
        severity=Severity.WARNING,
        family="generalisation",
        title="The model overfits: it memorises the training data",
        check=overfitting,
        needs=("loss", "eval_loss"),
        limits=(
            "generalisation.eval_rise",
            "generalisation.train_fall",
            "generalisation.min_evaluations",
        ),
        explained_by=("nan",),
        enough=FEW_EVALUATIONS,
    ),
    Symptom(
        slug="eval-rising",
        severity=Severity.WARNING,
        family="generalisation",
        title="The evaluation loss rises, but not by overfitting",
        check=eval_rising,
        needs=("loss", "eval_loss"),
        limits=(
            "generalisation.eval_rise",
            "generalisation.train_fall",
            "generalisation.min_evaluations",
        ),
        explained_by=("nan", "divergence", "spike-persistent", "spike-unresolved"),
        enough=FEW_EVALUATIONS,
    ),
)
