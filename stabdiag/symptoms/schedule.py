"""The symptoms of a learning rate that decays too early or never, or jumps."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from stabdiag.model.findings import Action, ActionKind, Severity
from stabdiag.model.text import num
from stabdiag.stats.quantiles import usual_gap
from stabdiag.symptoms.rates import LEAST_POINTS, rates
from stabdiag.symptoms.symptom import Evidence, Symptom, at_least

if TYPE_CHECKING:
    from stabdiag.model.history import Series
    from stabdiag.tree.case import Case

# A step decay stays long at each of few rates, its last one included.
_STAIRS = 12

# A run that is this far into its planned steps is complete.
_COMPLETE = 0.95

_DECAYS = re.compile(
    r"cosine|linear|poly|exp|decay|inverse|rsqrt|sqrt|wsd|onecycle|one_cycle", re.IGNORECASE
)


def lr_decays_early(case: Case) -> Evidence | None:
    """Does the learning rate reach its floor long before the run ends?"""
    lr, limits = rates(case), case.limits.schedule
    if lr is None:
        return None
    # A jump makes a peak that never was one.
    highest = float(lr.values.max())
    peak, last = min(case.manifest.peak_lr or highest, highest), float(lr.values[-1])
    if last > limits.floor * peak:
        return None
    above = np.flatnonzero(lr.values > limits.floor * peak)
    at = int(above[-1]) + 1
    start, begin, end = int(lr.steps[at]), int(lr.steps[0]), int(lr.steps[-1])
    share = (end - start) / (end - begin)
    if share < limits.at_floor:
        return None
    # A cosine is below the floor for its last few steps; one that ended stays where it is.
    flat = np.ptp(lr.values[at + (len(lr) - at) // 4 :]) <= 0.1 * limits.floor * peak
    # No stair goes down to 0: nothing is trained there.
    stairs = len(np.unique(lr.values[:at])) < _STAIRS and last > 0
    if not flat or stairs:
        return None
    # Steps that are counted from 0 are one more than the last of them.
    length = max(end + (begin == 0), case.manifest.total_steps or 0)
    return Evidence(
        because=f"The learning rate is at most {limits.floor:.0%} of its peak, {num(peak)}, from "
        f"step {start} on, ends at {num(last)}, and the run goes on to step {end}: {share:.0%} of "
        "it trains next to nothing.",
        step=start,
        measured={"floor_lr": last, "peak_lr": peak, "share_of_run": share},
        first=Action(
            ActionKind.FIX_SCHEDULE,
            f"Set the length of the schedule to {length} steps, those of the run, or stop at "
            f"step {start}.",
            also=(ActionKind.STOP_EARLY,),
            setting="total_steps",
            to=length,
            step=start,
        ),
        then=(
            Action(
                ActionKind.FIX_SCHEDULE,
                "Check that the schedule counts optimizer steps, not micro-batches or processes.",
            ),
            Action(
                ActionKind.FIX_SCHEDULE,
                f"Give the schedule a floor of a tenth of the peak, {num(peak / 10)}.",
                setting="min_lr",
                to=peak / 10,
            ),
        ),
    )


def lr_never_decays(case: Case) -> Evidence | None:
    """Is the learning rate still at its peak at the end of a run whose schedule decays?"""
    lr, total, schedule = rates(case), case.manifest.total_steps, case.manifest.schedule
    if lr is None or total is None or schedule is None or not _DECAYS.search(schedule):
        return None
    peak, last, end = float(lr.values.max()), float(lr.values[-1]), int(lr.steps[-1])
    if end < _COMPLETE * total or last < case.limits.schedule.at_peak * peak:
        return None
    return Evidence(
        because=f"The learning rate is {num(last)} at step {end} of {total}, {last / peak:.0%} of "
        f"its peak; the manifest's schedule is {schedule}.",
        step=end,
        measured={"lr": last, "peak_lr": peak, "total_steps": total},
        first=Action(
            ActionKind.FIX_SCHEDULE,
            f"Check that the {schedule} scheduler is built with {total} steps and stepped once an"
            " optimizer step.",
            setting="total_steps",
            to=total,
        ),
        then=(
            Action(
                ActionKind.LOWER_LR,
                f"Decay the learning rate from the checkpoint nearest to step {end}: the loss "
                "falls with it.",
                setting="lr",
                checkpoint=end,
            ),
        ),
    )


def lr_discontinuity(case: Case) -> Evidence | None:
    """Did the learning rate jump above all that it had been?"""
    lr = rates(case)
    if lr is None:
        return None
    for step in case.causes.lr_jumps.tolist():
        at = int(np.searchsorted(lr.steps, step))
        peak, high = float(lr.values[:at].max()), float(lr.values[at])
        ends_warmup = at < len(lr) - 1 and _is_risen(case, at, lr)
        # A rate that was 0 all along is no level to jump above.
        if peak <= 0 or high < case.limits.schedule.jump * peak or ends_warmup:
            continue
        low = float(lr.values[at - 1])
        return Evidence(
            because=f"The learning rate jumped from {num(low)} to {num(high)} at step {step}, "
            f"{num(high / peak)} x the highest before it.",
            step=step,
            measured={"lr_before": low, "lr_after": high, "peak_before": peak},
            first=Action(
                ActionKind.FIX_SCHEDULE,
                f"Find out what set the learning rate at step {step}: a resume with another "
                "configuration, a phase of the schedule that does not join the one before.",
                step=step,
            ),
            then=(
                Action(
                    ActionKind.FIX_SCHEDULE,
                    f"Restart from before step {step} with a schedule that continues from "
                    f"{num(low)}.",
                    setting="lr",
                    to=low,
                    step=step,
                ),
            ),
        )
    return None


def _is_risen(case: Case, at: int, lr: Series) -> bool:
    """Tell whether a jump may be the end of a coarsely logged or constant warm-up."""
    warmup = case.manifest.warmup_steps
    early = at < 3 or (
        warmup is not None and int(lr.steps[at]) <= 1.1 * warmup + usual_gap(lr.steps)
    )
    told = case.manifest.peak_lr
    return early or (told is not None and float(lr.values[at]) <= 1.05 * told)


# What a schedule does wrong is a note where the loss did not mind: where it did, the tree says so.
SYMPTOMS: tuple[Symptom, ...] = (
    Symptom(
        slug="lr-decays-early",
        severity=Severity.WARNING,
        family="schedule",
        title="The learning rate is at its floor before the run ends",
        check=lr_decays_early,
        needs=("lr",),
        limits=("schedule.floor", "schedule.at_floor"),
        enough=(at_least(LEAST_POINTS, "lr"),),
    ),
    Symptom(
        slug="lr-never-decays",
        severity=Severity.NOTE,
        family="schedule",
        title="The learning rate never decayed",
        check=lr_never_decays,
        needs=("lr", "manifest.schedule", "manifest.total_steps"),
        limits=("schedule.at_peak",),
        explained_by=("divergence-lr",),
        enough=(at_least(LEAST_POINTS, "lr"),),
    ),
    Symptom(
        slug="lr-discontinuity",
        severity=Severity.NOTE,
        family="schedule",
        title="The learning rate jumped",
        check=lr_discontinuity,
        needs=("lr",),
        limits=("schedule.jump", "spike.lr_jump"),
        explained_by=("spike-lr-jump",),
        enough=(at_least(LEAST_POINTS, "lr"),),
    ),
)
