"""Q4.2: does the learning rate rise while the loss climbs, and since when?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from stabdiag.model.text import num
from stabdiag.stats.quantiles import median
from stabdiag.tree.lr_over import lr_over
from stabdiag.tree.question import Reply, no, unknown, yes
from stabdiag.tree.rises import best_step, climb
from stabdiag.tree.turns import at_or_near, turned_to

if TYPE_CHECKING:
    from stabdiag.model.findings import Scalar
    from stabdiag.tree.case import Case


def is_the_lr_rising(case: Case) -> Reply:
    """Q4.2: did the learning rate rise over the climb, or jump where it began?"""
    first, last = climb(case)
    lr = lr_over(case, first, last)
    if lr is None:
        return unknown("too few learning rates were logged over the climb")
    begin, end, since = lr.begin, lr.end, lr.first
    ratio = end / begin if begin > 0 else (1.0 if end == begin else float("inf"))
    told = f"the learning rate went from {num(begin)} at step {since} to {num(end)} at step {last}"
    if end > begin * case.limits.divergence.lr_rise and lr.again:
        told += f", no higher than it had been before ({num(lr.highest_before)})"
    measured: dict[str, Scalar] = {"lr_first": begin, "lr_last": end, "lr_ratio": ratio}
    jump = None if case.literal or lr.rises else _lr_jump(case, first, last)
    if jump is not None:
        told = (
            f"the learning rate jumped from {num(jump.before)} to {num(jump.after)} at step "
            f"{jump.step}, and stayed up"
        )
        measured |= {"lr_before": jump.before, "lr_after": jump.after, "turned": jump.step}
        return yes(told, jump.step, last, branch="jump", measured=measured)
    if not lr.rises:
        return no(told, since, last, measured=measured)
    turned = turned_to(case, case.history.series["lr"], first, last)
    if turned is not None:
        told += f"; the rise began {at_or_near(case.history.series['lr'], turned)}"
        measured["turned"] = turned
    return yes(told, since, last, measured=measured)


@dataclass(frozen=True, kw_only=True)
class _LrJump:
    """A jump of the learning rate: the first step after it, and the rates before and after."""

    step: int
    before: float
    after: float


def _lr_jump(case: Case, first: int, last: int) -> _LrJump | None:
    """Return the jump of the learning rate that began a climb between two steps, or None.

    It lies between the best level of the loss and the middle of the climb, and the rate mostly
    stayed above all that had been before.
    """
    best = best_step(case)
    lr = case.history.finite("lr")
    for step in case.causes.lr_jumps[::-1].tolist():
        before, after = lr.values[lr.steps < step], lr.between(step, last).values
        if (
            best <= step <= (first + last) / 2
            and median(after) > before.max() * case.limits.divergence.lr_rise
        ):
            return _LrJump(step=step, before=float(before[-1]), after=float(after[0]))
    return None
