"""Learning-rate schedules: warm-ups that are missing or wrong, decays too early or never, jumps."""

from __future__ import annotations

import re

import numpy as np

from stabdiag.model.findings import Action, Confidence, Scalar, Severity
from stabdiag.model.findings import ActionKind as Do
from stabdiag.model.history import Series
from stabdiag.model.text import num, plural
from stabdiag.stats.levels import MIN_CONSECUTIVE
from stabdiag.stats.quantiles import diff_sigma, distinct, median, usual_gap
from stabdiag.stats.tails import CLEAR
from stabdiag.symptoms.losses import BEYOND_CHANCE, DECAYED, no_course
from stabdiag.symptoms.rates import rate_off, still_rises
from stabdiag.symptoms.symptom import COMPLETE, LEAST, Evidence, Symptom, at_least
from stabdiag.tree.advice.rates import is_high, lowered
from stabdiag.tree.advice.shared import clip_at
from stabdiag.tree.case import Case

# A warm-up that is off by fewer steps is a matter of counting.
_SLACK = 20

# A learning rate this far down has decayed. Half-way in time to half of the peak, a cosine is at
# 0.29 of where it will be, and a straight line at 0.5. Fewer points than three show no curve.
_LOW = 0.05
_COSINE = 0.4
_RISE = 3

_RESTARTS = re.compile(r"restart|cycl|sgdr|triang", re.IGNORECASE)

# These have no length.
_ENDLESS = re.compile(r"exp|inverse|rsqrt|sqrt", re.IGNORECASE)

_DECAYS = re.compile(
    r"cosine|linear|poly|exp|decay|inverse|rsqrt|sqrt|wsd|onecycle|one_cycle", re.IGNORECASE
)


def _no_schedule(case: Case) -> str:
    """Return why the learning rates show no schedule, or ""."""
    is_zero = case.history.finite("lr").values.max(initial=0.0) <= 0
    return at_least(LEAST, "lr")(case) or ("takes a learning rate above 0" if is_zero else "")


@Symptom(
    slug="lr-no-warmup",
    family="schedule",
    title="The run began at its peak learning rate, and the loss went up",
    needs=("loss", "lr"),
    enough=(_no_schedule, no_course, at_least(2 * MIN_CONSECUTIVE + 1, "loss")),
)
def lr_no_warmup(case: Case) -> Evidence | None:
    """Did the run begin at its peak learning rate, and did the loss go up at once?"""
    lr, limits, loss = case.history.finite("lr"), case.limits.schedule, case.loss
    first, peak = float(lr.values[0]), float(lr.values.max())
    if int(lr.steps[0]) > case.stride or first < limits.at_peak * peak:
        return None
    count = max(round(limits.early * len(loss)), 2 * MIN_CONSECUTIVE)
    begun, early = float(loss.values[0]), loss.values[1 : count + 1]
    held = np.lib.stride_tricks.sliding_window_view(early, MIN_CONSECUTIVE).min(axis=1)
    high, at, level = float(held.max()), int(held.argmax()) + 1, median(early)
    late = loss.values[len(loss) // 2 :]
    # A loss that has come down is less noisy by its share.
    noise = diff_sigma(late) * begun / median(late)
    risen = limits.early_rise * begun
    stays = level >= risen and level - begun > BEYOND_CHANCE * noise
    # Where later losses usually are higher, one as low tells that the first was low by chance.
    low = late.min() <= begun < median(late)
    if low or high < risen or (high - begun <= CLEAR * noise and not stays):
        return None
    # A rate that nobody uses is no matter of the warm-up, nor is one at which the loss stays up.
    off = rate_off(case) if is_high(case) else None
    stays_up = off is None and median(late) >= risen
    step, steps = int(loss.steps[at]), _warmup(case)
    warm = Action(
        Do.ADD_WARMUP,
        f"Restart with a linear warm-up to {num(lowered(case, peak))} over at least {steps} "
        f"{case.unit}s.",
        setting="warmup_steps",
        to=steps,
    )
    to = lowered(case, peak, 10 if stays_up else 3)
    text = f"Lower the peak learning rate to {num(to)} if the loss still goes up."
    if stays_up:
        text = f"Lower the peak learning rate from {num(peak)} to {num(to)} and start again."
    lower = Action(Do.LOWER_LR, text, setting="peak_lr", to=to)
    act, then = (lower, warm) if stays_up else (warm, lower)
    if off is not None:
        act, then = off[1], warm
    return Evidence(
        because=f"The learning rate starts at {num(first)}, {first / peak:.0%} of its peak, and "
        f"the loss went up from {num(begun)} to at least {num(high)} at "
        f"{MIN_CONSECUTIVE} logged points in a row from {case.unit} {step} on.",
        step=int(lr.steps[0]),
        measured={"first_lr": first, "peak_lr": peak, "first_loss": begun, "early_loss": high},
        first=act,
        then=(then, clip_at(case)),
    )


def _warmup(case: Case) -> int:
    """Return a usual warm-up: a fiftieth of the run, at least 100 steps, at most a tenth of it.

    A run that went NaN was meant to be longer than its log.
    """
    last = int(case.loss.steps[-1])
    broke = (case.history.last_step or last) > last
    total = case.manifest.total_steps or (max(last, 1000) if broke else last)
    return max(min(max(total // 50, 100), round(total / 10)), 1)


@Symptom(
    slug="lr-warmup-mismatch",
    confidence=Confidence.HIGH,
    severity=Severity.NOTE,
    family="schedule",
    title="The warm-up differs from the manifest",
    needs=("lr", "manifest.warmup_steps"),
    explained_by=("divergence-lr",),
    enough=(_no_schedule,),
    then=(
        Action(Do.LOG_MORE, "Plot the learning rate that the optimizer uses, step by step."),
        Action(
            Do.FIX_SCHEDULE, "Step the scheduler once an optimizer step, also when accumulating."
        ),
    ),
)
def lr_warmup_mismatch(case: Case) -> Evidence | None:
    """Is the logged warm-up of another length than the manifest's?"""
    lr, limits = case.history.finite("lr"), case.limits.schedule
    told = case.manifest.warmup_steps
    if told is None or int(lr.steps[0]) > case.stride:
        return None
    # After the warm-up comes the first fall, or the end of the first rise.
    falls = np.flatnonzero(np.diff(lr.values) <= 0)
    at = int(falls[0]) if len(falls) else len(lr) - 1
    found, factor = int(lr.steps[at]), limits.warmup_tolerance
    peak = case.manifest.peak_lr or float(lr.values.max())
    if not len(falls):
        # Without a configured warm-up, a rate may rise all along by design.
        if told < 1 or found <= factor * told:
            return None
        what = f"is still going on at {case.unit} {found}"
    else:
        slack = max(_SLACK, 3 * usual_gap(lr.steps))
        near = found <= factor * told and told <= factor * found
        if lr.values[at] < limits.at_peak * peak or abs(found - told) <= slack or near:
            return None
        what = f"ends at {case.unit} {found}"
    return Evidence(
        because=f"The learning rate's warm-up {what}; the manifest says {plural(told, case.unit)}.",
        step=max(min(told, found), int(lr.steps[0])),
        measured={"warmup_found": found, "warmup_told": told, "peak_lr": float(lr.values.max())},
        first=Action(
            Do.FIX_SCHEDULE,
            f"Check the unit in which the scheduler counts its warm-up of {told}: optimizer steps, "
            "micro-batches, epochs, a share of the run, one process or all.",
            setting="warmup_steps",
            to=told,
        ),
    )


@Symptom(
    slug="lr-decays-early",
    confidence=Confidence.HIGH,
    family="schedule",
    title="The learning rate is at its floor before the run ends",
    needs=("lr",),
    enough=(_no_schedule,),
    then=(Action(Do.FIX_SCHEDULE, "Count optimizer steps, not micro-batches or processes."),),
)
def lr_decays_early(case: Case) -> Evidence | None:
    """Does the learning rate reach its floor long before the run ends?"""
    lr, limits = case.history.finite("lr"), case.limits.schedule
    # A jump makes a peak that never was one.
    highest = float(lr.values.max())
    peak, last = min(case.manifest.peak_lr or highest, highest), float(lr.values[-1])
    if last > limits.floor * peak:
        return None
    at = int(np.flatnonzero(lr.values > limits.floor * peak)[-1]) + 1
    start, begin, end = int(lr.steps[at]), int(lr.steps[0]), int(lr.steps[-1])
    share = (end - start) / (end - begin)
    # A cosine is below the floor for its last few steps; one that ended stays where it is.
    flat = np.ptp(lr.values[at + (len(lr) - at) // 4 :]) <= 0.1 * limits.floor * peak
    if share < limits.at_floor or not flat:
        return None
    # A step decay repeats its rates, and does not go down to 0: nothing is trained there.
    if last > 0 and 2 * distinct(lr.values[:at]) < at:
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
        f"Give the schedule a floor of a tenth of the peak, {num(peak / 10)}.",
        setting="min_lr",
        to=peak / 10,
    )
    return Evidence(
        because=f"The learning rate is at most {limits.floor:.0%} of its peak, {num(peak)}, from "
        f"{case.unit} {start} on and ends at {num(last)}: for {share:.0%} of the run, up to "
        f"{case.unit} {end}, next to nothing is trained.",
        step=start,
        measured={"floor_lr": last, "peak_lr": peak, "share_of_run": share},
        first=set_length,
        then=(*lr_decays_early.then, floor),
    )


@Symptom(
    slug="ends-mid-cycle",
    severity=Severity.NOTE,
    confidence=Confidence.HIGH,
    family="schedule",
    title="The run ends in the middle of a learning-rate cycle",
    needs=("lr",),
    explained_by=("nan", "divergence-lr"),
    enough=(_no_schedule,),
    then=(Action(Do.KEEP_CHECKPOINT, "Keep the checkpoint from the end of the last whole cycle."),),
)
def ends_mid_cycle(case: Case) -> Evidence | None:
    """Did the rate fall below a tenth of its peak, rise again, and end above half?

    One that climbs again along the curve of its decay was stepped beyond its end: a warning.
    """
    lr = case.history.finite("lr")
    x, highest = lr.values, float(lr.values.max())
    peak = min(case.manifest.peak_lr or highest, highest)
    top = int(np.argmax(x >= case.limits.schedule.at_peak * peak))
    climbs = _climbs_again(lr, top, peak) and not _RESTARTS.search(case.manifest.schedule or "")
    is_high = float(x[-1]) > peak / 2
    if not (climbs or is_high) or not (x[top:] < DECAYED * peak).any():
        return None
    # The last low before the rate rose to where it ends.
    low = top + int(np.flatnonzero(x[top:] < DECAYED * peak)[-1])
    lowest = low if not climbs else top + int(x[top:].argmin())
    step, floor, again = int(lr.steps[lowest]), float(x[lowest]), float(x[lowest:].max())
    length = _length(case, lr)
    how = "then climbed along the same curve, to" if climbs else "rose again, to"
    return Evidence(
        because=f"The learning rate fell from {num(peak)} to {num(floor)} at {case.unit} {step}, "
        f"{how} {num(again)}, and ends at {num(float(x[-1]))}.",
        step=step,
        measured={"floor_lr": floor, "peak_lr": peak, "lr": again, "last_lr": float(x[-1])},
        severity=Severity.WARNING if climbs else None,
        title="The learning rate climbs again after its decay" if climbs else "",
        first=Action(
            Do.FIX_SCHEDULE,
            f"Step the scheduler once an optimizer step, and set its length to {length} "
            f"{case.unit}s: a run should end with a low rate.",
            setting="total_steps",
            to=length,
            step=step,
        ),
    )


def _climbs_again(lr: Series, top: int, peak: float) -> bool:
    """Return True if a cosine came down after its top and, stepped on, climbs again.

    A restart is a jump, and a cycle of straight lines turns at once; a cosine lingers at its floor.
    """
    x = lr.values
    low = x[top:] <= _LOW * peak
    if not low.any():
        return False
    at = top + int(low.argmax())
    again = np.flatnonzero(x[at:] >= peak / 2)
    if not len(again):
        return False
    middle = at + int(again[0])
    lowest = at + int(x[at : middle + 1].argmin())
    quarter = float(x[lowest + (middle - lowest) // 2])
    return middle - lowest >= _RISE and quarter <= _COSINE * float(x[middle])


def _length(case: Case, lr: Series) -> int:
    """Return the length of the run: steps counted from 0 are one more than the last of them."""
    return max(int(lr.steps[-1]) + (int(lr.steps[0]) == 0), case.manifest.total_steps or 0)


@Symptom(
    slug="lr-never-decays",
    confidence=Confidence.HIGH,
    severity=Severity.NOTE,
    family="schedule",
    title="The learning rate never decayed",
    needs=("lr", "manifest.total_steps"),
    explained_by=("divergence-lr",),
    enough=(_no_schedule,),
)
def lr_never_decays(case: Case) -> Evidence | None:
    """Is the learning rate still at its peak at the end of a run whose schedule decays?"""
    lr, schedule = case.history.finite("lr"), case.manifest.schedule
    total = case.manifest.total_steps
    if total is None or int(lr.steps[-1]) < COMPLETE * total:
        return None
    peak, last, end = float(lr.values.max()), float(lr.values[-1]), int(lr.steps[-1])
    if last < case.limits.schedule.at_peak * peak:
        return None
    measured: dict[str, Scalar] = {"lr": last, "peak_lr": peak, "total_steps": total}
    meant = case.manifest.warmup_steps
    if still_rises(lr) and (meant is None or meant >= total):
        warmup = max(round(case.limits.schedule.early * total), 1)
        now = "" if meant is None else f" (now {meant})"
        return Evidence(
            title="The learning rate was still warming up at the end",
            severity=Severity.WARNING,
            because=f"The learning rate rises from {num(float(lr.values[0]))} along a straight "
            f"line and is {num(last)} at {case.unit} {end} of {total}: the warm-up is longer than "
            "the run.",
            step=end,
            measured=measured,
            first=Action(
                Do.FIX_SCHEDULE,
                f"Set the warm-up to {warmup} of the run's {total} {case.unit}s{now}, and check "
                "the unit in which it is counted.",
                also=(Do.ADD_WARMUP,),
                setting="warmup_steps",
                from_=meant,
                to=warmup,
            ),
        )
    if schedule is None or not _DECAYS.search(schedule):
        return None
    return Evidence(
        because=f"The learning rate is {num(last)} at {case.unit} {end} of {total}, "
        f"{last / peak:.0%} of its peak; the manifest's schedule is {schedule}.",
        step=end,
        measured=measured,
        first=_stepped(case, schedule, total),
        then=(
            Action(
                Do.LOWER_LR,
                f"Decay the learning rate from the checkpoint nearest to {case.describe(end)}: the "
                "loss falls with it.",
                setting="lr",
                checkpoint=end,
            ),
        ),
    )


def _stepped(case: Case, schedule: str, total: int) -> Action:
    """Return how to have a schedule decay."""
    text = f"Check that the {schedule} scheduler is stepped once an optimizer step"
    if _ENDLESS.search(schedule):
        return Action(Do.FIX_SCHEDULE, f"{text}.")
    text = f"{text}, and built with {total} {case.unit}s."
    return Action(Do.FIX_SCHEDULE, text, setting="total_steps", to=total)


@Symptom(
    slug="lr-discontinuity",
    confidence=Confidence.HIGH,
    severity=Severity.NOTE,
    family="schedule",
    title="The learning rate jumped",
    needs=("lr",),
    explained_by=("spike-lr-jump",),
    enough=(_no_schedule,),
)
def lr_discontinuity(case: Case) -> Evidence | None:
    """Did the learning rate jump above all that it had been?"""
    lr, warmup = case.history.finite("lr"), case.manifest.warmup_steps
    # A jump that early may be the end of a coarsely logged or constant warm-up.
    warm = -1 if warmup is None else 1.1 * warmup + usual_gap(lr.steps)
    for step in case.causes.lr_jumps.tolist():
        at = int(np.searchsorted(lr.steps, step))
        peak, low, high = float(lr.values[:at].max()), float(lr.values[at - 1]), lr.values[at]
        ends_warmup = at < len(lr) - 1 and (at < 3 or step <= warm)
        # A rate that was 0 all along is no level to jump above.
        if peak <= 0 or high < case.limits.schedule.jump * peak or ends_warmup:
            continue
        return Evidence(
            because=f"The learning rate jumped from {num(low)} to {num(float(high))} at "
            f"{case.unit} {step}, {num(float(high / peak))} x the highest before it.",
            step=step,
            measured={"lr_before": low, "lr_after": float(high), "peak_before": peak},
            first=Action(
                Do.FIX_SCHEDULE,
                f"Find out what set the learning rate at {case.unit} {step} (a resume, phases that "
                f"do not join), and restart from before it with a schedule that continues from "
                f"{num(low)}.",
                setting="lr",
                to=low,
                step=step,
            ),
        )
    return None
