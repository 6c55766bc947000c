"""Fixes of a learning rate or weight decay outside its usual range."""

from __future__ import annotations

import numpy as np

from stabdiag.model.findings import Action
from stabdiag.model.findings import ActionKind as Do
from stabdiag.model.text import num, percent, sentence, typed
from stabdiag.stats.standards import HALF, MIN_TREND_POINTS, TENFOLD
from stabdiag.tree.advice.rates import highest_usual_rate, peak_rate, usual
from stabdiag.tree.advice.shared import less_decay, usual_decay
from stabdiag.tree.case import Case
from stabdiag.tree.pretraining import starts_pretrained

# A rate this many times the highest usual one is clearly wrong.
FAR_RATE = TENFOLD


def lower_rate(case: Case, *, is_second: bool = False) -> Action:
    """Return the advice to start with a lower rate; ``is_second`` asks for the one after that."""
    peak, start = peak_rate(case), "If it still climbs, try again" if is_second else "Start again"
    if peak is None:
        part = "hundredth" if is_second else "tenth"
        text = f"{start} with a {part} of the learning rate, and a longer warm-up."
        return Action(Do.LOWER_LR, text, also=(Do.ADD_WARMUP,), checkpoint=0)
    to = typed(min(peak / TENFOLD, highest_usual_rate(case)) / (TENFOLD if is_second else 1))
    text = f"{start} with a peak learning rate of {num(to)} instead of {num(peak)}."
    return Action(Do.LOWER_LR, text, setting="peak_lr", from_=peak, to=to, checkpoint=0)


def setting_out_of_range(case: Case) -> tuple[str, Action] | None:
    """Return the text and fix for a weight decay or peak rate outside its usual range."""
    decay = case.manifest.weight_decay
    highest, usual_range = usual_decay(case)
    if decay is None or decay <= highest:
        return lr_out_of_range(case)
    fix = less_decay(case)
    words = f"The weight decay is {num(decay)}; {usual_range}."
    text = sentence(f"{fix} and start again")
    return words, Action(fix.kind, text, checkpoint=0, **fix.change)


def lr_out_of_range(case: Case) -> tuple[str, Action] | None:
    """Return the text and fix for a peak rate outside the usual range of its optimizer."""
    peak = peak_rate(case)
    if not peak or peak < 0:
        return None
    optimizer, low, high = usual(case)
    # This range is wide if the optimizer's family is unknown.
    if low <= peak <= high:
        return None
    too_high = peak > high
    if not too_high and starts_pretrained(case):
        return None
    to = typed(
        min(peak / TENFOLD, highest_usual_rate(case)) if too_high else max(TENFOLD * peak, low)
    )
    verb = "Lower" if too_high else "Raise"
    words = (
        f"The peak learning rate is {num(peak)}; {num(low)} to {num(high)} is usual for "
        f"{optimizer}."
    )
    return words, Action(
        Do.LOWER_LR if too_high else Do.RAISE_LR,
        f"{verb} the peak learning rate from {num(peak)} to {num(to)} and start again.",
        setting="peak_lr",
        from_=peak,
        to=to,
        checkpoint=0,
    )


def unfinished_warmup(case: Case) -> tuple[str, Action] | None:
    """Return the text and fix for a rate that rises to the end and is far below its set peak."""
    lr, peak = case.history.finite("lr"), case.manifest.peak_lr
    if not peak or len(lr) < MIN_TREND_POINTS or lr.highest >= HALF * peak:
        return None
    if np.any(np.diff(lr.values) <= 0):
        return None
    last, step = float(lr.values[-1]), int(lr.steps[-1])
    words = (
        f"The learning rate still rises at {case.unit} {step}: it is {num(last)} there, and its "
        f"peak is set to {num(peak)}."
    )
    usual = percent(case.limits.preflight.warmup_high, 2)
    usual_steps = max(round(case.limits.preflight.warmup_high * step), 1)
    return words, Action(
        Do.FIX_SCHEDULE,
        f"Shorten the warm-up so that it ends within {usual_steps} {case.unit}s, {usual} of the "
        "run, and check its unit: optimizer steps, micro-batches, epochs, samples.",
        also=(Do.RAISE_LR,),
        setting="warmup_steps",
        to=usual_steps,
        checkpoint=0,
    )


def rate_near_low(case: Case) -> tuple[str, Action] | None:
    """Return the text and fix for a peak rate just above the lowest usual one.

    Only a known optimizer has a usual rate to raise it to: the geometric middle of its range.
    """
    peak, (optimizer, low, high) = peak_rate(case), usual(case)
    is_known = case.limits.preflight.usual_rates(case.manifest.optimizer) is not None
    if starts_pretrained(case) or not peak or not low <= peak <= FAR_RATE * low:
        return None
    lowest = "the lowest" if peak <= low else "near the lowest"
    words = (
        f"The peak learning rate is {num(peak)}, {lowest} that is usual for {optimizer}"
        f"{'' if peak <= low else f', {num(low)}'}."
    )
    if not is_known:
        text = f"Run a learning-rate range test: a peak of {num(peak)} hardly changes the weights."
        return words, Action(Do.TEST_LR, text, also=(Do.RAISE_LR,), setting="peak_lr")
    return words, raise_rate(peak, typed((low * high) ** 0.5))


def raise_rate(peak: float, to: float, only_if: str = "") -> Action:
    """Return the advice to start with a higher rate."""
    verb = f"{only_if}, raise" if only_if else "Raise"
    text = f"{verb} the peak learning rate from {num(peak)} to {num(to)} and start again."
    return Action(Do.RAISE_LR, text, setting="peak_lr", from_=peak, to=to, checkpoint=0)
