"""The building blocks of the advice on every leaf."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from stabdiag.model.findings import Action, ActionKind, Change
from stabdiag.model.text import listed, num, uncapitalised
from stabdiag.tree.causes import stride_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stabdiag.model.findings import Scalar
    from stabdiag.tree.case import Case

_SERIES = {
    "grad_norm": "gradient norm",
    "lr": "learning rate",
    "batch_id": "batch id",
    "loss_scale": "loss scale",
    "weight_norm": "weight norm of each group",
}

# What is advised more than once.
CHECK_INITIALISATION = Action(
    ActionKind.CHECK_MODEL, "Check the initialisation and the size of the residual stream."
)
KEEP_IN_FP32 = Action(ActionKind.SAFE_OPERATIONS, "Keep softmax, layer norm and the loss in fp32.")
RESTORE_SCHEDULE = Action(
    ActionKind.FIX_SCHEDULE,
    "Check that a resume restores the scheduler's state, and that phases join without a step.",
)
TO_BF16 = Change(setting="dtype", from_="fp16", to="bf16")

# What the tree lowers the clip threshold to (Q2.4).
_CLIP = 0.5


@dataclass(frozen=True, kw_only=True)
class Advice:
    """A finding's words: what happened, what to do first, what next; ``step`` is the onset.

    ``reload`` is the clause that names the checkpoint to go back to, whether or not the first
    action begins with it, and ``began`` the step that this checkpoint is from before, where that
    is not the onset; ``back`` is as in ``Finding``. ``title`` stands for the
    outcome's where that would not be true of this run.
    """

    summary: str
    first: Action
    then: tuple[Action, ...]
    step: int | None = None
    reload: str = ""
    began: int | None = None
    back: int | None = None
    title: str = ""


def shown(value: Scalar) -> str:
    """Return a measured value in words."""
    return num(value) if isinstance(value, int | float) else str(value)


@dataclass(frozen=True, kw_only=True)
class Setting:
    """A setting to change: how that is told, and its name, its value now and the new one."""

    words: str
    name: str
    now: float | None = None
    new: float | None = None

    def __str__(self) -> str:
        """Return how it is told."""
        return self.words

    @property
    def change(self) -> Change:
        """What an action on it tells beside its words."""
        return Change(setting=self.name, from_=self.now, to=self.new)


@dataclass(frozen=True, kw_only=True)
class Decay(Setting):
    """What to do about the weight decay: an imperative clause, and its kind."""

    kind: ActionKind
    name: str = "weight_decay"


def half_lr(case: Case, step: int, what: str = "halve the learning rate") -> Setting:
    """Return half of the learning rate in force at a step, with what that is if it was logged.

    A rate that has moved on since is not that of now, nor is one from before a NaN, after which the
    log may go on. Of a rate that has come down to 0 no half can be taken: then its peak is told.
    """
    logged = case.history.finite("lr")
    rates = logged.until(step)
    if not len(rates):
        return Setting(words=what, name="lr")
    rate, peak = float(rates.values[-1]), float(rates.values.max())
    if rate:
        now = num(rate)
        is_now = now == num(float(logged.values[-1])) and not case.before_nan
        told = f"now {now}" if is_now else f"{now} at step {int(rates.steps[-1])}"
        return Setting(words=f"{what} ({told})", name="lr", now=rate, new=rate / 2)
    if peak <= 0:
        return Setting(words=what, name="lr")
    told = f"{num(peak)} at its peak, 0 by then"
    return Setting(words=f"{what} ({told})", name="peak_lr", now=peak, new=peak / 2)


def clip(case: Case) -> Setting:
    """Return the clip threshold to restart with, and the present one if it is known."""
    now = case.manifest.grad_clip
    if now is None:
        return Setting(words=num(_CLIP), name="grad_clip", new=_CLIP)
    # A threshold of 0 or less is how clipping is turned off.
    if now <= 0:
        return Setting(words=f"{num(_CLIP)} (now off)", name="grad_clip", new=_CLIP)
    lower = now / 2 if now <= _CLIP else _CLIP
    words = f"{num(lower)} (now {num(now)})"
    return Setting(words=words, name="grad_clip", now=now, new=lower)


def more_decay(case: Case, group: str = "") -> Decay:
    """Return what to do about weights that grow: more weight decay, or one of the right sign.

    One that the weights of a ``group`` do not shrink by may not reach them.
    """
    decay = case.manifest.weight_decay
    if decay is not None and decay < 0:
        return Decay(
            kind=ActionKind.FIX_WEIGHT_DECAY,
            words=f"fix the sign of the weight decay, {num(decay)}, which makes weights grow",
            now=decay,
        )
    reaches = f", or check that it applies to {group!r} at all" if group else ""
    if decay == 0:
        return Decay(
            kind=ActionKind.RAISE_WEIGHT_DECAY,
            words=f"turn weight decay on (now 0){reaches}",
            now=0.0,
        )
    now = "" if decay is None else f" (now {num(decay)})"
    return Decay(
        kind=ActionKind.RAISE_WEIGHT_DECAY,
        words=f"double the weight decay{now}{reaches}",
        now=decay,
        new=None if decay is None else 2 * decay,
    )


def less_decay(case: Case) -> Decay:
    """Return what to do about weights that shrink: less weight decay, if there is any."""
    decay = case.manifest.weight_decay
    if decay == 0:
        return Decay(
            kind=ActionKind.CHECK_MODEL,
            words="look for what shrinks the weights: the weight decay is 0",
            now=0.0,
        )
    if decay is not None and decay < 0:
        return Decay(
            kind=ActionKind.FIX_WEIGHT_DECAY,
            words=f"look for what shrinks the weights: a weight decay of {num(decay)} makes them "
            "grow, so fix its sign as well",
            now=decay,
        )
    now = "" if decay is None else f" (now {num(decay)})"
    return Decay(
        kind=ActionKind.LOWER_WEIGHT_DECAY,
        words=f"halve the weight decay{now}",
        now=decay,
        new=None if decay is None else decay / 2,
    )


def to_log(case: Case, roles: Sequence[str], densely: Sequence[str] = ()) -> tuple[Action, ...]:
    """Return the advice to log those of these roles that are missing, if any are.

    Those that are wanted ``densely`` are missing, too, where only some steps have them.
    """
    lacking = [
        _SERIES[role]
        for role in roles
        if not (logged := case.history.group(role))
        or (
            role in densely
            and any(stride_of(case.history, series) > 1 for series in logged.values())
        )
    ]
    if not lacking:
        return ()
    return (Action(ActionKind.LOG_MORE, f"Log the {listed(lacking)} of every step."),)


def going_on(action: Action) -> Action:
    """Return the action to let the run go on, and to do this meanwhile."""
    return replace(
        action,
        kind=ActionKind.KEEP_GOING,
        also=action.kinds,
        text=f"Keep the run going, and {uncapitalised(action.text)}",
        alone=action.text,
    )


def first_of(case: Case, step: int) -> int:
    """Return the first step that a logged one stands for: the one after the previous record."""
    steps = case.history.series["loss"].steps
    place = int(np.searchsorted(steps, step))
    return int(steps[place - 1]) + 1 if place else step


def logged_at(case: Case, step: int) -> str:
    """Return the steps that a logged step stands for, in words."""
    if case.history.counts_epochs:
        return f"epoch {step}"
    since = first_of(case, step)
    return f"step {step}" if since >= step else f"steps {since} to {step}"


def batches_at(case: Case, step: int, *, and_before: bool = False) -> str:
    """Return the batches that a logged step stands for, in words, with the two before if asked."""
    where = logged_at(case, step)
    if case.history.counts_epochs:
        return f"what changed at {where}: the data, the learning rate, the settings"
    if first_of(case, step) < step:
        return f"the batches of {where}"
    return f"the batch of {where}" + (" and the two before it" if and_before else "")
