"""Advice on §4: divergence."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from stabdiag.findings import Remedy
from stabdiag.tree.advice.climb_facts import ClimbFacts, climb_facts, near_climb
from stabdiag.tree.advice.meanwhile import drift, evaluated
from stabdiag.tree.advice.words import Advice, clip, less_decay, more_decay, now_lr, shown, to_log
from stabdiag.tree.checkpoint import checkpoint_before
from stabdiag.tree.reward import Reward, lost_reward
from stabdiag.tree.rises import found_rise
from stabdiag.tree.turns import at_or_near
from stabdiag.words import num, sentence, uncapitalised

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stabdiag.findings import Answer
    from stabdiag.tree.case import Case

_PLOT = "Plot the learning rate of every step before the restart."
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
    turning = num(
        float(lr.values[max(int(np.searchsorted(lr.steps, facts.first, "right")) - 1, 0)])
    )
    first, last = answer.steps
    act = (
        f"Fix the schedule, which still raises the learning rate at step {highest} "
        f"(a warm-up that never ends, or an inverted decay): {uncapitalised(facts.reload)}."
    )
    other = f"If the schedule is intended, lower its peak: the loss stopped falling at {turning}."
    warmup = case.manifest.warmup_steps
    if warmup is not None and highest <= warmup:
        # Nothing is wrong with a warm-up that was planned, but for where it leads to.
        act = (
            f"{facts.reload}, and keep the learning rate below {turning}, at which the loss began "
            f"to climb: the warm-up of {warmup} steps leads beyond it."
        )
        other = "Lengthen the warm-up, if the peak is to be kept."
    return facts.advice(
        f"The learning rate rose from {begin} at step {first} to {end} at step {last}{since}.",
        first=act,
        then=(
            f"Check warm-up and total steps against the manifest ({_schedule(case)}).",
            _PLOT,
            other,
        ),
        remedy=Remedy.RATE,
    )


def _lr_jump(case: Case, answer: Answer) -> Advice:
    """A climb after a learning rate that jumped and stayed up."""
    facts = climb_facts(case, "the jump of the learning rate", answer)
    before, after = (shown(answer.measured.get(key)) for key in ("lr_before", "lr_after"))
    return facts.advice(
        sentence(answer.because),
        first=f"Undo the jump of the learning rate at step {facts.began}: "
        f"{uncapitalised(facts.reload)}.",
        then=(
            f"Find what raised it from {before} to {after}: a resume that set up another schedule, "
            "a step counted twice, a change by hand.",
            _PLOT,
            "If a higher rate is intended, warm up to it.",
        ),
        remedy=Remedy.RATE,
    )


def weights(case: Case, answers: Mapping[str, Answer]) -> Advice:
    """A climb with a weight norm that grows or shrinks: it began where the norm turned."""
    answer = answers["Q4.3"]
    facts = climb_facts(case, "the change of the weights", answer)
    told = sentence(answer.because)
    action = f"and {more_decay(case) if answer.branch == 'climbing' else less_decay(case)}"
    if answer.branch == "climbing" and _exploded(case) and not _grows_weights(case):
        # What a decay takes off the weights in a step is the learning rate's share of it: little
        # beside what makes a loss explode.
        told += " So large a loss is an optimization blow-up."
        action = f"halve the learning rate{now_lr(case, facts.began)} {action}"
    return facts.advice(
        told,
        first=f"{facts.reload}, {action}.",
        then=(
            "Check the sign of the weight decay and which groups it reaches, "
            f"{answer.measured.get('group')!r} first.",
            "Check that no decay is applied twice, in the loss and in the optimizer.",
            "Log the weight norm of every group at every step.",
        ),
        remedy=Remedy.DECAY,
    )


def grad_norm_rising(case: Case, answers: Mapping[str, Answer]) -> Advice:
    """A climb with a rising gradient norm."""
    facts, told = climb_facts(case), sentence(answers["Q4.4"].because)
    act, remedy = f"halve the learning rate{now_lr(case, facts.first)}", Remedy.RATE
    then: tuple[str, ...] = (
        sentence(facts.check_data),
        f"Clip the gradient norm at {clip(case)}.",
        drift(case),
    )
    if _stood_still(answers):
        # Weights that stand still do not drift, and no clipping changes them.
        told = f"{_STOOD_STILL} {told}"
        act, then, remedy = facts.check_data, (), Remedy.DATA
    elif _grows_weights(case):
        then, act, remedy = (sentence(act), *then[:2]), more_decay(case), Remedy.DECAY
    return facts.advice(told, first=f"{facts.reload}, and {act}.", then=then, remedy=remedy)


def unexplained(case: Case, answers: Mapping[str, Answer]) -> Advice:
    """A climb without a logged cause."""
    facts, lost = climb_facts(case), lost_reward(case)
    if lost is not None:
        return _lost_reward(case, facts, lost)
    data = facts.check_data
    smaller = f"halve the learning rate{now_lr(case, facts.first)}"
    what, act, remedy = "No logged series explains it.", f"and {data}", Remedy.DATA
    if near_climb(case, facts.unsound, facts.first):
        what = "Nothing else that was logged explains it."
    other: tuple[str, ...] = (smaller,)
    if _stood_still(answers):
        what, other = _STOOD_STILL, ()
    elif _grows_weights(case):
        what = "No logged series explains it, but the weight decay has the wrong sign."
        act, other, remedy = f"and {more_decay(case)}", (data, smaller), Remedy.DECAY
    elif _exploded(case):
        what = "No logged series explains it, but so large a loss is an optimization blow-up."
        act = f"{smaller} and clip the gradient norm at {clip(case)}"
        other, remedy = (data,), Remedy.RATE
    return facts.advice(
        what,
        first=f"{facts.reload}, {act}.",
        then=(*map(sentence, other), *_to_look_at(case)),
        remedy=remedy,
    )


def _lost_reward(case: Case, facts: ClimbFacts, lost: Reward) -> Advice:
    """A climb while the reward fell: a policy is as good as that, whatever its loss does."""
    since = f"the fall of the reward, from about step {lost.best_at} on"
    reload = checkpoint_before(case.manifest, lost.best_at).reload(since)
    advice = facts.advice(
        f"The reward {lost.column!r} fell from {num(lost.best)} near step {lost.best_at} to "
        f"{num(lost.last)}: the policy became worse.",
        first=f"{reload}, and halve the learning rate{now_lr(case, facts.first)}.",
        then=_to_look_at(case),
        remedy=Remedy.RATE,
    )
    return replace(advice, reload=reload, began=lost.best_at)


def _to_look_at(case: Case) -> tuple[str, ...]:
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
