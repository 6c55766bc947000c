"""Learning rates to start again with: none is higher than an optimizer's users ever go."""

from __future__ import annotations

import math

from stabdiag.model.text import num, typed
from stabdiag.tree.advice.shared import Setting
from stabdiag.tree.case import Case


def peak_rate(case: Case) -> float | None:
    """Return the highest learning rate, as logged or else as configured."""
    logged = case.history.finite("lr").values
    return float(logged.max(initial=0.0)) or case.manifest.peak_lr or None


def usual(case: Case) -> tuple[str, float, float]:
    """Return whose peak rates the optimizer's are like, and the lowest and highest usual ones.

    Without the optimizer, those of any; of one of no known family, all are usual.
    """
    limits = case.limits.preflight
    known = limits.usual_rates(case.manifest.optimizer)
    if known is None and case.manifest.optimizer:
        return case.manifest.optimizer, 0.0, math.inf
    if known is None:
        return "any optimizer", limits.lion_lr_low, limits.sgd_lr_high
    return known.title, known.low, known.high


def is_high(case: Case, times: float = 1.0) -> bool:
    """Tell whether the peak rate is above the highest usual one, or so many times that."""
    return (peak_rate(case) or 0.0) > times * usual(case)[2]


def is_low(case: Case) -> bool:
    """Tell whether the peak rate is nearer to the lowest usual one than to the highest."""
    peak, (_, low, high) = peak_rate(case), usual(case)
    return peak is not None and peak <= (low * high) ** 0.5


def lowered(case: Case, rate: float, times: float = 1.0) -> float:
    """Return a rate divided by a factor, or the highest usual one if that is lower."""
    return typed(min(rate / times, usual(case)[2]))


def for_any(case: Case) -> float:
    """Return the highest usual rate; where the optimizer is not told, one that is usual for each.

    It suits Adam, and trains with SGD.
    """
    highest = usual(case)[2]
    return highest if case.manifest.optimizer else min(highest, case.limits.preflight.adam_lr_high)


def half_lr(case: Case, step: int, *, as_noun: bool = False) -> Setting:
    """Return half of the learning rate in force at a step, or of its peak once it is down to 0.

    The words are an imperative clause, or the rate itself.
    """
    what = "half the learning rate" if as_noun else "halve the learning rate"
    logged = case.history.finite("lr")
    rates = logged.until(step)
    if not len(rates) or (peak := float(rates.values.max())) <= 0:
        return Setting(words=what, name="lr")
    rate, name = float(rates.values[-1]), "lr"
    # After a NaN the log may go on: what it logs last is not the rate of now.
    is_now = num(rate) == num(float(logged.values[-1])) and not case.before_nan
    told = f"now {num(rate)}" if is_now else f"{num(rate)} at {case.unit} {int(rates.steps[-1])}"
    if not rate:
        told, name, rate = f"{num(peak)} at its peak, 0 by then", "peak_lr", peak
    new = lowered(case, rate, 2)
    if new < typed(rate / 2):
        what = "a learning rate of" if as_noun else "lower the learning rate to"
    else:
        what += "," if as_noun else " to"
    return Setting(words=f"{what} {num(new)} ({told})", name=name, now=rate, new=new)
