"""Learning-rate schedules: decays too early or never, and jumps."""

from __future__ import annotations

import re

import numpy as np

from stabdiag.model.findings import Action, Confidence, Scalar, Severity
from stabdiag.model.findings import ActionKind as Do
from stabdiag.model.history import Series
from stabdiag.model.text import num
from stabdiag.stats.quantiles import distinct, usual_gap
from stabdiag.stats.standards import (
    COMPLETE,
    HALF,
    LEAST,
    MIN_CONSECUTIVE,
    MIN_TREND_POINTS,
    NEGLIGIBLE,
    QUARTERS,
    RELATIVE_EPS,
    TENFOLD,
    TENTH,
    TWICE,
)
from stabdiag.symptoms.learning.rates import flat_at_low_rate, still_rises
from stabdiag.symptoms.losses import DECAYED
from stabdiag.symptoms.symptom import Evidence, Symptom, at_least
from stabdiag.tree.case import Case
from stabdiag.tree.causes import has_restarts

# A learning rate below this fraction of its peak has decayed. Halfway in time to half of the peak,
# a cosine has reached 0.29 of that level, and a straight line 0.5. A curve needs at least three
# points.
_LOW = NEGLIGIBLE
_COSINE = 0.4
_RISE = MIN_CONSECUTIVE

# A step decay by factors of 10 ends at a thousandth or a ten-thousandth of the peak. Updates a
# hundred times smaller are lost to rounding in fp32.
_NOTHING = 1e-6

# These schedules have no length.
_ENDLESS = r"(?i)exp|inverse|rsqrt|sqrt"

_DECAYS = r"(?i)cosine|linear|poly|exp|decay|inverse|rsqrt|sqrt|wsd|onecycle|one_cycle"


def no_schedule(case: Case) -> str:
    """Return the reason why the learning rates show no schedule, or ""."""
    is_zero = case.history.finite("lr").highest <= 0
    return at_least(LEAST, "lr")(case) or ("needs a learning rate above 0" if is_zero else "")


def _no_end(case: Case) -> str:
    """Return the reason why the learning rates do not show where a schedule ends, or "".

    Each epoch counts where epochs are logged: a rate at its floor for a part of them is the end.
    """
    return "" if _has_epochs(case) else no_schedule(case)


def _has_epochs(case: Case) -> bool:
    lr = case.history.finite("lr")
    return case.history.counts_epochs and len(lr) >= MIN_TREND_POINTS and lr.highest > 0


@Symptom(
    slug="lr-decays-early",
    confidence=Confidence.HIGH,
    title="The learning rate is at its floor before the run ends",
    needs=("lr",),
    preconditions=(_no_end,),
    next_actions=(
        Action(Do.FIX_SCHEDULE, "Count optimizer steps, not micro-batches or processes."),
    ),
)
def lr_decays_early(case: Case) -> Evidence | None:
    """Does the learning rate reach its floor long before the run ends?"""
    lr, limits = case.history.finite("lr"), case.limits.schedule
    # A jump can create a false peak.
    highest = lr.highest
    peak, last = min(case.manifest.peak_lr or highest, highest), float(lr.values[-1])
    if last > limits.floor * peak:
        return None
    at = int(np.flatnonzero(lr.values > limits.floor * peak)[-1]) + 1
    start, begin, end = int(lr.steps[at]), int(lr.steps[0]), int(lr.steps[-1])
    fraction = (end - start) / (end - begin)
    # A cosine is below the floor for its last few steps; a schedule that ended is constant.
    flat = np.ptp(lr.values[at + (len(lr) - at) // QUARTERS :]) <= TENTH * limits.floor * peak
    if fraction < limits.at_floor or not flat or _may_be_rounded(lr, at, limits.floor * peak):
        return None
    # A step decay repeats its rates, and does not go down to where nothing is trained.
    if last > _NOTHING * peak and 2 * distinct(lr.values[:at]) < at:
        return None
    length = _length(case, lr)
    set_length = Action(
        Do.FIX_SCHEDULE,
        f"Set the length of the schedule to the run's {length} {case.unit}s, or stop at "
        f"{case.unit} {start}.",
        also=(Do.STOP_EARLY,),
        setting="total_steps",
        to=length,
        step=start,
    )
    floor = Action(
        Do.FIX_SCHEDULE,
        f"Give the schedule a floor of a tenth of the peak, {num(peak / TENFOLD)}.",
        setting="min_lr",
        to=peak / TENFOLD,
    )
    return Evidence(
        because=f"The learning rate is at most {limits.floor:.0%} of its peak, {num(peak)}, from "
        f"{case.unit} {start} on and ends at {num(last)}: for {fraction:.0%} of the run, up to "
        f"{case.unit} {end}, almost nothing is learned.",
        step=start,
        measured={"floor_lr": last, "peak_lr": peak, "fraction_of_run": fraction},
        first=set_length,
        next_actions=(*lr_decays_early.next_actions, floor),
    )


def _may_be_rounded(lr: Series, at: int, floor: float) -> bool:
    """Return True if the zeros from a position on may be small rates, printed with few decimals.

    All rates are then multiples of a power of ten that is above the floor. A schedule that ends
    with the run spends about as long below half of that unit as at one unit; others do not.
    """
    x = lr.values[:at]
    unit = float(x[x > 0].min())
    digits, multiples = float(np.log10(unit)), x / unit
    deviation = max(abs(digits - round(digits)), np.abs(multiples - multiples.round()).max())
    if lr.values[at:].any() or unit <= floor or deviation > RELATIVE_EPS:
        return False
    other = np.flatnonzero(multiples.round() != 1)
    if not len(other):  # constant, then off
        return False
    since = int(lr.steps[other[-1] + 1])
    return bool(lr.steps[-1] - lr.steps[at] <= TWICE * (lr.steps[at] - since))


@Symptom(
    slug="ends-mid-cycle",
    severity=Severity.NOTE,
    confidence=Confidence.HIGH,
    title="The run ends in the middle of a learning-rate cycle",
    needs=("lr",),
    explained_by=("nan", "divergence-lr"),
    preconditions=(_no_end,),
    next_actions=(
        Action(Do.KEEP_CHECKPOINT, "Keep the checkpoint from the end of the last complete cycle."),
    ),
)
def ends_mid_cycle(case: Case) -> Evidence | None:
    """Did the rate fall below a tenth of its peak, rise again, and end above half?

    It is a warning if the rate rises again along the curve of its decay, since it was stepped past
    its end, or if the run is complete.
    """
    lr = case.history.finite("lr")
    x, highest = lr.values, lr.highest
    peak = min(case.manifest.peak_lr or highest, highest)
    top = int(np.argmax(x >= case.limits.schedule.at_peak * peak))
    climbs = _climbs_again(lr, top, peak) and not has_restarts(case.manifest.schedule)
    is_high = float(x[-1]) > peak / 2
    if not (climbs or is_high) or not (x[top:] < DECAYED * peak).any():
        return None
    # The last low before the rate rose to where it ends.
    low = top + int(np.flatnonzero(x[top:] < DECAYED * peak)[-1])
    lowest = low if not climbs else top + int(x[top:].argmin())
    step, floor, high = int(lr.steps[lowest]), float(x[lowest]), float(x[lowest:].max())
    length = _length(case, lr)
    rise = "then rose along the same curve, to" if climbs else "rose again, to"
    return Evidence(
        because=f"The learning rate fell from {num(peak)} to {num(floor)} at {case.unit} {step}, "
        f"{rise} {num(high)}, and ends {'there' if high == x[-1] else f'at {num(float(x[-1]))}'}.",
        step=step,
        measured={"floor_lr": floor, "peak_lr": peak, "lr": high, "last_lr": float(x[-1])},
        severity=Severity.WARNING if climbs or (is_high and _is_complete(case, lr)) else None,
        title="The learning rate rises again after its decay" if climbs else "",
        first=Action(
            Do.FIX_SCHEDULE,
            f"Step the scheduler once per optimizer step, and set its length to {length} "
            f"{case.unit}s: a run should end with a low rate.",
            setting="total_steps",
            to=length,
        ),
    )


def _climbs_again(lr: Series, top: int, peak: float) -> bool:
    """Return True if a cosine decayed and, stepped past its end, rises again.

    A restart is a jump, and a linear cycle turns sharply; a cosine lingers at its floor.
    """
    x = lr.values
    low = x[top:] <= _LOW * peak
    if not low.any():
        return False
    at = top + int(low.argmax())
    high = np.flatnonzero(x[at:] >= peak / 2)
    if not len(high):
        return False
    middle = at + int(high[0])
    lowest = at + int(x[at : middle + 1].argmin())
    quarter = float(x[lowest + (middle - lowest) // 2])
    return middle - lowest >= _RISE and quarter <= _COSINE * float(x[middle])


def _is_complete(case: Case, lr: Series) -> bool:
    """Return True if the run has reached its planned end."""
    total = case.manifest.total_steps
    return total is not None and int(lr.steps[-1]) >= COMPLETE * total


def _length(case: Case, lr: Series) -> int:
    """Return the length of the run in steps; if they start at 0, it is the last step plus 1."""
    return max(int(lr.steps[-1]) + (int(lr.steps[0]) == 0), case.manifest.total_steps or 0)


@Symptom(
    slug="lr-never-decays",
    confidence=Confidence.HIGH,
    severity=Severity.NOTE,
    title="The learning rate never decayed",
    needs=("lr", "manifest.total_steps"),
    explained_by=("divergence-lr",),
    preconditions=(no_schedule,),
)
def lr_never_decays(case: Case) -> Evidence | None:
    """Is the learning rate still at its peak at the end of a run whose schedule decays?"""
    lr, schedule = case.history.finite("lr"), case.manifest.schedule
    total = case.manifest.total_steps
    if total is None or not _is_complete(case, lr):
        return None
    peak, last, end = lr.highest, float(lr.values[-1]), int(lr.steps[-1])
    if last < case.limits.schedule.at_peak * peak:
        return None
    measured: dict[str, Scalar] = {"lr": last, "peak_lr": peak, "total_steps": total}
    configured = case.manifest.warmup_steps
    if still_rises(lr) and (configured is None or configured >= total):
        warmup = max(round(case.limits.schedule.early * total), 1)
        now = "" if configured is None else f" (now {configured})"
        return Evidence(
            title="The learning rate was still warming up at the end",
            severity=Severity.WARNING,
            because=f"The learning rate rises linearly from {num(float(lr.values[0]))} "
            f"and is {num(last)} at {case.unit} {end} of {total}: the warm-up is longer than "
            "the run.",
            step=end,
            measured=measured,
            first=Action(
                Do.FIX_SCHEDULE,
                f"Set the warm-up to {warmup} of the run's {total} {case.unit}s{now}, and check "
                "its unit.",
                also=(Do.ADD_WARMUP,),
                setting="warmup_steps",
                from_=configured,
                to=warmup,
            ),
        )
    if (length := _decay_length(lr)) is not None:
        return _too_long(case, length, total, measured)
    if schedule is None or not re.search(_DECAYS, schedule):
        return flat_at_low_rate(case, measured)
    return Evidence(
        because=f"The learning rate is {num(last)} at {case.unit} {end} of {total}, "
        f"{last / peak:.0%} of its peak; the manifest's schedule is {schedule}.",
        step=end,
        measured=measured,
        first=_stepped(case, schedule, total),
        next_actions=(
            Action(
                Do.LOWER_LR,
                f"Decay the learning rate from the checkpoint nearest to {case.describe(end)}: the "
                "loss will fall with it.",
                setting="lr",
                checkpoint=end,
            ),
        ),
    )


def _decay_length(lr: Series) -> float | None:
    """Return the steps that a rate just below its peak needs to decay, None if it does not decay.

    The decay is a cosine if half of its time took it less than half of the way, or else a line.
    """
    top = len(lr) - 1 - int(np.argmax(lr.values[::-1]))
    x, steps = lr.values[top:], lr.steps[top:]
    is_recent = 2 * (steps[-1] - steps[0]) < steps[-1] - lr.steps[0]
    # A printed rate falls in stairs: they have to be many, and none may go up.
    if is_recent or distinct(x) < MIN_TREND_POINTS or (np.diff(x) > 0).any():
        return None
    fallen = 1 - x / x[0]
    middle = int(np.searchsorted(steps, (steps[0] + steps[-1]) / 2))
    span = float(steps[-1] - steps[0])
    if fallen[middle] >= _COSINE * fallen[-1]:
        return span / float(fallen[-1])
    return span * HALF * np.pi / float(np.arcsin(np.sqrt(fallen[-1])))


def _too_long(case: Case, length: float, total: int, measured: dict[str, Scalar]) -> Evidence:
    """Report a schedule that needs far more steps than the run has."""
    lr = case.history.finite("lr")
    peak, last, end = float(lr.values.max()), float(lr.values[-1]), int(lr.steps[-1])
    return Evidence(
        title="The learning-rate schedule is too long for the run",
        severity=Severity.WARNING,
        because=f"The learning rate decays, but only from {num(peak)} to {num(last)} by "
        f"{case.unit} {end} of {total}: at this pace it needs about {num(length, 2)} {case.unit}s.",
        step=end,
        measured={**measured, "decay_steps": round(length)},
        first=Action(
            Do.FIX_SCHEDULE,
            f"Set the length of the schedule to the run's {total} {case.unit}s, and check that it "
            "counts optimizer steps.",
            setting="total_steps",
            to=total,
        ),
    )


def _stepped(case: Case, schedule: str, total: int) -> Action:
    """Return the action that makes a schedule decay."""
    text = f"Check that the {schedule} scheduler is stepped once per optimizer step"
    if re.search(_ENDLESS, schedule):
        return Action(Do.FIX_SCHEDULE, f"{text}.")
    text = f"{text}, and created with {total} {case.unit}s."
    return Action(Do.FIX_SCHEDULE, text, setting="total_steps", to=total)


@Symptom(
    slug="lr-discontinuity",
    confidence=Confidence.HIGH,
    severity=Severity.NOTE,
    title="The learning rate jumped",
    needs=("lr",),
    explained_by=("spike-lr-jump",),
    preconditions=(no_schedule,),
)
def lr_discontinuity(case: Case) -> Evidence | None:
    """Did the learning rate jump above all earlier values?"""
    lr, warmup = case.history.finite("lr"), case.manifest.warmup_steps
    # A jump that early may be the end of a coarsely logged or constant warm-up.
    warm = -1 if warmup is None else (1 + TENTH) * warmup + usual_gap(lr.steps)
    for step in case.causes.lr_jumps.tolist():
        at = int(np.searchsorted(lr.steps, step))
        peak, low, high = float(lr.values[:at].max()), float(lr.values[at - 1]), lr.values[at]
        ends_warmup = at < len(lr) - 1 and (at < MIN_CONSECUTIVE or step <= warm)
        # A jump from a constant 0 has no level to compare with.
        if peak <= 0 or high < case.limits.schedule.jump * peak or ends_warmup:
            continue
        return Evidence(
            because=f"The learning rate jumped from {num(low)} to {num(float(high))} at "
            f"{case.unit} {step}, {num(float(high / peak))} x the highest value before it.",
            step=step,
            measured={"lr_before": low, "lr_after": float(high), "peak_before": peak},
            first=Action(
                Do.FIX_SCHEDULE,
                f"Find out what set the learning rate at {case.unit} {step} (a resume, phases that "
                f"do not connect), and restart from before it with a schedule that continues from "
                f"{num(low)}.",
                setting="lr",
                to=low,
                step=step,
            ),
        )
    return None
