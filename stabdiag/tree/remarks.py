"""What is no fault by any question, but nobody who looks at a healthy run should miss."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from stabdiag.model.findings import Action, ActionKind
from stabdiag.model.text import capitalised, num, plural
from stabdiag.stats.levels import block_levels
from stabdiag.stats.quantiles import diff_sigma, median
from stabdiag.tree.changes import went
from stabdiag.tree.comparable import rose_with, to_compare
from stabdiag.tree.rises import SEEN

if TYPE_CHECKING:
    from stabdiag.model.arrays import Floats
    from stabdiag.tree.case import Case

# A climb that was made good, by half at least, is told of if it undid this share of the progress.
_PART = 0.25
_BACK = 0.5

# A level is that of so many losses, and a loss that fell at once fell to less than this share.
_LEVEL = 20
_SHARE = 0.5

# It did so from one loss to the next, by this share of its fall at least.
_AT_ONCE = 0.8

# A learning rate that fell by this factor explains it.
_DECAY = 0.7


@dataclass(frozen=True, kw_only=True)
class Remark:
    """What is to be known, in sentences, and what to make sure of."""

    told: str = ""
    first: Action | None = None


def remark_on(case: Case) -> Remark:
    """Return what is to be remarked on the losses of a healthy run; an empty one if nothing is."""
    if case.literal or case.reward is not None or case.history.contested is not None:
        return Remark()
    found = _shifted(case) or _ramped(case) or _fallen_at_once(case)
    return found or Remark()


def climb_made_good(case: Case) -> str:
    """Tell in words the largest climb of section 4's losses that was made good; "" if it is small.

    A descent at the beginning is none, and what lasts less than half a window is no climb.
    """
    x, size = case.loss.values[case.settled], max(case.rise_window // 2, _LEVEL // 2)
    if len(x) < 2 * size:
        return ""
    means, starts = block_levels(x, size)
    up = means - np.minimum.accumulate(means)
    high = int(np.argmax(up))
    low = int(np.argmin(means[: high + 1]))
    height, progress = float(up[high]), float(means[0] - means[low])
    back = float(means[-1]) < float(means[high]) - _BACK * height
    if not back or height <= max(_PART * progress, SEEN * diff_sigma(x)):
        return ""
    middle = case.settled.start + size // 2
    low_step, high_step = (case.at(middle + int(starts[at])) for at in (low, high))
    return (
        f"it rose from {num(float(means[low]))} near step {low_step} to "
        f"{num(float(means[high]))} near step {high_step}, and came back"
    )


def _shifted(case: Case) -> Remark | None:
    """Return where the loss rose for good as it is measured on something else since."""
    if not case.shifts:
        return None
    shift, more = case.shifts[-1], len(case.shifts) - 1
    others = f" The same holds of {plural(more, 'earlier rise')}." if more else ""
    change = shift.changes[0]
    return Remark(
        told=f"From step {case.at(shift.spike.onset)} on the loss is higher, "
        f"{num(shift.spike.level)} before and {num(shift.level)} after, as {went(shift.changes)}: "
        f"the two are not comparable.{others}",
        first=Action(
            ActionKind.CHECK_SETTINGS,
            f"Make sure that the change of {change.name} {change.place} was meant.",
            setting=change.name,
        ),
    )


def _ramped(case: Case) -> Remark | None:
    """Return where the loss rose with what it is measured on, and what would tell more."""
    ramp = case.ramp
    if ramp is None:
        return None
    told = (rose_with(case, ramp), to_compare(ramp))
    return Remark(
        told=" ".join(f"{capitalised(one)}." for one in told),
        first=Action(
            ActionKind.CHECK_SETTINGS,
            f"Make sure that {ramp.name} was meant to change as it did.",
            setting=ramp.name,
        ),
    )


def _fallen_at_once(case: Case) -> Remark | None:
    """Return where the loss fell far from one step to the next and stayed there.

    No step of an optimizer does that to a loss that stood still: it is measured otherwise since, or
    a learning rate fell.
    """
    x = case.loss.values
    at = _fall(x)
    if at is None or _rate_fell(case, at):
        return None
    before, after = median(x[at - _LEVEL : at]), median(x[at : at + _LEVEL])
    return Remark(
        told=f"At step {case.at(at)} the loss fell from {num(before)} to {num(after)} at once.",
        first=Action(
            ActionKind.CHECK_LOSS_FUNCTION,
            f"Check that the loss still measures the same from step {case.at(at)} on: the same "
            "batches, labels and mean.",
            step=case.at(at),
        ),
    )


def _fall(x: Floats) -> int | None:
    """Return the position of the first loss after a fall, shape (n,) finite; None without one."""
    if len(x) < 5 * _LEVEL or x.min() <= 0:
        return None
    at = 1 + int(np.argmin(np.diff(x)))
    parts = (x[max(at - _LEVEL, 0) : at], x[at : at + _LEVEL])
    if min(map(len, parts)) < _LEVEL:
        return None
    before, after = map(median, parts)
    fell = before - after
    far = after < _SHARE * before and fell > SEEN * max(map(diff_sigma, parts))
    # Spikes come down as far, and data that come in blocks do so again and again.
    alone = max(x[at:].max() - after, before - x[:at].min()) < _AT_ONCE * fell
    return at if far and alone and x[at - 1] - x[at] > _AT_ONCE * fell else None


def _rate_fell(case: Case, at: int) -> bool:
    lr = case.history.finite("lr").between(case.at(at - _LEVEL), case.at(at)).values
    return len(lr) > 1 and bool(lr.min() < _DECAY * lr[0])
