"""The symptoms of throughput: a run that gets slower, or uses little of its machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stabdiag.model.findings import Action, ActionKind, Severity
from stabdiag.model.text import num
from stabdiag.stats.levels import levels
from stabdiag.stats.quantiles import median, typical
from stabdiag.symptoms.symptom import Evidence, Symptom, at_least

if TYPE_CHECKING:
    from stabdiag.model.arrays import Floats, Ints
    from stabdiag.tree.case import Case


_STRETCHES = 10
_LEAST = 50

# Slow records take less than half of the usual speed, and come so regularly that distances differ
# by less than this share.
_SLOW = 0.5
_REGULAR = 0.2
_LEAST_SLOW = 5

# A rhythm goes on: from the first slow record to the last there are at least this share of those
# that it asks for. A few distances of chance may be alike, above all where they are short.
_KEPT = 0.6


def throughput_drop(case: Case) -> Evidence | None:
    """Has the throughput dropped, and stayed low?"""
    found = _speed(case)
    if found is None:
        return None
    steps, speed = found
    level = levels(speed, _STRETCHES)
    # The first stretch is compilation and warm-up; two in a row are what the run had kept up.
    kept = np.minimum(level[1:-1], level[2:])
    usual, last = float(kept[:-1].max()), float(level[-2:].max())
    share = last / usual if usual > 0 else 1.0
    if share >= case.limits.throughput.drop_ratio:
        return None
    fast = np.flatnonzero(speed > (usual + last) / 2)
    since = int(steps[min(int(fast[-1]) + 1, len(steps) - 1)])
    return Evidence(
        because=f"The throughput fell to {share:.0%} of what it had been, from {num(usual)} to "
        f"{num(last)}, by step {since}, and stayed there.",
        step=since,
        measured={"before": usual, "after": last, "share": share},
        first=Action(
            ActionKind.CHECK_MACHINES,
            f"Compare the machines before and after step {since}: clock and temperature of the "
            "accelerators, other jobs, the network and the disks.",
            step=since,
        ),
        then=(
            Action(ActionKind.INSPECT_DATA, "Check whether sequences or batches got longer there."),
            Action(
                ActionKind.SPEED_UP,
                "Profile a few steps for gaps between kernels: the loader, synchronisation, "
                "logging.",
            ),
            Action(
                ActionKind.RELOAD_CHECKPOINT,
                "Restart from the last checkpoint if a machine is at fault.",
            ),
        ),
    )


def throughput_sawtooth(case: Case) -> Evidence | None:
    """Do slow steps come regularly, and cost more than a little?"""
    found = _speed(case)
    if found is None:
        return None
    steps, speed = found
    usual = typical(speed)
    if usual <= 0:
        return None
    # What a step costs, in usual ones. A machine that is shared has a slow step at any time: the
    # rhythm is that of those that cost most.
    cost = np.maximum(usual / np.maximum(speed, 1e-3 * usual) - 1, 0)
    high = float(np.partition(cost, -_LEAST_SLOW)[-_LEAST_SLOW])
    slow = np.flatnonzero(cost >= max(high / 2, 1 / _SLOW - 1))
    if len(slow) < _LEAST_SLOW:
        return None
    # Slow for long is a drop; the first of each stretch marks the rhythm.
    begins = slow[np.append(True, np.diff(slow) > 1)]
    gaps = np.diff(steps[begins]).astype(np.float64)
    if len(gaps) < _LEAST_SLOW - 1:
        return None
    every = median(gaps)
    alike = median(np.abs(gaps - every)) <= _REGULAR * every
    regular = alike and len(gaps) * every >= _KEPT * float(gaps.sum())
    # Of the steps between two records nothing is known but that most are usual ones.
    lost = float(cost[slow].sum() / (float(np.ptp(steps)) + 1 + cost.sum()))
    if not regular or lost <= case.limits.throughput.lost_share:
        return None
    return Evidence(
        because=f"Every {num(every)} steps the throughput falls below half of its usual "
        f"{num(usual)}, {len(begins)} times; that costs {lost:.0%} of the time.",
        step=int(steps[begins[0]]),
        measured={"every": every, "times": len(begins), "lost": lost, "usual": usual},
        first=Action(
            ActionKind.SPEED_UP,
            f"Find what happens every {num(every)} steps: a checkpoint, an evaluation, garbage "
            "collection, or a loader that cannot keep up.",
        ),
        then=(
            Action(ActionKind.SPEED_UP, "Give the loader more workers and let it prefetch."),
            Action(ActionKind.SPEED_UP, "Write checkpoints in the background, or less often."),
        ),
    )


def mfu_low(case: Case) -> Evidence | None:
    """Is little of the accelerator's peak used?"""
    mfu = case.history.finite("mfu")
    if len(mfu) < _LEAST // 2:
        return None
    x = mfu.values[len(mfu) // _STRETCHES :]
    # Some log per cent. A single record beyond the peak is one whose time was measured too short.
    usual = median(x)
    used = usual / 100.0 if usual > 1 or "percent" in mfu.column else usual
    if not 0 < used < case.limits.throughput.least_mfu:
        return None
    return Evidence(
        because=f"The run uses {num(100 * used)}% of the accelerator's peak (MFU, median of "
        f"{len(x)} records).",
        step=int(mfu.steps[0]),
        measured={"mfu": used},
        first=Action(
            ActionKind.SPEED_UP,
            "Profile a few steps and look for gaps: a loader that is too slow, .item() calls, "
            "communication that does not overlap.",
        ),
        then=(
            Action(
                ActionKind.SPEED_UP,
                "Turn on the fast paths: bf16, torch.compile, fused attention, fused optimizer.",
            ),
            Action(ActionKind.CHANGE_BATCH, "Enlarge the batch, or pack sequences."),
            Action(ActionKind.SPEED_UP, "Lower the ZeRO stage if the model still fits."),
        ),
    )


def _speed(case: Case) -> tuple[Ints, Floats] | None:
    """Return steps and speeds, in any unit: what was logged, or one over the time of a step."""
    logged = map(case.history.finite, ("tokens_per_second", "step_time"))
    # A throughput that is told once, at the end, says nothing of the steps: their times may.
    series = next((one for one in logged if len(one) >= _LEAST), None)
    if series is None:
        return None
    values = series.values
    if series.role == "tokens_per_second":
        return series.steps, values
    # Time that only ever rises is that of the run, not of a step.
    if values.min() <= 0 or np.all(np.diff(values) >= 0):
        return None
    return series.steps, 1.0 / values


_SPEED = ("tokens_per_second or step_time",)

SYMPTOMS: tuple[Symptom, ...] = (
    Symptom(
        slug="throughput-drop",
        severity=Severity.WARNING,
        family="throughput",
        title="The throughput dropped",
        check=throughput_drop,
        needs=_SPEED,
        limits=("throughput.drop_ratio",),
        enough=(at_least(_LEAST, "tokens_per_second", "step_time"),),
    ),
    Symptom(
        slug="throughput-sawtooth",
        severity=Severity.WARNING,
        family="throughput",
        title="Slow steps at regular intervals",
        check=throughput_sawtooth,
        needs=_SPEED,
        limits=("throughput.lost_share",),
        enough=(at_least(_LEAST, "tokens_per_second", "step_time"),),
    ),
    Symptom(
        slug="mfu-low",
        severity=Severity.NOTE,
        family="throughput",
        title="The accelerator is mostly idle (low MFU)",
        check=mfu_low,
        needs=("mfu",),
        limits=("throughput.least_mfu",),
        enough=(at_least(_LEAST // 2, "mfu"),),
    ),
)
