"""Learning rates under which the loss climbs or barely falls."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import numpy as np

from stabdiag.model.arrays import Floats
from stabdiag.model.findings import Action, Scalar, Severity
from stabdiag.model.findings import ActionKind as Do
from stabdiag.model.frozen import frozen
from stabdiag.model.history import Series
from stabdiag.model.text import num, typed
from stabdiag.stats.course import (
    end_level,
    flat_part,
    level_error,
    measure_course,
    second_half,
    start_level,
)
from stabdiag.stats.quantiles import diff_sigma, median
from stabdiag.stats.smoothing import find_average, single_value_sigma
from stabdiag.stats.standards import (
    BEYOND_CHANCE,
    CLEAR,
    CLEAR_RATIO,
    HALF,
    HUNDREDFOLD,
    MAJORITY,
    MAX_CHANCE_OF_MANY,
    MIN_CONSECUTIVE,
    MIN_TREND_POINTS,
    NEGLIGIBLE,
    TENFOLD,
    TENTHS,
    TWENTIETHS,
)
from stabdiag.symptoms.learning.rate_fixes import (
    FAR_RATE,
    lower_rate,
    lr_out_of_range,
    raise_rate,
    setting_out_of_range,
)
from stabdiag.symptoms.losses import (
    FALLEN,
    RANGE_TEST,
    few_trained,
    from_the_start,
    has_ended,
    no_course,
    not_comparable,
    small_test,
    untrained_model,
)
from stabdiag.symptoms.symptom import Evidence, Symptom, at_least
from stabdiag.tree.advice.rates import highest_usual_rate, is_high, is_low, peak_rate, usual
from stabdiag.tree.case import Case
from stabdiag.tree.pretraining import starts_pretrained

# Runs are divided into twentieths; a climb spans at least three of them.
_LONG = MIN_CONSECUTIVE
_MIN_RATE_POINTS = MIN_CONSECUTIVE * TWENTIETHS


@frozen
class Climb:
    """A rise of the loss under a high rate: text, step, and the levels before and after."""

    words: str
    step: int
    low: float
    high: float


@Symptom(
    slug="lr-too-high",
    title="The learning rate is too high",
    needs=("loss",),
    explained_by=("nan",),
    yields_to=("epoch-pattern",),
    is_root_cause=True,
    preconditions=(at_least(MIN_TREND_POINTS, "loss"), partial(not_comparable, to_zero=True)),
    next_actions=(
        Action(Do.ADD_WARMUP, "Lengthen the warm-up to a twentieth of the run."),
        RANGE_TEST,
    ),
)
def lr_too_high(case: Case) -> Evidence | None:
    """Did the loss rise while the learning rate was high, and fall again as it decayed?"""
    if len(case.loss) < _MIN_RATE_POINTS:
        climb = _never_returned(case)
    else:
        climb = _above_start(case) or _climbed(case) or _evaluated_worse(case)
    out_of_range = lr_out_of_range(case)
    if climb is None:
        return None
    # The usual range depends on the optimizer.
    is_uncertain = out_of_range is None or case.manifest.optimizer is None
    return Evidence(
        because=f"{climb.words}{'' if out_of_range is None else ' ' + out_of_range[0]}",
        step=climb.step,
        measured={"low": climb.low, "high": climb.high},
        first=lower_rate(case) if out_of_range is None else out_of_range[1],
        next_actions=(
            *((lower_rate(case, is_second=True),) if is_uncertain else ()),
            *lr_too_high.next_actions,
        ),
    )


def _above_start(case: Case) -> Climb | None:
    """Return the climb of a loss far above its beginning for part of the run."""
    x, steps = case.loss.values, case.loss.steps
    began, parts = float(x[0]), measure_course(x)
    high = np.flatnonzero(parts.levels > case.limits.learning.above_start * began)
    # A later rise has another cause, which the tree looks for. A first loss of 0 belongs to a batch
    # without labels, or to one that is right by chance.
    if len(high) < _LONG or high[0] > 1 or began == 0:
        return None
    pieces = parts.rows(x)[high]
    # Losses of small batches vary by orders of magnitude: the first one may be low by chance. A
    # loss of 0 belongs to a batch without labels. Later, a loss that exploded may come back.
    early = pieces[: (len(pieces) + 1) // 2]
    if np.mean((early > 0) & (early < began)) > MAX_CHANCE_OF_MANY:
        return None
    # Single losses on both sides of it are noise, unless most of the high ones are far above it.
    is_far = np.mean(pieces > TENFOLD * began) >= MAJORITY
    noise = diff_sigma(pieces.ravel())
    if not is_far and median(parts.levels[high]) - began < BEYOND_CHANCE * noise:
        return None
    if case.chance_start:
        return None
    top = float(parts.levels.max())
    return Climb(
        words=f"The loss began at {num(began)} and was above "
        f"{num(case.limits.learning.above_start * began)} for "
        f"{len(high) / len(parts):.0%} of the run, "
        f"at up to {num(top)}: the first steps made the model worse than {untrained_model(case)}.",
        step=int(steps[parts.starts[high[0]]]),
        low=began,
        high=top,
    )


def _never_returned(case: Case) -> Climb | None:
    """Return the climb if each loss of a short log is far above the first one."""
    x, steps = case.loss.values, case.loss.steps
    began, later = float(x[0]), x[1:]
    least = case.limits.learning.above_start * began
    if not from_the_start(case) or began <= 0 or later.min() <= least or case.chance_start:
        return None
    # A rise that continues is a divergence.
    if end_level(x) >= float(later[:MIN_CONSECUTIVE].max()):
        return None
    return Climb(
        words=f"The loss began at {num(began)}, and all {len(later)} later values are above "
        f"{num(least)}, at up to {num(float(later.max()))}: the first steps made the model worse "
        f"than {untrained_model(case)}.",
        step=int(steps[1]),
        low=began,
        high=float(later.max()),
    )


def _climbed(case: Case) -> Climb | None:
    """Return the climb of a loss under a rate that is higher than usual."""
    lr = case.history.finite("lr")
    # At usual rates, and just above them, the loss of healthy runs also rises and recovers.
    if not is_high(case, CLEAR_RATIO) or not len(lr):
        return None
    x, steps = case.loss.values, case.loss.steps
    twentieths = measure_course(x)
    parts, ends = twentieths.levels, steps[twentieths.ends]
    rates = np.interp(ends, lr.steps, lr.values)
    top_rate = int(np.argmax(rates))
    low_at, high_at, rise = _largest_rise(parts)
    has_recovered = parts[-1] < parts[low_at]
    if high_at < top_rate or not (has_recovered or is_high(case, FAR_RATE)):
        return None
    noise = level_error(diff_sigma(x[twentieths.span(low_at, high_at)]), twentieths.size)
    least = case.limits.learning.climb * parts[low_at]
    if rise <= max(CLEAR * noise, least):
        return None
    return Climb(
        words=f"The loss rose from {num(float(parts[low_at]))} to {num(float(parts[high_at]))} "
        f"by {case.unit} {int(ends[high_at])}, while the learning rate was high, and ended at "
        f"{num(float(parts[-1]))}.",
        step=int(ends[low_at]),
        low=float(parts[low_at]),
        high=float(parts[high_at]),
    )


def _evaluated_worse(case: Case) -> Climb | None:
    """Return the climb if evaluations were far worse than an untrained model at a high rate."""
    heldout = case.history.finite("eval_loss")
    if not is_high(case) or len(heldout) < TWENTIETHS // 2:
        return None
    began = float(case.loss.values[0])
    worse = np.flatnonzero(heldout.values > case.limits.learning.above_start * began)
    # At a rate far above the range, a single evaluation is sufficient.
    if len(worse) < (1 if is_high(case, FAR_RATE) else len(heldout) / TENTHS):
        return None
    top = float(heldout.values.max())
    return Climb(
        words=f"The loss began at {num(began)}, and {len(worse)} of {len(heldout)} evaluations "
        f"were "
        f"above {num(case.limits.learning.above_start * began)}, at up to {num(top)}.",
        step=int(heldout.steps[worse[0]]),
        low=began,
        high=top,
    )


def _largest_rise(parts: Floats) -> tuple[int, int, float]:
    """Return the levels before and after the largest rise (by ratio), and its size."""
    lowest = np.minimum.accumulate(parts)
    high = int(np.argmax(parts / lowest))
    low = int(np.argmin(parts[: high + 1]))
    return low, high, float(parts[high] - parts[low])


@Symptom(
    slug="learning-slow",
    title="The loss falls far too slowly",
    needs=("loss", "lr"),
    explained_by=("nan", "divergence", "loss-scale", "spike-persistent", "spike-unresolved"),
    preconditions=(
        at_least(_MIN_RATE_POINTS, "loss"),
        at_least(TWENTIETHS, "lr"),
        not_comparable,
        few_trained,
    ),
    next_actions=(
        RANGE_TEST,
        Action(Do.CHECK_MODEL, "Check requires_grad, and that the optimizer has all parameters."),
    ),
)
def learning_slow(case: Case) -> Evidence | None:
    """Did the loss fall little, and linearly in the cumulative learning rate?"""
    lr = case.history.finite("lr")
    # A warm-up that never ends is the schedule's fault.
    if not has_ended(case) or still_rises(lr):
        return None
    for series in (case.history.finite("eval_loss"), case.loss):
        if len(series) >= TWENTIETHS // 2 and (evidence := _straight(case, series, lr)):
            return evidence
    return None


def still_rises(lr: Series) -> bool:
    """Return True if the rate rises linearly from nearly 0 to the last record."""
    x, steps = lr.values, lr.steps
    line = x[0] + (x[-1] - x[0]) * (steps - steps[0]) / (steps[-1] - steps[0])
    return bool(x[0] < NEGLIGIBLE * x[-1] and np.abs(x - line).max() < NEGLIGIBLE * x[-1])


def _straight(case: Case, series: Series, lr: Series) -> Evidence | None:
    """Report a series whose fall per unit of learning rate is as high at the end as before."""
    limits, x, twentieths = case.limits.learning, series.values, measure_course(series.values)
    parts = twentieths.levels
    first, last = float(parts[0]), float(parts[-1])
    fell = median(parts[:2]) - median(parts[-2:])
    if fell > (limits.small_fall if is_low(case) else NEGLIGIBLE) * first or _falls_immediately(
        x, first, fell
    ):
        return None
    average = find_average(x)
    if average is not None and average.weight * twentieths.size < MIN_CONSECUTIVE:
        return None  # it hides how fast the first losses fell
    spent = np.cumsum(lr.values * np.diff(lr.steps, prepend=lr.steps[:1]))
    along = np.interp(series.steps[twentieths.middles], lr.steps, spent)
    half = int(np.searchsorted(along, along[-1] / 2))
    if min(half, len(parts) - half) < MIN_CONSECUTIVE or parts.min() <= 0:
        return None
    early, late = _slope(along[:half], parts[:half]), _slope(along[half:], parts[half:])
    # The fall of the line itself from point to point is not noise.
    is_same_grid = np.array_equal(series.steps, lr.steps)
    line = spent if is_same_grid else np.interp(series.steps, lr.steps, spent)
    residuals = x - _slope(along, parts) * line
    noise = level_error(single_value_sigma(residuals), twentieths.size)
    is_clear = fell > CLEAR * noise and -late * np.ptp(along[half:]) > BEYOND_CHANCE * noise
    if not is_clear or -late < limits.constant_slope * -early:
        return None
    return _slow(case, series, first, last)


def _falls_immediately(x: Floats, first: float, fell: float) -> bool:
    """Return True if a series fell more within its first level than later, beyond its noise."""
    first_fall = start_level(x) - first
    return first_fall > max(fell, BEYOND_CHANCE * diff_sigma(x))


def _slope(x: Floats, y: Floats) -> float:
    return float(np.polyfit(x, y, 1)[0]) if np.ptp(x) > 0 else 0.0


def _slow(case: Case, series: Series, first: float, last: float) -> Evidence:
    name = "evaluation loss" if series.role == "eval_loss" else "loss"
    peak, low_rate = peak_rate(case) or 0.0, is_low(case)
    longer = first / (first - last)
    words = (
        f"The {name} fell by {(first - last) / first:.1%}, from {num(first)} to "
        f"{num(last)}, and per unit of learning rate as fast at the end as at the beginning."
    )
    test = small_test(first)
    # A model learns most in the first tenth of its run. If the optimizer is unknown, the rate is
    # raised tenfold at a time.
    is_known = case.limits.preflight.usual_rates(case.manifest.optimizer) is not None
    target = min(TENFOLD * longer * peak, TENFOLD * HUNDREDFOLD * peak, usual(case)[2])
    to = typed(target if is_known else min(target, TENFOLD * peak))
    later = typed(min(target, highest_usual_rate(case)))
    raise_lr, out_of_range = raise_rate(peak, to), setting_out_of_range(case)
    second = (raise_rate(peak, later, "If it is still slow"),) if low_rate and later > to else ()
    if out_of_range is not None:
        words, raise_lr, second, low_rate = f"{words} {out_of_range[0]}", out_of_range[1], (), True
    if starts_pretrained(case):
        # A higher rate may undo what a pretrained model knows, and at a usual one it learns little.
        is_usual = out_of_range is None and peak >= usual(case)[1]
        return Evidence(
            severity=Severity.NOTE if is_usual else None,
            because=words,
            step=int(series.steps[0]),
            measured={"first": first, "last": last, "runs": longer, "peak_lr": peak},
            first=test,
        )
    return Evidence(
        because=words,
        step=int(series.steps[0]),
        measured={"first": first, "last": last, "runs": longer, "peak_lr": peak},
        first=raise_lr if low_rate else test,
        next_actions=(*second, test if low_rate else raise_lr, *learning_slow.next_actions),
    )


def flat_at_low_rate(case: Case, measured: Mapping[str, Scalar]) -> Evidence | None:
    """Report a loss that fell a little and then stayed flat at a low, constant rate."""
    if no_course(case) or few_trained(case) or case.loss.lowest <= 0 or not is_low(case):
        return None
    lr = case.history.finite("lr")
    parts, peak = measure_course(case.loss.values), lr.highest
    level = parts.levels
    fallen = float(level[0] - level[-1])
    since = flat_part(level, fallen)
    is_constant = second_half(lr.values).min() >= case.limits.schedule.at_peak * peak
    # It fell within its first tenth, so the first twentieth is its start.
    falls = level[-1] < FALLEN * level[0]
    if not (is_constant and falls and since <= TENTHS and level[-1] > HALF * level[0]):
        return None
    step = int(case.loss.steps[parts.starts[since]])
    return Evidence(
        title="The loss is flat at a constant learning rate",
        because=f"The loss has stayed at {num(float(level[-1]))} since {case.unit} {step}, and the "
        f"learning rate at {num(peak)}.",
        step=step,
        measured=measured,
        first=Action(
            Do.FIX_SCHEDULE,
            f"Warm up to a higher peak than {num(peak)}, and decay the learning rate from there "
            "(cosine or linear): a constant low rate helps only at first.",
            also=(Do.ADD_WARMUP, Do.RAISE_LR),
            setting="schedule",
        ),
        next_actions=(RANGE_TEST,),
    )
