"""Learning rates for a restart, at most the highest usual rate of the optimizer."""

from __future__ import annotations

import math

import numpy as np

from stabdiag.model.text import num, typed
from stabdiag.stats.standards import TENFOLD
from stabdiag.tree.advice.shared import Setting
from stabdiag.tree.case import Case


def peak_rate(case: Case) -> float | None:
    """Return the highest logged learning rate, or else the configured peak."""
    logged = case.history.finite("lr").values
    return float(logged.max(initial=0.0)) or case.manifest.peak_lr or None


def is_warming_up(case: Case) -> bool:
    """Return True if the logged learning rate rises to the end of the log, without a set peak."""
    rises = np.diff(case.history.finite("lr").values)
    return case.manifest.peak_lr is None and bool(len(rises) and rises[-1] and np.all(rises >= 0))


def usual(case: Case) -> tuple[str, float, float]:
    """Return the optimizer family, and its lowest and highest usual peak rates.

    If the optimizer is not configured, the range covers all families. An unknown optimizer has no
    upper bound.
    """
    limits = case.limits.preflight
    pretrained = bool(case.names_pretrained_model)
    rates = limits.usual_rates(case.manifest.optimizer, pretrained=pretrained)
    if rates is None and case.manifest.optimizer:
        return case.manifest.optimizer, 0.0, math.inf
    if rates is None:
        return "any optimizer", limits.lion_lr_low, limits.sgd_lr_high
    return rates.title, rates.low, rates.high


def is_high(case: Case, times: float = 1.0) -> bool:
    """Return True if the peak rate exceeds the highest usual rate ``times`` over."""
    return (peak_rate(case) or 0.0) > times * usual(case)[2]


def is_low(case: Case) -> bool:
    """Return True if the peak rate is closer to the lowest usual rate than to the highest."""
    peak, (_, low, high) = peak_rate(case), usual(case)
    return peak is not None and peak <= (low * high) ** 0.5


def lowered(case: Case, rate: float, times: float = 1.0) -> float:
    """Return a rate divided by a factor, or the highest usual rate if that is lower."""
    return typed(min(rate / times, usual(case)[2]))


def highest_usual_rate(case: Case) -> float:
    """Return the highest usual rate; without a configured optimizer, one that suits all.

    It is usual for Adam, and trains with SGD.
    """
    highest = usual(case)[2]
    return highest if case.manifest.optimizer else min(highest, case.limits.preflight.adam_lr_high)


def half_lr(case: Case, step: int, *, as_noun: bool = False) -> Setting:
    """Return half of the learning rate at a step, for a climbing loss."""
    return _reduced_lr(case, step, 2.0, as_noun=as_noun)


def tenth_lr(case: Case, step: int, *, as_noun: bool = False) -> Setting:
    """Return a tenth of the learning rate at a step, for an explosion."""
    return _reduced_lr(case, step, TENFOLD, as_noun=as_noun)


_WORDS = {
    2.0: ("halve the learning rate to", "half the learning rate"),
    10.0: ("lower the learning rate to a tenth,", "a tenth of the learning rate"),
}


def _reduced_lr(case: Case, step: int, divisor: float, *, as_noun: bool) -> Setting:
    """Return the rate at a step divided by ``divisor``; if it is 0, the peak is divided.

    The words are an imperative clause, or the rate as a noun.
    """
    verb, noun = _WORDS[divisor]
    logged = case.history.finite("lr")
    rates = logged.until(step)
    if not len(rates) or (peak := float(rates.values.max())) <= 0:
        words = noun if as_noun else verb.removesuffix(" to").removesuffix(",")
        return Setting(words=words, name="lr")
    rate, name = float(rates.values[-1]), "lr"
    # The log may continue after a NaN, so its last rate is not necessarily current.
    is_now = num(rate) == num(float(logged.values[-1])) and not case.before_nan
    now = f"now {num(rate)}" if is_now else f"{num(rate)} at {case.unit} {int(rates.steps[-1])}"
    if not rate:
        now, name, rate = f"{num(peak)} at its peak, 0 by then", "peak_lr", peak
    new = lowered(case, rate, divisor)
    words = f"{noun} ({num(new)}; {now})" if as_noun else f"{verb} {num(new)} ({now})"
    if new < typed(rate / divisor):
        words = "a learning rate of" if as_noun else "lower the learning rate to"
        words = f"{words} {num(new)} ({now})"
    return Setting(words=words, name=name, now=rate, new=new)
