"""Losses that rise by design: what they are measured on gets harder by and by.

Noise that grows, a mask that grows, a penalty that weighs more: the loss of a run that learns rises
with them, and in proportion (``tree/course.py``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from stabdiag.model.text import num
from stabdiag.tree.changes import named
from stabdiag.tree.course import goes_with, rise_with

if TYPE_CHECKING:
    from stabdiag.model.history import Series
    from stabdiag.stats.shape import Spike
    from stabdiag.tree.case import Case
    from stabdiag.tree.course import RiseWith


@dataclass(frozen=True, kw_only=True)
class Ramp:
    """A setting that made the loss rise: from what to what, and from which level to which.

    ``first`` and ``last`` are the positions of the losses between which it did; from ``until`` on
    losses are comparable again. ``weighs`` says that it is the weight of a part of the loss.
    """

    name: str
    first: int
    last: int
    until: int
    before: str
    after: str
    low: float
    high: float
    weighs: bool


def ramp_of(case: Case) -> Ramp | None:
    """Return what the loss is measured on, if it got harder and the loss rose with it.

    Of several the one that went on for longest is taken.
    """
    if case.literal:
        return None
    settings = (one.finite() for one in case.history.group("setting").values())
    found = (
        _ramp(case, one, rise)
        for one in settings
        if (rise := rise_with(case, one)) is not None and goes_with(case, rise)
    )
    return max(found, key=lambda ramp: ramp.until, default=None)


def rises_beside_weight(case: Case) -> bool:
    """Tell whether the loss rose while a part of it came to weigh more, but not with the weight."""
    rise = None if case.literal else rise_with(case, case.history.finite("loss_weight"))
    return rise is not None and not goes_with(case, rise)


def is_on_ramp(case: Case, spike: Spike) -> bool:
    """Tell whether a jump that stayed is a part of a rise that is spread over a change.

    What comes to weigh more may lift the loss all at once: then nothing tells that it did.
    """
    ramp = case.ramp
    if ramp is None or ramp.weighs or spike.recovered:
        return False
    return ramp.first <= spike.onset < ramp.last


def rose_with(case: Case, ramp: Ramp) -> str:
    """Return that the loss rose, and with what."""
    return (
        f"from step {case.at(ramp.first)} to {case.at(ramp.last)} the loss rose from "
        f"{num(ramp.low)} to {num(ramp.high)} as {ramp.name} went from {ramp.before} to "
        f"{ramp.after}: the two are not comparable"
    )


def to_compare(ramp: Ramp) -> str:
    """Return what to log, so that losses are comparable."""
    if ramp.weighs:
        return "log the parts of the loss unweighted, too"
    return "an evaluation at one setting of it tells whether the run still learns"


def _ramp(case: Case, setting: Series, one: RiseWith) -> Ramp:
    before, after = (
        float(setting.until(case.at(position)).values[-1]) for position in (one.first, one.last)
    )
    return Ramp(
        name=named(setting.column),
        first=one.first,
        last=one.last,
        until=one.until,
        before=num(before),
        after=num(after),
        low=one.rise.best_level,
        high=one.rise.last_level,
        weighs=one.weighs,
    )
