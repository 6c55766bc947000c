"""Advice on §4: divergence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from stabdiag.findings import Remedy
from stabdiag.tree.advice.meanwhile import drift, evaluated
from stabdiag.tree.advice.sound import LEVEL, left_its_best
from stabdiag.tree.advice.words import Advice, clip, less_decay, more_decay, now_lr, shown, to_log
from stabdiag.tree.checkpoint import checkpoint_before
from stabdiag.tree.reward import lost_reward
from stabdiag.tree.rises import best_step, climb, found_rise
from stabdiag.words import num, sentence, uncapitalised

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stabdiag.findings import Answer
    from stabdiag.tree.case import Case

_STOOD_STILL = "The learning rate was 0 by then: the weights did not move, so the data changed."

# A loss that rose by so many times all it had ever fallen is no matter of harder data.
_EXPLODED = 10.0


@dataclass(frozen=True, kw_only=True)
class _Facts:
    """A climb in words: what happened, since when, and which checkpoint to reload.

    ``first`` is the step at which the loss began to climb, ``began`` that at which its cause did;
    the checkpoint is from before ``unsound``, by which the loss may have left its best level.
    """

    first: int
    began: int
    unsound: int
    what: str
    reload: str


def _facts(case: Case, cause: str = "", answer: Answer | None = None) -> _Facts:
    """Tell of a climb, and of the series behind it if that shows when it turned."""
    first, last = climb(case)
    if case.literal:
        what = f"The loss rose at every step from {first} to {last}."
    else:
        rise = found_rise(case)
        what = (
            f"The loss climbed from step {first} on and ends at {num(rise.last_level)}, "
            f"{num(rise.amount)} above its best level ({num(rise.best_level)} near step "
            f"{best_step(case)})."
        )
    began, since = first, f"the climb from {first} on"
    turned = answer.measured.get("turned") if answer else None
    if isinstance(turned, int):
        began = turned
        # By the time that the loss climbs, the weights have long been going wrong.
        since = f"{cause} from {turned} on" if turned < first else since
    unsound = min(began, first)
    sound = checkpoint_before(case.manifest, unsound, case.stride)
    if not case.literal and not isinstance(turned, int):
        left = left_its_best(case)
        # One from within a slow climb is no sound checkpoint; where it began is not told closer.
        named = first if sound.step is None else sound.step
        if left + LEVEL * case.stride < named:
            sound, unsound = checkpoint_before(case.manifest, left), left
            since = f"the loss left its best level near step {left}"
    reload = sound.reload(since)
    return _Facts(first=first, began=began, unsound=unsound, what=what, reload=reload)


def lr_rising(case: Case, answers: Mapping[str, Answer]) -> Advice:
    """A climb under a rising learning rate: it began where the rate turned, if that shows."""
    answer = answers["Q4.2"]
    if answer.branch == "jump":
        return _lr_jump(case, answer)
    facts = _facts(case, "the rise of the learning rate", answer)
    since = f"; its rise began at step {facts.began}" if "turned" in answer.measured else ""
    begin, end = (shown(answer.measured.get(key)) for key in ("lr_first", "lr_last"))
    lr = case.history.series["lr"].finite()
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
    return Advice(
        summary=f"{facts.what} The learning rate rose from {begin} at step {first} to {end} at "
        f"step {last}{since}.",
        first=act,
        then=(
            f"Check warm-up and total steps against the manifest ({_schedule(case)}).",
            "Plot the learning rate of every step before the restart.",
            other,
        ),
        step=facts.began,
        reload=facts.reload,
        began=facts.unsound,
        remedies=(Remedy.RATE,),
    )


def _lr_jump(case: Case, answer: Answer) -> Advice:
    """A climb after a learning rate that jumped and stayed up."""
    facts = _facts(case, "the jump of the learning rate", answer)
    before, after = (shown(answer.measured.get(key)) for key in ("lr_before", "lr_after"))
    return Advice(
        summary=f"{facts.what} {sentence(answer.because)}",
        first=f"Undo the jump of the learning rate at step {facts.began}: "
        f"{uncapitalised(facts.reload)}.",
        then=(
            f"Find what raised it from {before} to {after}: a resume that set up another schedule, "
            "a step counted twice, a change by hand.",
            "Plot the learning rate of every step before the restart.",
            "If a higher rate is intended, warm up to it.",
        ),
        step=facts.began,
        reload=facts.reload,
        began=facts.unsound,
        remedies=(Remedy.RATE,),
    )


def weights(case: Case, answers: Mapping[str, Answer]) -> Advice:
    """A climb with a weight norm that grows or shrinks: it began where the norm turned."""
    answer = answers["Q4.3"]
    facts = _facts(case, "the change of the weights", answer)
    action = more_decay(case) if answer.branch == "climbing" else less_decay(case)
    return Advice(
        summary=f"{facts.what} {sentence(answer.because)}",
        first=f"{facts.reload}, and {action}.",
        then=(
            "Check the sign of the weight decay and which groups it reaches, "
            f"{answer.measured.get('group')!r} first.",
            "Check that no decay is applied twice, in the loss and in the optimizer.",
            "Log the weight norm of every group at every step.",
        ),
        step=facts.began,
        reload=facts.reload,
        began=facts.unsound,
        remedies=(Remedy.DECAY,),
    )


def grad_norm_rising(case: Case, answers: Mapping[str, Answer]) -> Advice:
    """A climb with a rising gradient norm."""
    facts, answer = _facts(case), answers["Q4.4"]
    data = f"check the data from step {facts.first} on: order, labels, sources"
    what, act = facts.what, f"halve the learning rate{now_lr(case, facts.first)}"
    then: tuple[str, ...] = (
        sentence(data),
        f"Clip the gradient norm at {clip(case)}.",
        drift(case),
    )
    remedies = (Remedy.RATE,)
    if _grows_weights(case):
        then, act, remedies = (sentence(act), *then[:2]), more_decay(case), (Remedy.DECAY,)
    if answers["Q4.2"].measured.get("lr_last") == 0.0:
        # Weights that stand still do not drift, and no clipping changes them.
        what += f" {_STOOD_STILL}"
        act, then, remedies = data, (), (Remedy.DATA,)
    return Advice(
        summary=f"{what} {sentence(answer.because)}",
        first=f"{facts.reload}, and {act}.",
        then=then,
        step=facts.first,
        reload=facts.reload,
        began=facts.unsound,
        remedies=remedies,
    )


def unexplained(case: Case, answers: Mapping[str, Answer]) -> Advice:
    """A climb without a logged cause."""
    facts = _facts(case)
    data = f"check the data from step {facts.first} on: order, labels, sources"
    smaller = f"halve the learning rate{now_lr(case, facts.first)}"
    what, act, remedy = "No logged series explains it.", f"and {data}", Remedy.DATA
    other: tuple[str, ...] = (smaller,)
    if answers["Q4.2"].measured.get("lr_last") == 0.0:
        what, other = _STOOD_STILL, ()
    elif _grows_weights(case):
        what = "No logged series explains it, but the weight decay has the wrong sign."
        act, other, remedy = f"and {more_decay(case)}", (data, smaller), Remedy.DECAY
    elif _exploded(case):
        what = "No logged series explains it, but so large a loss is an optimization blow-up."
        act = f"{smaller} and clip the gradient norm at {clip(case)}"
        other, remedy = (data,), Remedy.RATE
    reload, began = facts.reload, facts.unsound
    lost = None if case.literal else lost_reward(case)
    if lost is not None:
        # A policy is as good as its reward, and its loss may have climbed while it learned.
        what = (
            f"The reward {lost.column!r} fell from {num(lost.best)} near step {lost.best_at} to "
            f"{num(lost.last)}: the policy became worse."
        )
        since = f"the fall of the reward, from about step {lost.best_at} on"
        reload, began = checkpoint_before(case.manifest, lost.best_at).reload(since), lost.best_at
        act, other, remedy = f"and {smaller}", (), Remedy.RATE
    return Advice(
        summary=f"{facts.what} {what}",
        first=f"{reload}, {act}.",
        then=(
            *map(sentence, other),
            evaluated(case),
            *to_log(case, ("grad_norm", "lr", "weight_norm")),
        ),
        step=facts.first,
        reload=reload,
        began=began,
        remedies=(remedy,),
    )


def _grows_weights(case: Case) -> bool:
    """Tell whether the weight decay has the wrong sign, whatever else the log shows."""
    decay = case.manifest.weight_decay
    return decay is not None and decay < 0


def _exploded(case: Case) -> bool:
    """Tell whether the loss rose far beyond all that it had ever fallen, and its best level."""
    if case.literal:
        return False
    rise = found_rise(case)
    before = case.loss.values[: case.settled.start + rise.best + 1]
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
