"""The building blocks of the advice on every leaf."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from stabdiag.tree.causes import stride_of
from stabdiag.words import listed, num

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stabdiag.findings import Remedy, Scalar
    from stabdiag.tree.case import Case

_SERIES = {
    "grad_norm": "gradient norm",
    "lr": "learning rate",
    "batch_id": "batch id",
    "loss_scale": "loss scale",
    "weight_norm": "weight norm of each group",
}

# What is advised more than once.
CHECK_INITIALISATION = "Check the initialisation and the size of the residual stream."
KEEP_IN_FP32 = "Keep softmax, layer norm and the loss in fp32."
RESTORE_SCHEDULE = (
    "Check that a resume restores the scheduler's state, and that phases join without a step."
)

# What the tree lowers the clip threshold to (Q2.4).
_CLIP = 0.5


@dataclass(frozen=True, kw_only=True)
class Advice:
    """A finding's words: what happened, what to do first, what next; ``step`` is the onset.

    ``reload`` is the clause that names the checkpoint to go back to, whether or not the first
    action begins with it, and ``began`` the step that this checkpoint is from before, where that
    is not the onset; ``remedies`` is what the first action sets about, and ``back`` as in
    ``Finding``. ``title`` stands for the outcome's where that would not be true of this run.
    """

    summary: str
    first: str
    then: tuple[str, ...]
    step: int | None = None
    reload: str = ""
    began: int | None = None
    remedies: tuple[Remedy, ...] = ()
    back: int | None = None
    title: str = ""


def shown(value: Scalar) -> str:
    """Return a measured value in words."""
    return num(value) if isinstance(value, int | float) else str(value)


def now_lr(case: Case, step: int) -> str:
    """Return `` (now 0.003)``, the learning rate in force at a step, if it was logged.

    A rate that has moved on since is not that of now, nor is one from before a NaN, after which the
    log may go on. Of a rate that has come down to 0 no half can be taken: then its peak is told.
    """
    logged = case.history.finite("lr")
    rates = logged.until(step)
    if not len(rates):
        return ""
    now, peak = num(float(rates.values[-1])), float(rates.values.max())
    if float(rates.values[-1]):
        is_now = now == num(float(logged.values[-1])) and not case.before_nan
        return f" (now {now})" if is_now else f" ({now} at step {int(rates.steps[-1])})"
    return f" ({num(peak)} at its peak, 0 by then)" if peak > 0 else ""


def clip(case: Case) -> str:
    """Return the clip threshold to restart with, and the present one if it is known."""
    now = case.manifest.grad_clip
    if now is None:
        return num(_CLIP)
    # A threshold of 0 or less is how clipping is turned off.
    lower = now / 2 if 0 < now <= _CLIP else _CLIP
    return f"{num(lower)} (now {num(now) if now > 0 else 'off'})"


def more_decay(case: Case, group: str = "") -> str:
    """Return what to do about weights that grow: more weight decay, or one of the right sign.

    One that the weights of a ``group`` do not shrink by may not reach them.
    """
    decay = case.manifest.weight_decay
    if decay is not None and decay < 0:
        return f"fix the sign of the weight decay, {num(decay)}, which makes weights grow"
    reaches = f", or check that it applies to {group!r} at all" if group else ""
    if decay == 0:
        return f"turn weight decay on (now 0){reaches}"
    return f"double the weight decay{'' if decay is None else f' (now {num(decay)})'}{reaches}"


def less_decay(case: Case) -> str:
    """Return what to do about weights that shrink: less weight decay, if there is any."""
    decay = case.manifest.weight_decay
    if decay == 0:
        return "look for what shrinks the weights: the weight decay is 0"
    if decay is not None and decay < 0:
        return (
            f"look for what shrinks the weights: a weight decay of {num(decay)} makes them grow, "
            "so fix its sign as well"
        )
    return "halve the weight decay" + ("" if decay is None else f" (now {num(decay)})")


def to_log(case: Case, roles: Sequence[str], densely: Sequence[str] = ()) -> tuple[str, ...]:
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
    return (f"Log the {listed(lacking)} of every step.",) if lacking else ()


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
    if where.startswith("steps"):
        return f"the batches of {where}"
    return f"the batch of {where}" + (" and the two before it" if and_before else "")
