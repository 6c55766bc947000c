"""Advice on §4: divergence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from stabdiag.model.findings import Action, ActionKind, Answer, Verdict
from stabdiag.model.frozen import frozen
from stabdiag.model.text import num, sentence
from stabdiag.stats.quantiles import diff_sigma, median, medians
from stabdiag.stats.shape import BLOWUP_RATIO, FP32_SQUARE_OVERFLOW
from stabdiag.tree.advice.rates import half_lr, lowered, tenth_lr
from stabdiag.tree.advice.shared import (
    LEVEL,
    Advice,
    clip,
    decay_unknown,
    less_decay,
    logging_advice,
    more_decay,
    near_climb,
    shown,
    usual_decay,
)
from stabdiag.tree.case import Case
from stabdiag.tree.checkpoint import Reload, checkpoint_before
from stabdiag.tree.divergence import best_step, climb, describe_range_end, require_rise
from stabdiag.tree.drivers import at_or_near
from stabdiag.tree.reward import Reward, find_collapsed_reward
from stabdiag.tree.spike import exploded_at

_PLOT = Action(ActionKind.LOG_MORE, "Plot the learning rate at every step before the restart.")
_FROZEN = "The learning rate was 0 all that time: the weights did not move, so the data changed."
_AGAIN = Reload("Restart from the beginning (no checkpoint of this log is sound)", 0)
_SIGN = Action(
    ActionKind.CHECK_LOSS_FUNCTION,
    "Check the sign of the loss, and that the optimizer goes down: the loss never fell.",
)
_COMPARE = Action(
    ActionKind.CHECK_EVALUATION,
    "Compare with the evaluation loss: if that still falls, the training data got harder.",
)


@frozen
class _Climb:
    """A climb in words: what happened, since when, and which checkpoint to reload.

    ``first`` is the step at which the loss began to climb, ``began`` that at which its cause did;
    the checkpoint is from before ``unsound``, by which the loss may have left its best level.
    """

    first: int
    began: int
    unsound: int
    what: str
    reload: Reload
    unit: str

    @property
    def check_data(self) -> str:
        """An imperative clause: check the data."""
        return f"check the data from {self.unit} {self.first} on: order, labels, sources"

    def check(self) -> Action:
        """Return the action to check the data."""
        return Action(ActionKind.INSPECT_DATA, sentence(self.check_data), step=self.first)

    def advice(self, summary: str, *, first: Action, then: tuple[Action, ...]) -> Advice:
        """Return advice on the climb, with the checkpoint from before it and its cause."""
        return Advice(
            summary=f"{self.what} {summary}",
            first=first,
            then=then,
            step=self.began,
            reload=self.reload.clause,
            began=self.unsound,
        )


def lr_rising(case: Case, answers: Mapping[str, Answer]) -> Advice:
    """A climb under a rising learning rate: it began where the rate turned, if that shows."""
    answer = answers["Q4.2"]
    if answer.branch == "jump":
        return _lr_jump(case, answer)
    found = _climb(case, "the rise of the learning rate", answer)
    begin, end = (shown(answer.measured.get(key)) for key in ("lr_first", "lr_last"))
    lr = case.history.series["lr"].finite()
    highest = int(lr.steps[np.argmax(lr.values)])
    turning = float(lr.values[max(int(np.searchsorted(lr.steps, found.first, "right")) - 1, 0)])
    first, last = answer.steps
    to = min(lowered(case, turning), turning)  # no higher by being rounded
    below = f"{num(to)}: the loss stopped falling at {num(turning)}"
    act = found.reload.and_then(
        ActionKind.FIX_SCHEDULE,
        f"fix the schedule, which still raises the learning rate at {case.unit} {highest} (an "
        "endless warm-up, or an inverted decay)",
        step=highest,
    )
    other = Action(
        ActionKind.LOWER_LR,
        f"If the schedule is intended, lower its peak to {below}.",
        setting="peak_lr",
        to=to,
    )
    warmup = case.manifest.warmup_steps
    if warmup is not None and highest <= warmup:
        # Nothing is wrong with a warm-up that was planned, but for where it leads to.
        act = found.reload.and_then(
            ActionKind.LOWER_LR,
            f"keep the learning rate below {below}, and the warm-up of {warmup} {case.unit}s goes "
            "beyond it",
            setting="peak_lr",
            to=to,
        )
        text = "To keep the peak, lengthen the warm-up."
        other = Action(ActionKind.ADD_WARMUP, text, setting="warmup_steps")
    check = "Check warm-up and total steps against the schedule that was meant."
    began = at_or_near(case, lr, found.began)
    since = f"; its rise began {began}" if "turned" in answer.measured else ""
    return found.advice(
        f"The learning rate went from {begin} at {case.unit} {first} to {end} at {case.unit} "
        f"{last}{since}.",
        first=act,
        then=(Action(ActionKind.CHECK_SETTINGS, check), _PLOT, other),
    )


def _lr_jump(case: Case, answer: Answer) -> Advice:
    """A climb after a learning rate that jumped and stayed up."""
    found = _climb(case, "the learning-rate jump", answer)
    before, after = (shown(answer.measured.get(key)) for key in ("lr_before", "lr_after"))
    undo = f"undo the learning-rate jump at {case.unit} {found.began}"
    find = (
        f"Find what raised it from {before} to {after}: another schedule after a resume, a step "
        "counted twice, or a manual change."
    )
    return found.advice(
        sentence(answer.because),
        first=found.reload.and_then(ActionKind.FIX_SCHEDULE, undo, step=found.began),
        then=(
            Action(ActionKind.FIX_SCHEDULE, find),
            _PLOT,
            Action(ActionKind.ADD_WARMUP, "If a higher rate is intended, warm up to it."),
        ),
    )


def weights(case: Case, answers: Mapping[str, Answer]) -> Advice:
    """A climb with a weight norm that grows or shrinks: it began where the norm turned."""
    answer = answers["Q4.3"]
    found = _climb(case, "the change of the weights", answer)
    told = sentence(answer.because)
    decay = more_decay(case) if answer.branch == "climbing" else less_decay(case)
    first = found.reload.and_then(decay.kind, str(decay), **decay.change)
    highest, _ = usual_decay(case)
    if decay.kind is ActionKind.LOWER_WEIGHT_DECAY and (decay.now or 0.0) > highest:
        # Under a decay that nobody uses, the weights shrank from the first step on.
        text = sentence(f"{decay}, and start again")
        first = Action(decay.kind, text, checkpoint=0, **decay.change)
    if answer.branch == "climbing" and _exploded(case) and (decay.now or 0.0) >= 0:
        # A decay takes the learning rate's share of it off the weights in a step: too little.
        told += " A loss this large is an optimization blow-up."
        rate = tenth_lr(case, found.began)
        first = found.reload.and_then(
            ActionKind.LOWER_LR, str(rate), str(decay), also=(decay.kind,), **rate.change
        )
    group = answer.measured.get("group")
    more: tuple[Action, ...] = ()
    if decay.kind is ActionKind.LOWER_WEIGHT_DECAY and decay.now and decay.new:
        lower = replace(decay, new=decay.now / 10)
        text = f"If the norm still falls, lower it from {num(decay.now)} to {num(decay.now / 10)}."
        more = (Action(decay.kind, text, **lower.change),)
    return found.advice(
        told,
        first=first,
        then=(
            *more,
            Action(
                ActionKind.FIX_WEIGHT_DECAY,
                f"Check the sign of the weight decay and which groups it reaches, {group!r} first.",
            ),
            Action(
                ActionKind.FIX_WEIGHT_DECAY,
                "Check that the decay is not applied twice, in the loss and in the optimizer.",
            ),
            Action(ActionKind.LOG_MORE, "Log the weight norm of every group at every step."),
        ),
    )


def grad_norm_rising(case: Case, answers: Mapping[str, Answer]) -> Advice:
    """A climb with a rising gradient norm."""
    found, told = _climb(case), sentence(answers["Q4.4"].because)
    if _is_frozen(case):
        data = found.reload.and_then(ActionKind.INSPECT_DATA, found.check_data, step=found.first)
        return found.advice(f"{_FROZEN} {told}", first=data, then=())
    reduced = tenth_lr if _exploded(case) else half_lr
    rate, threshold = reduced(case, found.first), clip(case)
    cut = f"Clip the gradient norm at {threshold}."
    check = (found.check(), *decay_unknown(case))
    then = (*check, Action(ActionKind.CLIP_GRADIENTS, cut, **threshold.change))
    first = found.reload.and_then(ActionKind.LOWER_LR, str(rate), **rate.change)
    return found.advice(told, first=first, then=(*then, _drift(case)))


def unexplained(case: Case, answers: Mapping[str, Answer]) -> Advice:
    """A climb without a logged cause."""
    found, lost = _climb(case), find_collapsed_reward(case)
    if lost is not None:
        return _collapsed_reward(case, found, lost)
    rate, threshold = half_lr(case, found.first), clip(case)
    lower = Action(ActionKind.LOWER_LR, sentence(str(rate)), **rate.change)
    first = found.reload.and_then(ActionKind.INSPECT_DATA, found.check_data, step=found.first)
    then: tuple[Action, ...] = (lower, *decay_unknown(case))
    other = " else" if near_climb(case, found.unsound, found.first) else ""
    what = f"Nothing{other} logged explains it."
    if _is_frozen(case):
        what, then = _FROZEN, ()
    elif _exploded(case):
        what = "Nothing logged explains it, but a loss this large is an optimization blow-up."
        cut, also = f"clip the gradient norm at {threshold}", (ActionKind.CLIP_GRADIENTS,)
        rate = tenth_lr(case, found.first)
        reload = _AGAIN if require_rise(case).best_level > FP32_SQUARE_OVERFLOW else found.reload
        first = reload.and_then(ActionKind.LOWER_LR, str(rate), cut, also=also, **rate.change)
        then = (found.check(), *decay_unknown(case))
    elif answers["Q4.4"].verdict is Verdict.UNKNOWN:
        # No gradient norm acquits the learning rate.
        first = found.reload.and_then(ActionKind.LOWER_LR, str(rate), **rate.change)
        then = (found.check(), *decay_unknown(case))
        if require_rise(case).best <= 1 and found.reload.checkpoint == 0:
            then = (_SIGN, *then)
    return found.advice(what, first=first, then=(*then, *_to_look_at(case)))


def _collapsed_reward(case: Case, found: _Climb, lost: Reward) -> Advice:
    """A climb while the reward fell: a policy is as good as that, whatever its loss does."""
    since = f"the fall of the reward, from about {case.unit} {lost.best_step} on"
    reload = checkpoint_before(case, lost.best_step).reload(since)
    rate = half_lr(case, found.first)
    advice = found.advice(
        f"The reward {lost.column!r} fell from {num(lost.best)} near {case.unit} {lost.best_step} "
        f"to {num(lost.last)}: the policy got worse.",
        first=reload.and_then(ActionKind.LOWER_LR, str(rate), **rate.change),
        then=_to_look_at(case),
    )
    return replace(advice, reload=reload.clause, began=lost.best_step)


def _to_look_at(case: Case) -> tuple[Action, ...]:
    """Return what the evaluations tell of an unexplained climb, and what to log to explain one."""
    return _evaluated(case), *logging_advice(case, ("grad_norm", "lr", "weight_norm"))


def _climb(case: Case, cause: str = "", answer: Answer | None = None) -> _Climb:
    """Tell of a climb, and of the series behind it if that shows when it turned."""
    first, _ = climb(case)
    rise = require_rise(case)
    ended = f"ended at {num(rise.last_level)}"
    if case.comparable_range.stop != len(case.loss):
        ended = f"stood at {num(rise.last_level)} before {describe_range_end(case)}"
    what = (
        f"The loss climbed from {case.unit} {first} on and {ended}, {num(rise.amount)} above its "
        f"best level ({num(rise.best_level)} near {case.unit} {best_step(case)})."
    )
    since, exploded = f"the climb from {case.unit} {first} on", exploded_at(case, rise.onset)
    turned = answer.measured.get("turned") if answer else None
    if exploded is not None and not (isinstance(turned, int) and turned < exploded):
        reload = checkpoint_before(case, exploded, case.stride).reload(
            f"the explosion of the loss at {case.numbered(exploded)}"
        )
        return _Climb(
            first=exploded,
            began=exploded,
            unsound=exploded,
            what=f"The loss exploded at {case.unit} {exploded}, and {ended}.",
            reload=reload,
            unit=case.unit,
        )
    if isinstance(turned, int):
        # By the time that the loss climbs, the weights have long been going wrong.
        since = f"{cause} from {case.unit} {turned} on" if turned < first else since
        unsound = min(turned, first)
        reload = checkpoint_before(case, unsound, case.stride).reload(since)
        return _Climb(
            first=first, began=turned, unsound=unsound, what=what, reload=reload, unit=case.unit
        )
    unsound, sound = first, checkpoint_before(case, first, case.stride)
    if sound.step is None:  # a loss that was best at the beginning has none that is better
        sound = checkpoint_before(case, best_step(case))
    left = _left_its_best(case)
    # A checkpoint from within a slow climb is not sound.
    named = first if sound.step is None else sound.step
    if left + LEVEL * case.stride < named:
        sound, unsound = checkpoint_before(case, left), left
        since = f"the loss left its best level near {case.unit} {left}"
    reload = sound.reload(since)
    return _Climb(
        first=first, began=first, unsound=unsound, what=what, reload=reload, unit=case.unit
    )


def _left_its_best(case: Case) -> int:
    """Return the last step before a climb at which the loss was no higher than its best level.

    A climb is found once it stands out from all the run's normal variation, and a slow one has come
    far by then. Here a level is high if it lies above the best by a deviation of single losses.
    """
    rise, x = require_rise(case), case.loss.values
    before = x[max(rise.best - case.rise_window, case.comparable_range.start) : rise.best + 1]
    if rise.onset - rise.best < LEVEL or len(before) < 2:
        return case.at(rise.onset)
    smooth = medians(np.lib.stride_tricks.sliding_window_view(x[rise.best : rise.onset], LEVEL))
    low = np.flatnonzero(smooth <= rise.best_level + diff_sigma(before))
    last = rise.best + (int(low[-1]) + LEVEL // 2 if len(low) else 0)
    return case.at(last)


def _evaluated(case: Case) -> Action:
    """Return what the evaluation loss tells of a climb, or that it is to be looked at."""
    first, last = climb(case)
    evaluations = case.history.finite("eval_loss")
    before, after = evaluations.until(first).values, evaluations.between(first + 1, last).values
    if not len(before) or not len(after):
        return _COMPARE
    few = min(len(before), len(after))
    then, now = median(before[-few:]), median(after[-few:])
    went = f"went from {num(then)} to {num(now)} over the climb"
    if 2 * (now - then) < require_rise(case).amount:  # it made less than half of the climb
        text = f"Find what made the training data harder: the evaluation loss only {went}."
        return Action(ActionKind.INSPECT_DATA, text)
    text = f"Do not blame harder data alone: the evaluation loss {went}, too."
    return Action(ActionKind.CHECK_EVALUATION, text)


def _drift(case: Case) -> Action:
    """Return to look at the weight norms, or to log them."""
    if case.history.group("weight_norm"):
        text = "Check the weight norms for drift from the initialisation."
        return Action(ActionKind.CHECK_MODEL, text)
    text = "Log weight norms per group, to see drift from the initialisation."
    return Action(ActionKind.LOG_MORE, text)


def _is_frozen(case: Case) -> bool:
    """Tell whether the learning rate was 0 all through the climb, and no weights blew up."""
    rates = case.history.finite("lr").between(*climb(case)).values
    return len(rates) > 1 and not rates.any() and not _exploded(case)


def _exploded(case: Case) -> bool:
    """Tell whether the loss rose far beyond all that it had ever fallen, and its best level.

    One that is absurd in itself may have exploded before the log began.
    """
    rise = require_rise(case)
    before = case.loss.values[: rise.best + 1]
    fell = float(before.max()) - rise.best_level
    far = rise.amount > BLOWUP_RATIO * max(fell, abs(rise.best_level))
    return far or rise.last_level > FP32_SQUARE_OVERFLOW
