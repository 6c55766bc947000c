"""Evaluation losses without a training loss next to them."""

from __future__ import annotations

from stabdiag.model.findings import Action, Severity
from stabdiag.model.findings import ActionKind as Do
from stabdiag.model.text import num
from stabdiag.stats.standards import FAR_RATIO
from stabdiag.symptoms.symptom import Evidence, Symptom, at_least
from stabdiag.tree.case import Case
from stabdiag.tree.divergence import evaluation_rise
from stabdiag.tree.scores import heldout_scores


@Symptom(
    slug="eval-only-rising",
    title="The evaluation loss rises, and no training loss was logged",
    needs=("loss",),
    preconditions=(at_least("generalization.min_evaluations", "loss"),),
    explained_by=("nan", "divergence", "spike-persistent", "spike-unresolved"),
    next_actions=(
        Action(
            Do.LOG_MORE,
            "Log the training loss next to it. If it falls, the model overfits: add "
            "regularization, data or augmentation, or reduce the capacity of the model. If it "
            "rises, too, lower the learning rate.",
            also=(Do.REGULARIZE, Do.LOWER_LR),
        ),
    ),
)
def eval_only_rising(case: Case) -> Evidence | None:
    """Does the evaluation loss end clearly above its best level, without a training loss?

    It is a note if a held-out score improves in the meantime, up to five times the best level.
    """
    if evaluation_rise(case) is None:
        return None
    x = case.loss.values
    step, best, last = case.at(int(x.argmin())), float(x.min()), float(x[-1])
    gains = ((score, score.later_gain(step)) for score in heldout_scores(case))
    better = [score.name for score, gain in gains if gain and score.is_material(gain)]
    meanwhile = f" {better[0]!r} still improves." if better else ""
    return Evidence(
        because=f"{case.loss.column!r} was lowest, {num(best)}, at {case.unit} {step}, and is "
        f"{num(last)} at the end.{meanwhile} Without a training loss, overfitting and divergence "
        "look the same.",
        step=step,
        measured={"best_eval_loss": best, "eval_loss": last},
        first=Action(
            Do.STOP_EARLY,
            f"Keep the checkpoint nearest to {case.describe(step)}, where the evaluation loss was "
            "lowest: overfitting is the usual reason.",
            also=(Do.KEEP_CHECKPOINT,),
            checkpoint=step,
        ),
        severity=Severity.NOTE if better and last < FAR_RATIO * best else None,
    )
