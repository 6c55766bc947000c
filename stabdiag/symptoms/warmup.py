"""The symptoms of a warm-up that is missing, or of another length than was planned."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stabdiag.model.findings import Action, ActionKind, Severity
from stabdiag.model.text import num, plural
from stabdiag.stats.quantiles import MAD_TO_SIGMA, median, usual_gap
from stabdiag.symptoms.losses import from_the_start, is_distance
from stabdiag.symptoms.rates import LEAST_POINTS, rates
from stabdiag.symptoms.symptom import Evidence, Symptom, at_least
from stabdiag.tree.advice.shared import clip

if TYPE_CHECKING:
    from stabdiag.model.arrays import Floats
    from stabdiag.model.history import Series
    from stabdiag.tree.case import Case

# A run of so many steps has room for a warm-up of 100.
_SHORT = 1000

# A warm-up that is off by less than this is a matter of counting.
_WARMUP_SLACK = 20

# A loss above its beginning for so many points in a row is no single bad batch. But a noisy one
# gets there by chance, and may have begun low by chance, too: the rise has to be so many deviations
# of the losses, and that of their median, which no chance lifts, somewhat fewer. What blew up is
# noisy as well: a median twice the first will do if hardly any loss is as low as that.
_ROW = 3
_NOISE = 4
_NOISE_OF_FIRST = 3
_TWICE = 2.0
_AS_LOW = 0.05


def lr_no_warmup(case: Case) -> Evidence | None:
    """Did the run begin at its peak learning rate, and did the loss go up at once?"""
    lr, limits = rates(case), case.limits.schedule
    if lr is None or not from_the_start(case) or not is_distance(case):
        return None
    first, peak = float(lr.values[0]), float(lr.values.max())
    if int(lr.steps[0]) > case.stride or first < limits.at_peak * peak:
        return None
    loss = case.loss
    count = max(round(limits.early * len(loss)), 2 * _ROW)
    begun, early = float(loss.values[0]), loss.values[1 : count + 1]
    if len(early) < 2 * _ROW:
        return None
    late, held = loss.values[len(loss) // 2 :], _held(early)
    high, at = float(held.max()), int(held.argmax()) + 1
    risen = limits.early_rise * begun
    noise, level = _noise_at(begun, early, late), median(early)
    # Under heavy tails some points in a row are as high later on, too, when nothing goes up: as
    # they are, or for the level that the loss has come down to.
    later = float(_held(late).max())
    usual = later * max(begun / median(late), 1.0)
    within_noise = high - begun <= _NOISE * noise or high <= usual
    stays = level >= risen and level - begun > _NOISE_OF_FIRST * noise
    blew_up = level >= _TWICE * begun and np.mean(early <= begun) < _AS_LOW
    if high < risen or (within_noise and not stays and not blew_up):
        return None
    step, steps, threshold = int(loss.steps[at]), _warmup(case), clip(case)
    return Evidence(
        because=f"The learning rate is at {num(first)}, {first / peak:.0%} of its peak, at step "
        f"{int(lr.steps[0])} already, and the loss went up: from {num(begun)} to no less "
        f"than {num(high)} at each of {_ROW} logged points from step {step} on.",
        step=int(lr.steps[0]),
        measured={"first_lr": first, "peak_lr": peak, "first_loss": begun, "early_loss": high},
        first=Action(
            ActionKind.ADD_WARMUP,
            f"Restart with a linear warm-up to {num(peak)} over at least {steps} steps.",
            setting="warmup_steps",
            to=steps,
        ),
        then=(
            Action(
                ActionKind.LOWER_LR,
                f"Lower the peak learning rate to {num(peak / 3)} if the loss still goes up.",
                setting="peak_lr",
                to=peak / 3,
            ),
            Action(
                ActionKind.CLIP_GRADIENTS,
                f"Clip the gradient by its global norm at {threshold}.",
                **threshold.change,
            ),
        ),
    )


def _held(x: Floats) -> Floats:
    """Return the lowest of each few points in a row: how high the loss stayed."""
    lowest: Floats = np.lib.stride_tricks.sliding_window_view(x, _ROW).min(axis=1)
    return lowest


def _noise_at(begun: float, early: Floats, late: Floats) -> float:
    """Return the deviation to be expected of the first loss, by what follows and what comes late.

    A loss that surges is noisy for that reason; one that has come down is less so, by its share.
    """
    return min(_noise(early), _noise(late) * begun / median(late))


def _noise(x: Floats) -> float:
    """Return the deviation of losses from those before them; a slope is part of it.

    Of so few losses it cannot be told from noise.
    """
    return median(np.abs(np.diff(x))) * MAD_TO_SIGMA / float(np.sqrt(2))


def _warmup(case: Case) -> int:
    """Return a usual length of warm-up: a fiftieth of the run, or 100 steps if it is so long.

    Of a short run no more than a tenth is spent on it; one that went NaN was not to be short.
    """
    total = case.manifest.total_steps
    if total is None:
        last = int(case.loss.steps[-1])
        broke = (case.history.last_step or last) > last
        total = max(last, _SHORT) if broke else last
    return max(min(max(total // 50, 100), round(total / 10)), 1)


def lr_warmup_mismatch(case: Case) -> Evidence | None:
    """Is the logged warm-up of another length than the manifest's?"""
    lr, told = rates(case), case.manifest.warmup_steps
    if lr is None or told is None or int(lr.steps[0]) > case.stride:
        return None
    # After the warm-up comes the first fall, or the end of the first rise.
    falls = np.flatnonzero(np.diff(lr.values) <= 0)
    risen = lr.values[: int(falls[0]) + 1] if len(falls) else lr.values
    peak = case.manifest.peak_lr or float(lr.values.max())
    if not len(falls) or risen[-1] < case.limits.schedule.at_peak * peak:
        return _endless(case, lr, told)
    found, slack = int(lr.steps[len(risen) - 1]), max(_WARMUP_SLACK, 3 * usual_gap(lr.steps))
    factor = case.limits.schedule.warmup_tolerance
    if abs(found - told) <= slack or (found <= factor * told and told <= factor * found):
        return None
    return _mismatch(f"ends at step {found}", told, found, lr)


def _endless(case: Case, lr: Series, told: int) -> Evidence | None:
    """Tell of a learning rate that still rises long after its warm-up should have ended.

    Where none is configured, one that rises all along may rise by design, as to find a rate.
    """
    last = int(lr.steps[-1])
    rising = bool((np.diff(lr.values) > 0).all())
    if not rising or told < 1 or last <= case.limits.schedule.warmup_tolerance * told:
        return None
    return _mismatch(f"is still going on at step {last}", told, last, lr)


def _mismatch(what: str, told: int, found: int, lr: Series) -> Evidence:
    return Evidence(
        because=f"The warm-up of the learning rate {what}; the manifest says "
        f"{plural(told, 'step')}.",
        step=max(min(told, found), int(lr.steps[0])),
        measured={"warmup_found": found, "warmup_told": told, "peak_lr": float(lr.values.max())},
        first=Action(
            ActionKind.FIX_SCHEDULE,
            f"Check in which unit the scheduler counts its warm-up of {told}: optimizer steps, "
            "micro-batches, epochs or a share of the run, on one process or on all.",
            setting="warmup_steps",
            to=told,
        ),
        then=(
            Action(
                ActionKind.LOG_MORE,
                "Plot the learning rate that the optimizer really uses, step by step.",
            ),
            Action(
                ActionKind.FIX_SCHEDULE,
                "Check that the scheduler is stepped once an optimizer step, also under gradient "
                "accumulation.",
            ),
        ),
    )


# What a schedule does wrong is a note where the loss did not mind: where it did, the tree says so.
SYMPTOMS: tuple[Symptom, ...] = (
    Symptom(
        slug="lr-no-warmup",
        severity=Severity.WARNING,
        family="schedule",
        title="The run began at its peak learning rate, and the loss went up",
        check=lr_no_warmup,
        needs=("loss", "lr"),
        limits=("schedule.at_peak", "schedule.early", "schedule.early_rise"),
        enough=(
            at_least(LEAST_POINTS, "lr"),
            at_least(2 * _ROW + 1, "loss"),
        ),
    ),
    Symptom(
        slug="lr-warmup-mismatch",
        severity=Severity.NOTE,
        family="schedule",
        title="The warm-up differs from the manifest",
        check=lr_warmup_mismatch,
        needs=("lr", "manifest.warmup_steps"),
        limits=("schedule.warmup_tolerance", "schedule.at_peak"),
        explained_by=("divergence-lr",),
        enough=(at_least(LEAST_POINTS, "lr"),),
    ),
)
