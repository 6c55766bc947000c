"""Evaluation losses that turn, lie far above the training loss, or are not finite."""

from __future__ import annotations

import numpy as np

from stabdiag.model.findings import Action, Confidence, Severity
from stabdiag.model.findings import ActionKind as Do
from stabdiag.model.text import num
from stabdiag.stats.levels import MIN_CONSECUTIVE, beginning, levels
from stabdiag.stats.quantiles import diff_sigma, median
from stabdiag.stats.tails import CLEAR
from stabdiag.symptoms.gap import (
    RUN_AWAY,
    Turn,
    find_gap,
    find_turn,
    knew_before,
    with_evaluations,
)
from stabdiag.symptoms.losses import TENTHS, after_warmup, few_trained
from stabdiag.symptoms.stuck import held_out_is_constant
from stabdiag.symptoms.symptom import Evidence, Symptom, at_least
from stabdiag.tree.case import Case
from stabdiag.tree.pretraining import chance_loss, starts_pretrained
from stabdiag.tree.scores import Score, heldout_scores

# Memorising is gradual: no two neighbouring evaluations make a third of its rise, at once and far
# beyond what evaluations differed by before.
_AT_ONCE = 1 / 3
_BEFORE = 4

# What is memorised in the first fifth of a run may be one batch, or a label among the inputs.
_SOON = 0.2
_LOOK = Action(
    Do.INSPECT_DATA,
    "Print two training batches and an evaluation batch: the same batch again, a label among the "
    "inputs or another preparation looks like memorising, too.",
    also=(Do.CHECK_EVALUATION,),
)

# A model whose evaluations never were below this share of where its training loss began has learned
# nothing that holds elsewhere.
_NOTHING = 0.95
_CARRIES_NOTHING = Action(
    Do.CHECK_LABELS,
    "Print 20 training and 20 evaluation examples with their labels, as the model gets them: look "
    "for labels of other inputs, a label among the inputs, the same batch again and another "
    "preparation.",
    also=(Do.INSPECT_DATA, Do.CHECK_EVALUATION),
)

_FEW_EVALUATIONS = (
    at_least("generalisation.min_evaluations", "loss"),
    at_least("generalisation.min_evaluations", "eval_loss"),
)


@Symptom(
    slug="overfitting",
    family="generalisation",
    title="The model overfits: it memorises the training data",
    needs=("loss", "eval_loss"),
    explained_by=("nan",),
    enough=_FEW_EVALUATIONS,
    then=(
        Action(Do.REGULARISE, "Add regularisation: weight decay, dropout."),
        Action(Do.REGULARISE, "Add augmentation or data; see each example fewer times."),
        Action(Do.CHANGE_MODEL, "Reduce the capacity of the model."),
    ),
)
def overfitting(case: Case) -> Evidence | None:
    """Did the evaluation loss turn while the training loss went on falling?"""
    turn = _memorizing_turn(case)
    if turn is None or _carries_nothing(case, turn):
        return None
    stop = Action(
        Do.STOP_EARLY,
        f"Keep the checkpoint nearest to {case.describe(turn.step)}, where the evaluation loss "
        f"was {num(turn.best)}, and stop there.",
        also=(Do.KEEP_CHECKPOINT,),
        checkpoint=turn.step,
    )
    is_soon = turn.step <= int(case.loss.steps[0]) + _SOON * int(np.ptp(case.loss.steps))
    jump = _jump(case, turn)
    then = (stop,) if jump else (_LOOK,) if is_soon else ()
    return Evidence(
        because=turn.words,
        step=turn.step,
        measured=turn.measured,
        first=jump or stop,
        then=(*then, *overfitting.then),
    )


def _memorizing_turn(case: Case) -> Turn | None:
    """Return where the evaluation loss turned while training went on and no score improved."""
    turn = find_turn(case)
    # Few noisy evaluations will do if the training loss runs away from them.
    if turn is None or not turn.falls or not turn.is_beyond_noise:
        return None
    if not (turn.is_clear or turn.runs_away):
        return None
    # What had not been seen before cannot have been memorized, and a gap from the start says more
    # than a small rise.
    gap = find_gap(case)
    if gap is not None and (gap.is_of_first_epoch or turn.is_small):
        return None
    return None if _better_score(case, turn) is not None else turn


def is_memorizing(case: Case) -> bool:
    """Return True if the evaluation loss turned while the training loss went on falling."""
    return _memorizing_turn(case) is not None


def _carries_nothing(case: Case, turn: Turn) -> bool:
    """Return True if the best evaluation is no better than an untrained model, without a jump."""
    return _jump(case, turn) is None and turn.best > _NOTHING * beginning(case.loss.values)


def _jump(case: Case, turn: Turn) -> Action | None:
    """Return what to do where the evaluation loss jumped up, after the best evaluation."""
    held = case.history.finite("eval_loss")
    x = held.values
    best = int(np.searchsorted(held.steps, turn.step))
    rises = np.diff(x)
    at = best + int(rises[best:].argmax())
    least = _AT_ONCE * (median(x[-MIN_CONSECUTIVE:]) - float(x.min()))
    if at < _BEFORE or rises[at] < max(least, CLEAR * diff_sigma(x[at // 2 : at + 1])):
        return None
    since, step = int(held.steps[at]), int(held.steps[at + 1])
    return Action(
        Do.INSPECT_DATA,
        f"Find out what changed between {case.unit}s {since} and {step}, where the evaluation loss "
        f"jumped from {num(float(x[at]))} to {num(float(x[at + 1]))}: the shard, the preparation "
        "of the data, a resume.",
        step=step,
    )


@Symptom(
    slug="eval-rising",
    family="generalisation",
    title="The evaluation loss rises, but not by overfitting",
    needs=("loss", "eval_loss"),
    explained_by=("nan", "divergence", "spike-persistent", "spike-unresolved"),
    enough=_FEW_EVALUATIONS,
    then=(
        Action(
            Do.CHECK_EVALUATION,
            "Check that the evaluation data is the same, and that averaged weights and batch-norm "
            "statistics are saved and loaded.",
        ),
        Action(Do.LOWER_LR, "Lower the learning rate: the weights may be drifting."),
    ),
)
def eval_rising(case: Case) -> Evidence | None:
    """Did the evaluation loss turn although the training loss no longer falls?"""
    turn = find_turn(case)
    if turn is None or turn.falls or not (turn.is_clear and turn.is_beyond_noise):
        return None
    if _better_score(case, turn) is not None:
        return None
    return Evidence(
        because=turn.words,
        step=turn.step,
        measured=turn.measured,
        first=Action(
            Do.CHECK_EVALUATION,
            f"Keep the checkpoint nearest to {case.describe(turn.step)} and evaluate it again on "
            "the same data in evaluation mode: another number means that the evaluation errs.",
            also=(Do.KEEP_CHECKPOINT,),
            checkpoint=turn.step,
        ),
    )


@Symptom(
    slug="overconfident",
    severity=Severity.NOTE,
    family="generalisation",
    title="The evaluation loss rises while a score improves",
    needs=("loss", "eval_loss", "eval_accuracy or score"),
    explained_by=("nan", "divergence", "spike-persistent", "spike-unresolved"),
    enough=_FEW_EVALUATIONS,
    then=(
        Action(
            Do.REGULARISE,
            "If the probabilities count, calibrate them: scale the temperature on held-out data, "
            "or smooth the labels.",
        ),
    ),
)
def overconfident(case: Case) -> Evidence | None:
    """Did the evaluation loss turn while a score of the evaluations went on improving?"""
    turn = find_turn(case)
    if turn is None or not (turn.is_clear or turn.runs_away):
        return None
    better = _better_score(case, turn)
    if better is None:
        return None
    score, then = better
    best = score.best_at
    step, value = int(score.series.steps[best]), float(score.series.values[best])
    return Evidence(
        because=f"{turn.words} Since then {score.name!r} went from {num(then)} to {num(value)}: "
        "the model still improves, and is more confident where it is wrong.",
        step=turn.step,
        measured=turn.measured | {"score_then": then, "best_score": value},
        first=Action(
            Do.KEEP_CHECKPOINT,
            f"Choose the checkpoint by the score that counts: {case.describe(step)} by "
            f"{score.name!r}, {case.describe(turn.step)} by the loss.",
            checkpoint=step,
        ),
    )


def _better_score(case: Case, turn: Turn) -> tuple[Score, float] | None:
    """Return a held-out score that improved after a turn, with its value there, if none dropped.

    The score has to be better at the end of the run than at the turn, not only in between.
    """
    gains = [(score, score.gain_since(turn.step)) for score in heldout_scores(case)]
    known = [(score, gain) for score, gain in gains if gain is not None]
    improved = [score for score, gain in known if gain > 0]
    if not improved or len(improved) < sum(gain < 0 for _, gain in known):
        return None
    score = improved[0]
    return score, float(score.series.until(turn.step).values[-1])


@Symptom(
    slug="eval-gap-from-start",
    family="generalisation",
    title="The evaluation loss is far above the training loss from the start",
    needs=("loss", "eval_loss"),
    explained_by=("nan",),
    enough=_FEW_EVALUATIONS,
    then=(
        Action(
            Do.CHECK_LOSS_FUNCTION,
            "Check that both losses are means over the same unit, with the same mask.",
        ),
        Action(Do.CHECK_EVALUATION, "Prepare evaluation data by the same code as training data."),
    ),
)
def eval_gap_from_start(case: Case) -> Evidence | None:
    """Is the evaluation loss far above the training loss from the first evaluation on?"""
    # What is memorized soon is overfitting.
    if is_memorizing(case) or learning_not_transferring.found(case):
        return None
    gap = find_gap(case)
    if gap is None or gap.is_factor:
        return None
    measured = {"first_ratio": gap.evaluated / gap.trained, "least_ratio": gap.least}
    return Evidence(
        because=f"At {case.unit} {gap.step}, {gap.share:.0%} into the run, the evaluation loss is "
        f"{num(gap.evaluated)} and the training loss {num(gap.trained)}; it stays at least "
        f"{num(gap.least)} x the training loss.",
        step=gap.step,
        measured=measured,
        first=Action(
            Do.CHECK_EVALUATION,
            f"Evaluate the checkpoint nearest to {case.describe(gap.step)} on training batches in "
            "training and in evaluation mode: if they differ, batch norm or dropout is at fault, "
            "else the data: look for what training batches have and evaluation batches lack.",
            also=(Do.INSPECT_DATA,),
            step=gap.step,
        ),
    )


@Symptom(
    slug="learning-not-transferring",
    family="generalisation",
    title="What is learned does not show in any evaluation",
    needs=("loss", "eval_loss"),
    explained_by=("nan",),
    enough=_FEW_EVALUATIONS,
    then=(
        Action(
            Do.CHECK_LOSS_FUNCTION,
            "Check that both losses are means over the same unit, with the same mask.",
        ),
        Action(Do.CHECK_EVALUATION, "Prepare evaluation data by the same code as training data."),
    ),
)
def learning_not_transferring(case: Case) -> Evidence | None:
    """Did training lower the loss while no evaluation was better than at the start?"""
    turn = _memorizing_turn(case)
    if turn is not None:
        return _turned_at_start(turn) if _carries_nothing(case, turn) else None
    pair = with_evaluations(case)
    if pair is None or knew_before(case) or held_out_is_constant(case) or find_gap(case):
        return None
    train, held = pair
    early, *_, now = levels(train.values, TENTHS).tolist()
    begun, best = beginning(train.values), float(held.values.min())
    if now > RUN_AWAY * early or best <= _NOTHING * max(begun, float(held.values[0])):
        return None
    return Evidence(
        because=f"The training loss went from {num(begun)} to {num(now)}; no evaluation loss was "
        f"below {num(best)}.",
        step=int(held.steps[0]),
        measured={"first_loss": begun, "loss": now, "best_eval_loss": best},
        first=_CARRIES_NOTHING,
    )


def _turned_at_start(turn: Turn) -> Evidence:
    return Evidence(
        because=f"{turn.words} Nothing of what was learned carries over to the evaluation.",
        step=turn.step,
        measured=turn.measured,
        first=_CARRIES_NOTHING,
        then=overfitting.then,
    )


@Symptom(
    slug="underfitting",
    severity=Severity.NOTE,
    family="generalisation",
    title="Both losses end near chance",
    needs=("loss", "eval_loss", "manifest.vocab_size"),
    explained_by=("nan", "divergence", "spike-persistent", "spike-unresolved"),
    enough=(few_trained, *_FEW_EVALUATIONS),
    then=(
        Action(Do.CHANGE_MODEL, "Use a larger model."),
        Action(Do.REGULARISE_LESS, "Reduce weight decay, dropout and label smoothing."),
    ),
)
def underfitting(case: Case) -> Evidence | None:
    """Are both losses still near chance at the end of the run?"""
    pair, after, classes = with_evaluations(case), after_warmup(case), case.manifest.vocab_size
    chance = chance_loss(case)
    if pair is None or chance is None:
        return None
    last, held = float(levels(after.values, TENTHS)[-1]), median(pair[1].values[-MIN_CONSECUTIVE:])
    learned = last < chance * (1 - 5 * case.limits.learning.chance_band)
    if not learned or last < case.limits.generalisation.underfit * chance or held < last:
        return None
    end = int(after.steps[-1])
    rate, also = "raise the learning rate carefully", (Do.RAISE_LR,)
    if starts_pretrained(case):
        rate, also = "use a larger model", (Do.CHANGE_MODEL,)
    return Evidence(
        because=f"After {end} {case.unit}s the training loss is {num(last)} and the evaluation "
        f"loss {num(held)}; guessing among {classes} classes costs {num(chance)}.",
        measured={"loss": last, "eval_loss": held, "log_k": chance},
        first=Action(
            Do.KEEP_GOING,
            f"Train longer than {end} {case.unit}s if the loss still falls; otherwise {rate}.",
            also=also,
            step=end,
        ),
    )


@Symptom(
    slug="eval-nonfinite",
    confidence=Confidence.HIGH,
    family="generalisation",
    title="The evaluation loss is not finite",
    needs=("loss", "eval_loss"),
    explained_by=("nan",),
    then=(
        Action(Do.INSPECT_DATA, "Look for empty batches and fully masked labels: 0/0 is NaN."),
        Action(Do.CHECK_PRECISION, "Evaluate in fp32: autocast may overflow here."),
        Action(Do.CHECK_EVALUATION, "Keep NaN out of averages, early stopping and best models."),
    ),
)
def eval_nonfinite(case: Case) -> Evidence | None:
    """Is an evaluation loss NaN or infinite while the training loss is finite?"""
    held = case.history.series["eval_loss"]
    bad = ~np.isfinite(held.values)
    if not bad.any():
        return None
    first, count = int(held.steps[bad][0]), int(bad.sum())
    of = f" ({count} of {len(held)} evaluations)" if len(held) > 1 else ""
    return Evidence(
        because=f"The evaluation loss is not finite at {case.unit} {first}{of}; the training loss "
        "is.",
        step=first,
        measured={"steps": count, "of": len(held)},
        first=Action(
            Do.CHECK_EVALUATION,
            f"Evaluate the checkpoint nearest to {case.describe(first)} batch by batch to find the "
            "example whose loss is not finite.",
            step=first,
        ),
    )
