"""Advice on §4: divergence."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from stabdiag.model.findings import Action, ActionKind
from stabdiag.model.text import num, sentence
from stabdiag.tree.advice.climb_facts import ClimbFacts, climb_facts, near_climb
from stabdiag.tree.advice.meanwhile import drift, evaluated
from stabdiag.tree.advice.words import Advice, clip, half_lr, less_decay, more_decay, shown, to_log
from stabdiag.tree.checkpoint import checkpoint_before
from stabdiag.tree.comparable import Reward, lost_reward
from stabdiag.tree.divergence import found_rise
from stabdiag.tree.drivers import at_or_near

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stabdiag.model.findings import Answer
    from stabdiag.tree.case import Case

_PLOT = Action(ActionKind.LOG_MORE, "Plot the learning rate of every step before the restart.")
_STOOD_STILL = "The learning rate was 0 by then: the weights did not move, so the data changed."

# A loss that rose by so many times all it had ever fallen is no matter of harder data.
_EXPLODED = 10.0


def lr_rising(case: Case, answers: Mapping[str, Answer]) -> Advice:
    """A climb under a rising learning rate: it began where the rate turned, if that shows."""
    answer = answers["Q4.2"]
    if answer.branch == "jump":
        return _lr_jump(case, answer)
    facts = climb_facts(case, "the rise of the learning rate", answer)
    begin, end = (shown(answer.measured.get(key)) for key in ("lr_first", "lr_last"))
    lr = case.history.series["lr"].finite()
    turned = "turned" in answer.measured
    since = f"; its rise began {at_or_near(lr, facts.began)}" if turned else ""
    highest = int(lr.steps[np.argmax(lr.values)])
    turning = float(lr.values[max(int(np.searchsorted(lr.steps, facts.first, "right")) - 1, 0)])
    first, last = answer.steps
    act = facts.reload.following(
        ActionKind.FIX_SCHEDULE,
        f"Fix the schedule, which still raises the learning rate at step {highest} "
        "(a warm-up that never ends, or an inverted decay)",
        step=highest,
    )
    other = Action(
        ActionKind.LOWER_LR,
        f"If the schedule is intended, lower its peak: the loss stopped falling at {num(turning)}.",
        setting="peak_lr",
        to=turning,
    )
    warmup = case.manifest.warmup_steps
    if warmup is not None and highest <= warmup:
        # Nothing is wrong with a warm-up that was planned, but for where it leads to.
        act = facts.reload.and_then(
            ActionKind.LOWER_LR,
            f"keep the learning rate below {num(turning)}, at which the loss began to climb: the "
            f"warm-up of {warmup} steps leads beyond it",
            setting="peak_lr",
            to=turning,
        )
        other = Action(
            ActionKind.ADD_WARMUP,
            "Lengthen the warm-up, if the peak is to be kept.",
            setting="warmup_steps",
        )
    check = f"Check warm-up and total steps against the manifest ({_schedule(case)})."
    return facts.advice(
        f"The learning rate rose from {begin} at step {first} to {end} at step {last}{since}.",
        first=act,
        then=(Action(ActionKind.CHECK_SETTINGS, check), _PLOT, other),
    )


def _lr_jump(case: Case, answer: Answer) -> Advice:
    """A climb after a learning rate that jumped and stayed up."""
    facts = climb_facts(case, "the jump of the learning rate", answer)
    before, after = (shown(answer.measured.get(key)) for key in ("lr_before", "lr_after"))
    return facts.advice(
        sentence(answer.because),
        first=facts.reload.following(
            ActionKind.FIX_SCHEDULE,
            f"Undo the jump of the learning rate at step {facts.began}",
            step=facts.began,
        ),
        then=(
            Action(
                ActionKind.FIX_SCHEDULE,
                f"Find what raised it from {before} to {after}: a resume that set up another "
                "schedule, a step counted twice, a change by hand.",
            ),
            _PLOT,
            Action(ActionKind.ADD_WARMUP, "If a higher rate is intended, warm up to it."),
        ),
    )


def weights(case: Case, answers: Mapping[str, Answer]) -> Advice:
    """A climb with a weight norm that grows or shrinks: it began where the norm turned."""
    answer = answers["Q4.3"]
    facts = climb_facts(case, "the change of the weights", answer)
    told = sentence(answer.because)
    decay = more_decay(case) if answer.branch == "climbing" else less_decay(case)
    first = facts.reload.and_then(decay.kind, str(decay), **decay.change)
    if answer.branch == "climbing" and _exploded(case) and not _grows_weights(case):
        # What a decay takes off the weights in a step is the learning rate's share of it: little
        # beside what makes a loss explode.
        told += " So large a loss is an optimization blow-up."
        rate = half_lr(case, facts.began)
        first = facts.reload.and_then(
            ActionKind.LOWER_LR, str(rate), str(decay), also=(decay.kind,), **rate.change
        )
    return facts.advice(
        told,
        first=first,
        then=(
            Action(
                ActionKind.FIX_WEIGHT_DECAY,
                "Check the sign of the weight decay and which groups it reaches, "
                f"{answer.measured.get('group')!r} first.",
            ),
            Action(
                ActionKind.FIX_WEIGHT_DECAY,
                "Check that no decay is applied twice, in the loss and in the optimizer.",
            ),
            Action(ActionKind.LOG_MORE, "Log the weight norm of every group at every step."),
        ),
    )


def grad_norm_rising(case: Case, answers: Mapping[str, Answer]) -> Advice:
    """A climb with a rising gradient norm."""
    facts, told = climb_facts(case), sentence(answers["Q4.4"].because)
    rate, threshold = half_lr(case, facts.first), clip(case)
    cut = Action(
        ActionKind.CLIP_GRADIENTS, f"Clip the gradient norm at {threshold}.", **threshold.change
    )
    if _stood_still(answers):
        # Weights that stand still do not drift, and no clipping changes them.
        first = facts.reload.and_then(ActionKind.INSPECT_DATA, facts.check_data, step=facts.first)
        return facts.advice(f"{_STOOD_STILL} {told}", first=first, then=())
    if _grows_weights(case):
        decay = more_decay(case)
        lower = Action(ActionKind.LOWER_LR, sentence(str(rate)), **rate.change)
        return facts.advice(
            told,
            first=facts.reload.and_then(decay.kind, str(decay), **decay.change),
            then=(lower, facts.check(), cut),
        )
    first = facts.reload.and_then(ActionKind.LOWER_LR, str(rate), **rate.change)
    return facts.advice(told, first=first, then=(facts.check(), cut, drift(case)))


def unexplained(case: Case, answers: Mapping[str, Answer]) -> Advice:
    """A climb without a logged cause."""
    facts, lost = climb_facts(case), lost_reward(case)
    if lost is not None:
        return _lost_reward(case, facts, lost)
    rate, threshold = half_lr(case, facts.first), clip(case)
    smaller = Action(ActionKind.LOWER_LR, sentence(str(rate)), **rate.change)
    first = facts.reload.and_then(ActionKind.INSPECT_DATA, facts.check_data, step=facts.first)
    what = "No logged series explains it."
    other: tuple[Action, ...] = (smaller,)
    if near_climb(case, facts.unsound, facts.first):
        what = "Nothing else that was logged explains it."
    if _stood_still(answers):
        what, other = _STOOD_STILL, ()
    elif _grows_weights(case):
        what = "No logged series explains it, but the weight decay has the wrong sign."
        decay = more_decay(case)
        first = facts.reload.and_then(decay.kind, str(decay), **decay.change)
        other = (facts.check(), smaller)
    elif _exploded(case):
        what = "No logged series explains it, but so large a loss is an optimization blow-up."
        first = facts.reload.and_then(
            ActionKind.LOWER_LR,
            str(rate),
            f"clip the gradient norm at {threshold}",
            also=(ActionKind.CLIP_GRADIENTS,),
            **rate.change,
        )
        other = (facts.check(),)
    return facts.advice(what, first=first, then=(*other, *_to_look_at(case)))


def _lost_reward(case: Case, facts: ClimbFacts, lost: Reward) -> Advice:
    """A climb while the reward fell: a policy is as good as that, whatever its loss does."""
    since = f"the fall of the reward, from about step {lost.best_at} on"
    reload = checkpoint_before(case.manifest, lost.best_at).reload(since)
    rate = half_lr(case, facts.first)
    advice = facts.advice(
        f"The reward {lost.column!r} fell from {num(lost.best)} near step {lost.best_at} to "
        f"{num(lost.last)}: the policy became worse.",
        first=reload.and_then(ActionKind.LOWER_LR, str(rate), **rate.change),
        then=_to_look_at(case),
    )
    return replace(advice, reload=str(reload), began=lost.best_at)


def _to_look_at(case: Case) -> tuple[Action, ...]:
    """Return what the evaluations tell of an unexplained climb, and what to log to explain one."""
    return evaluated(case), *to_log(case, ("grad_norm", "lr", "weight_norm"))


def _stood_still(answers: Mapping[str, Answer]) -> bool:
    """Tell whether the learning rate was 0 by the end of the climb."""
    return answers["Q4.2"].measured.get("lr_last") == 0.0


def _grows_weights(case: Case) -> bool:
    """Tell whether the weight decay has the wrong sign, whatever else the log shows."""
    decay = case.manifest.weight_decay
    return decay is not None and decay < 0


def _exploded(case: Case) -> bool:
    """Tell whether the loss rose far beyond all that it had ever fallen, and its best level."""
    rise = found_rise(case)
    before = case.loss.values[: rise.best + 1]
    fell = float(before.max()) - rise.best_level
    return rise.amount > _EXPLODED * max(fell, abs(rise.best_level))


def _schedule(case: Case) -> str:
    manifest = case.manifest
    known = {
        "schedule": manifest.schedule,
        "warm-up": manifest.warmup_steps,
        "total": manifest.total_steps,
    }
    told = ", ".join(f"{name} {value}" for name, value in known.items() if value is not None)
    return told or "it names neither"
