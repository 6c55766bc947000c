"""Advice on §4: divergence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from stabdiag.model.findings import Action, ActionKind, Answer, Verdict
from stabdiag.model.limits.checks import optimizer_family
from stabdiag.model.text import num, sentence
from stabdiag.stats.course import start_level
from stabdiag.stats.quantiles import median
from stabdiag.stats.shape import BLOWUP_RATIO, FP32_SQUARE_OVERFLOW
from stabdiag.stats.standards import TENFOLD
from stabdiag.tree.advice.climb import ClimbAdvice, find_climb
from stabdiag.tree.advice.rates import half_lr, lowered, tenth_lr
from stabdiag.tree.advice.settings import far_settings, replacement
from stabdiag.tree.advice.shared import (
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
from stabdiag.tree.checkpoint import Reload, earlier_checkpoint
from stabdiag.tree.divergence import climb_steps, require_rise
from stabdiag.tree.drivers import step_phrase
from stabdiag.tree.reward import Reward, find_collapsed_reward

_PLOT = Action(ActionKind.LOG_MORE, "Plot the learning rate at every step before the restart.")
_ZERO_RATE = "The learning rate was 0 all that time: the weights did not change, so the data did."
_START_OVER = Reload(
    clause="Restart from the beginning (no checkpoint of this log is sound)", checkpoint=0
)
_CHECK_SIGN = Action(
    ActionKind.CHECK_LOSS_FUNCTION,
    "Check the sign of the loss, and that the optimizer goes down: the loss never fell.",
)
_CHECK_ZEROED = Action(
    ActionKind.CHECK_MODEL,
    "Check that optimizer.zero_grad() runs before each backward pass: gradients that add up grow "
    "from the first steps on.",
)
_COMPARE = Action(
    ActionKind.CHECK_EVALUATION,
    "Compare with the evaluation loss: if that still falls, the training data got harder.",
)


def lr_rising(case: Case, answers: Mapping[str, Answer]) -> Advice:
    """A climb with a rising learning rate; it began where the rate began to rise, if visible."""
    answer = answers["Q4.2"]
    if answer.branch == "jump":
        return _lr_jump(case, answer)
    climb = find_climb(case, "the rise of the learning rate", answer)
    begin, end = (shown(answer.measured.get(key)) for key in ("lr_first", "lr_last"))
    lr = case.history.series["lr"].finite()
    highest = int(lr.steps[np.argmax(lr.values)])
    turning = float(lr.values[max(int(np.searchsorted(lr.steps, climb.first, "right")) - 1, 0)])
    first, last = answer.steps
    to = min(lowered(case, turning), turning)  # rounding must not raise it
    below = f"{num(to)}: the loss stopped falling at {num(turning)}"
    act = climb.reload.and_then(
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
        # A planned warm-up is correct, but its peak is too high.
        act = climb.reload.and_then(
            ActionKind.LOWER_LR,
            f"keep the learning rate below {below}, and the warm-up of {warmup} {case.unit}s goes "
            "beyond it",
            setting="peak_lr",
            to=to,
        )
        text = "To keep the peak, lengthen the warm-up."
        other = Action(ActionKind.ADD_WARMUP, text, setting="warmup_steps")
    check = "Check warm-up and total steps against the intended schedule."
    began = step_phrase(case, lr, climb.began)
    since = f"; its rise began {began}" if "turning_step" in answer.measured else ""
    return climb.advice(
        f"The learning rate went from {begin} at {case.unit} {first} to {end} at {case.unit} "
        f"{last}{since}.",
        first=act,
        next_actions=(Action(ActionKind.CHECK_SETTINGS, check), _PLOT, other),
    )


def _lr_jump(case: Case, answer: Answer) -> Advice:
    """A climb after a lasting jump of the learning rate."""
    climb = find_climb(case, "the learning-rate jump", answer)
    before, after = (shown(answer.measured.get(key)) for key in ("lr_before", "lr_after"))
    undo = f"undo the learning-rate jump at {case.unit} {climb.began}"
    find = (
        f"Find what raised it from {before} to {after}: another schedule after a resume, a step "
        "counted twice, or a manual change."
    )
    return climb.advice(
        sentence(answer.because),
        first=climb.reload.and_then(ActionKind.FIX_SCHEDULE, undo, step=climb.began),
        next_actions=(
            Action(ActionKind.FIX_SCHEDULE, find),
            _PLOT,
            Action(ActionKind.ADD_WARMUP, "If a higher rate is intended, warm up to it."),
        ),
    )


def weights(case: Case, answers: Mapping[str, Answer]) -> Advice:
    """A climb with a weight norm that grows or shrinks; it began where the norm began to change."""
    answer = answers["Q4.3"]
    climb = find_climb(case, "the change of the weights", answer)
    detail = sentence(answer.because)
    decay = more_decay(case) if answer.branch == "climbing" else less_decay(case)
    first = climb.reload.and_then(decay.kind, str(decay), **decay.change)
    if decay.kind is ActionKind.LOWER_WEIGHT_DECAY:
        first = _extreme_decay(case) or first
    if answer.branch == "climbing" and _exploded(case) and (decay.now or 0.0) >= 0:
        # Each step applies the decay times the learning rate, which is too little here.
        detail += " A loss this large is an optimization blow-up."
        rate = tenth_lr(case, climb.began)
        first = climb.reload.and_then(
            ActionKind.LOWER_LR, str(rate), str(decay), also=(decay.kind,), **rate.change
        )
    group = answer.measured.get("group")
    lower_again: tuple[Action, ...] = ()
    if decay.kind is ActionKind.LOWER_WEIGHT_DECAY and decay.now and decay.new:
        new = decay.now / TENFOLD
        lower = replace(decay, new=new)
        text = f"If the norm still falls, lower it from {num(decay.now)} to {num(new)}."
        lower_again = (Action(decay.kind, text, **lower.change),)
    return climb.advice(
        detail,
        first=first,
        next_actions=(
            *lower_again,
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
    climb, detail = find_climb(case), sentence(answers["Q4.4"].because)
    if _is_frozen(case):
        data = climb.reload.and_then(ActionKind.INSPECT_DATA, climb.check_data, step=climb.first)
        return climb.advice(f"{_ZERO_RATE} {detail}", first=data, next_actions=())
    reduced = tenth_lr if _exploded(case) else half_lr
    rate, threshold = reduced(case, climb.first), clip(case)
    cut = f"Clip the gradient norm at {threshold}."
    zeroed = (_CHECK_ZEROED,) if climb.reload.checkpoint == 0 else ()
    settings = [setting for setting in far_settings(case) if setting.name != "peak_lr"]
    detail = " ".join((detail, *(setting.text for setting in settings)))
    changes = map(replacement, settings)
    check = (*changes, *zeroed, climb.check(), *decay_unknown(case))
    next_actions = (*check, Action(ActionKind.CLIP_GRADIENTS, cut, **threshold.change))
    first = climb.reload.and_then(ActionKind.LOWER_LR, str(rate), **rate.change)
    actions = (first, *next_actions, *_try_bf16(case), _check_drift(case))
    (first, *others), detail = climb.after_resume(actions, detail)
    return climb.advice(detail, first=first, next_actions=tuple(others))


def unexplained(case: Case, answers: Mapping[str, Answer]) -> Advice:
    """A climb without a logged cause."""
    climb, reward = find_climb(case), find_collapsed_reward(case)
    if reward is not None:
        return _collapsed_reward(case, climb, reward)
    rate, threshold = half_lr(case, climb.first), clip(case)
    lower = Action(ActionKind.LOWER_LR, sentence(str(rate)), **rate.change)
    first = climb.reload.and_then(ActionKind.INSPECT_DATA, climb.check_data, step=climb.first)
    next_actions: tuple[Action, ...] = (lower, *decay_unknown(case))
    other = " else" if near_climb(case, climb.damage_start, climb.first) else ""
    detail, title = f"Nothing{other} logged explains it.", ""
    if _is_frozen(case):
        detail, next_actions = _ZERO_RATE, ()
    elif _exploded(case):
        detail = "Nothing logged explains it, but a loss this large is an optimization blow-up."
        cut, other_kinds = f"clip the gradient norm at {threshold}", (ActionKind.CLIP_GRADIENTS,)
        rate = tenth_lr(case, climb.first)
        reload = (
            _START_OVER if require_rise(case).best_level > FP32_SQUARE_OVERFLOW else climb.reload
        )
        first = reload.and_then(
            ActionKind.LOWER_LR, str(rate), cut, also=other_kinds, **rate.change
        )
        next_actions = (climb.check(), *decay_unknown(case))
    elif (start_over := _extreme_decay(case)) is not None:
        detail = f"The weight decay is {num(case.manifest.weight_decay or 0.0)}; "
        detail += f"{usual_decay(case)[1]}."
        first, next_actions = start_over, (first, lower)
    elif settings := [setting for setting in far_settings(case) if setting.is_high]:
        detail = " ".join(setting.text for setting in settings)
        first, *changes = map(replacement, settings)
        next_actions = (*changes, climb.check(), *next_actions)
        title = "The loss diverged; a setting is outside its usual range"
    elif climb.reload.checkpoint == 0:
        # So early, the rate is more often too high than the data harder.
        reduce = climb.reload.and_then(ActionKind.LOWER_LR, str(rate), **rate.change)
        first, next_actions = reduce, (climb.check(), *decay_unknown(case))
    elif answers["Q4.4"].verdict is Verdict.UNKNOWN:
        # Without a gradient norm, the learning rate may be the cause.
        first = climb.reload.and_then(ActionKind.LOWER_LR, str(rate), **rate.change)
        next_actions = (climb.check(), *decay_unknown(case))
    if (
        climb.reload.checkpoint == 0
        and require_rise(case).best <= 1
        and first.kind is ActionKind.LOWER_LR
    ):
        next_actions = (_CHECK_SIGN, *next_actions)
    actions = (first, *next_actions, *_try_bf16(case), *_further_checks(case))
    (first, *others), detail = climb.after_resume(actions, detail)
    advice = climb.advice(detail, first=first, next_actions=tuple(others))
    return replace(advice, title=title)


def _extreme_decay(case: Case) -> Action | None:
    """Return the action for a weight decay above the usual ones, which acts from the first step."""
    decay, (highest, _) = less_decay(case), usual_decay(case)
    if decay.now is None or decay.now <= highest:
        return None
    return Action(decay.kind, sentence(f"{decay}, and start again"), checkpoint=0, **decay.change)


def _try_bf16(case: Case) -> tuple[Action, ...]:
    """Return the action for Adam in fp16, whose second moments may underflow."""
    if case.manifest.dtype != "fp16" or optimizer_family(case.manifest.optimizer) != "adam":
        return ()
    text = "Run it in bf16: in fp16, Adam's second moments may underflow to 0."
    return (Action(ActionKind.CHECK_PRECISION, text, also=(ActionKind.CHANGE_DTYPE,)),)


def _collapsed_reward(case: Case, climb: ClimbAdvice, reward: Reward) -> Advice:
    """A climb while the reward fell, which measures the policy regardless of the loss."""
    since = f"the fall of the reward, from about {case.unit} {reward.fall_step} on"
    reload = earlier_checkpoint(case, reward.fall_step).reload(since)
    rate = half_lr(case, climb.first)
    advice = climb.advice(
        f"The reward {reward.column!r} fell from {num(reward.best)} near {case.unit} "
        f"{reward.fall_step} to {num(reward.last)}: the policy got worse.",
        first=reload.and_then(ActionKind.LOWER_LR, str(rate), **rate.change),
        next_actions=_further_checks(case),
    )
    return replace(advice, reload=reload.clause, began=reward.fall_step)


def _further_checks(case: Case) -> tuple[Action, ...]:
    """Return the actions for an unexplained climb: check evaluations, log more."""
    return _check_evaluation(case), *logging_advice(case, ("grad_norm", "lr", "weight_norm"))


def _check_evaluation(case: Case) -> Action:
    """Return the action on the evaluation loss: what it shows of the climb, or to check it."""
    first, last = climb_steps(case)
    evaluations = case.history.finite("eval_loss")
    before, after = evaluations.until(first).values, evaluations.between(first + 1, last).values
    if not len(before) or not len(after):
        return _COMPARE
    count = min(len(before), len(after))
    first_level, last_level = median(before[-count:]), median(after[-count:])
    change = f"went from {num(first_level)} to {num(last_level)} over the climb"
    if 2 * (last_level - first_level) < require_rise(case).amount:  # less than half of the climb
        text = f"Find what made the training data harder: the evaluation loss only {change}."
        return Action(ActionKind.INSPECT_DATA, text)
    text = f"Do not blame harder data alone: the evaluation loss {change}, too."
    return Action(ActionKind.CHECK_EVALUATION, text)


def _check_drift(case: Case) -> Action:
    """Return the action to check the weight norms, or to log them."""
    if case.history.group("weight_norm"):
        text = "Check the weight norms for drift from initialization."
        return Action(ActionKind.CHECK_MODEL, text)
    text = "Log weight norms per group, to see drift from initialization."
    return Action(ActionKind.LOG_MORE, text)


def _is_frozen(case: Case) -> bool:
    """Return True if the learning rate was 0 throughout the climb and the loss did not explode."""
    rates = case.history.finite("lr").between(*climb_steps(case)).values
    return len(rates) > 1 and not rates.any() and not _exploded(case)


def _exploded(case: Case) -> bool:
    """Return True if the loss rose by many times its earlier fall and its best level.

    A loss above the overflow limit may have exploded before the log began.
    """
    rise = require_rise(case)
    before = case.loss.values[: rise.best + 1]
    if rise.last_level > BLOWUP_RATIO * start_level(before) > 0:
        return True
    drop = float(before.max()) - rise.best_level
    is_blowup = rise.amount > BLOWUP_RATIO * max(drop, abs(rise.best_level))
    return is_blowup or rise.last_level > FP32_SQUARE_OVERFLOW
