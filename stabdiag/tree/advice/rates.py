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
    pretrained = bool(case.names_pretrained_model)
    known = limits.usual_rates(case.manifest.optimizer, pretrained=pretrained)
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
    """Return half of the learning rate in force at a step: what a loss that climbs needs."""
    return _reduced_lr(case, step, 2.0, as_noun=as_noun)


def tenth_lr(case: Case, step: int, *, as_noun: bool = False) -> Setting:
    """Return a tenth of the learning rate in force at a step: what an explosion needs."""
    return _reduced_lr(case, step, 10.0, as_noun=as_noun)


_WORDS = {
    2.0: ("halve the learning rate to", "half the learning rate"),
    10.0: ("lower the learning rate to a tenth,", "a tenth of the learning rate"),
}


def _reduced_lr(case: Case, step: int, divisor: float, *, as_noun: bool) -> Setting:
    """Return the rate in force at a step over a divisor, or its peak's once it is down to 0.

    The words are an imperative clause, or the rate itself.
    """
    verb, noun = _WORDS[divisor]
    logged = case.history.finite("lr")
    rates = logged.until(step)
    if not len(rates) or (peak := float(rates.values.max())) <= 0:
        words = noun if as_noun else verb.removesuffix(" to").removesuffix(",")
        return Setting(words=words, name="lr")
    rate, name = float(rates.values[-1]), "lr"
    # After a NaN the log may go on: what it logs last is not the rate of now.
    is_now = num(rate) == num(float(logged.values[-1])) and not case.before_nan
    now = f"now {num(rate)}" if is_now else f"{num(rate)} at {case.unit} {int(rates.steps[-1])}"
    if not rate:
        now, name, rate = f"{num(peak)} at its peak, 0 by then", "peak_lr", peak
    new = lowered(case, rate, divisor)
    what = f"{noun}," if as_noun else verb
    if new < typed(rate / divisor):
        what = "a learning rate of" if as_noun else "lower the learning rate to"
    return Setting(words=f"{what} {num(new)} ({now})", name=name, now=rate, new=new)
