"""The symptoms of throughput: a run that gets slower, stands still, or fills the memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stabdiag.findings import Severity
from stabdiag.history import EventKind
from stabdiag.stats.levels import levels
from stabdiag.stats.quantiles import median
from stabdiag.symptoms.symptom import Evidence, Symptom
from stabdiag.tree.words import checkpoint_before, num

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stabdiag.tree.case import Case

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]

_STRETCHES = 10
_LEAST = 50

# Slow records take less than half of the usual speed, and come so regularly that distances differ
# by less than this share.
_SLOW = 0.5
_REGULAR = 0.2
_LEAST_SLOW = 5

# Time stamps above this are in milliseconds: as seconds they would lie beyond the year 5000.
_MILLISECONDS = 1e11

# So many pauses are single events; more of them are a habit beyond one in a hundred records.
_FEW_PAUSES = 3

# A run that ends before this share of its steps was not finished.
_FINISHED = 0.95


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
    since = int(steps[min(int(fast[-1]) + 1, len(steps) - 1)]) if len(fast) else int(steps[0])
    return Evidence(
        because=f"The throughput fell to {share:.0%} of what it had been, from {num(usual)} to "
        f"{num(last)}, by step {since}, and stayed there.",
        step=since,
        measured={"before": usual, "after": last, "share": share},
        first=f"Compare the machines before and after step {since}: clock and temperature of the "
        "accelerators, other jobs, the network and the disks.",
        then=(
            "Look whether sequences or batches became longer there.",
            "Profile a few steps for gaps between kernels: the loader, synchronisation, logging.",
            "Restart from the last checkpoint if a machine is at fault.",
        ),
    )


def throughput_sawtooth(case: Case) -> Evidence | None:
    """Do slow steps come regularly, and cost more than a little?"""
    found = _speed(case)
    if found is None:
        return None
    steps, speed = found
    usual = median(speed)
    slow = np.flatnonzero(speed < _SLOW * usual)
    if usual <= 0 or len(slow) < _LEAST_SLOW:
        return None
    # Slow for long is a drop; the first of each stretch marks the rhythm.
    begins = slow[np.append(True, np.diff(slow) > 1)]
    gaps = np.diff(steps[begins]).astype(np.float64)
    if len(gaps) < _LEAST_SLOW - 1:
        return None
    every = median(gaps)
    regular = median(np.abs(gaps - every)) <= _REGULAR * every
    with np.errstate(divide="ignore"):
        extra = np.maximum(usual / np.maximum(speed, 1e-3 * usual) - 1, 0)
    lost = float(extra.sum() / (len(speed) + extra.sum()))
    if not regular or lost <= case.limits.throughput.lost_share:
        return None
    return Evidence(
        because=f"Every {num(every)} steps the throughput falls below half of its usual "
        f"{num(usual)}, {len(begins)} times; that costs {lost:.0%} of the time.",
        step=int(steps[begins[0]]),
        measured={"every": every, "times": len(begins), "lost": lost, "usual": usual},
        first=f"Find what happens every {num(every)} steps: a checkpoint, an evaluation, garbage "
        "collection, or a loader that cannot keep up.",
        then=(
            "Give the loader more workers and let it prefetch.",
            "Write checkpoints in the background, or less often.",
        ),
    )


def mfu_low(case: Case) -> Evidence | None:
    """Is little of the accelerator's peak used?"""
    mfu = case.history.get("mfu")
    if mfu is None or len(mfu.finite()) < _LEAST // 2:
        return None
    finite = mfu.finite()
    x = finite.values[len(finite) // _STRETCHES :]
    used = median(x) / (100.0 if x.max() > 1 else 1.0)
    if not 0 < used < case.limits.throughput.least_mfu:
        return None
    return Evidence(
        because=f"The run uses {used:.0%} of the accelerator's peak (MFU, median of {len(x)} "
        "records).",
        step=int(finite.steps[0]),
        measured={"mfu": used},
        first="Profile a few steps and look for gaps: a loader that is too slow, .item() calls, "
        "communication that does not overlap.",
        then=(
            "Turn on the fast paths: bf16, torch.compile, fused attention, fused optimizer.",
            "Enlarge the batch, or pack sequences.",
            "Lower the ZeRO stage if the model still fits.",
        ),
    )


def stall(case: Case) -> Evidence | None:
    """Is there a pause that nothing usual explains, or did the run break off?"""
    return _broken_off(case) or _paused(case)


def _broken_off(case: Case) -> Evidence | None:
    """Find an end long before the last step that the log itself gives a reason for.

    Without one, a run that has stopped cannot be told from one that is still going on.
    """
    total, last = case.manifest.total_steps, case.history.last_step
    if total is None or last is None or last >= _FINISHED * total:
        return None
    told = [
        event
        for event in case.history.events
        if event.kind is EventKind.MESSAGE
        and event.step is not None
        and event.step >= last - 2 * case.stride
    ]
    if not told:
        return None
    before = checkpoint_before(case.manifest, last + 1)
    return Evidence(
        because=f"The log ends at step {last} of {total}, with: {told[0].message}",
        step=last,
        measured={"last_step": last, "total_steps": total},
        first=f"{before.reload('the end of the log')}, once the cause of its end is removed.",
        then=(
            "Look in the logs of every rank for the first error.",
            "Write checkpoints more often than machines fail, and test the way back.",
        ),
    )


def _paused(case: Case) -> Evidence | None:
    clock = case.history.get("clock")
    if clock is None or len(clock.finite()) < _LEAST // 2:
        return None
    clock = clock.finite()
    seconds = clock.values / (1000.0 if clock.values.max() > _MILLISECONDS else 1.0)
    waits, strides = np.diff(seconds), np.diff(clock.steps)
    # A clock that goes back is of another process.
    good = waits >= 0
    if not good.any():
        return None
    usual = median(waits[good])
    limits = case.limits.throughput
    long = good & (waits > max(limits.stall_ratio * usual, limits.stall_seconds))
    # As many steps take as much time.
    long &= waits > limits.stall_ratio * usual * strides / max(median(strides * 1.0), 1.0)
    places = np.flatnonzero(long)
    # Pauses that come again and again are how the run is.
    if not len(places) or len(places) > max(_FEW_PAUSES, len(waits) // 100):
        return None
    at = int(places[np.argmax(waits[places])])
    first, last, wait = int(clock.steps[at]), int(clock.steps[at + 1]), float(waits[at])
    return Evidence(
        because=f"Nothing was logged for {_time(wait)} between the steps {first} and {last}; "
        f"{_time(usual)} is usual.",
        step=first,
        measured={"seconds": wait, "usual_seconds": usual, "stalls": len(places)},
        first=f"Look in the logs of every rank for what happened after step {first}: a rank that "
        "waited for another, a slow disk, a job that was preempted.",
        then=(
            "Run with NCCL_DEBUG=INFO and TORCH_DISTRIBUTED_DEBUG=DETAIL.",
            "Dump the stacks of a process that hangs (py-spy dump).",
        ),
    )


def _time(seconds: float) -> str:
    if seconds < 120:
        return f"{num(seconds)} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def memory_growth(case: Case) -> Evidence | None:
    """Does memory grow, and go on growing?"""
    found = None
    for name, series in case.history.group("memory").items():
        finite = series.finite()
        if len(finite) < _LEAST:
            continue
        level = levels(finite.values, _STRETCHES)
        first, last = float(level[1]), float(level[-1])
        steady = np.all(np.diff(level[1:]) > 0)
        growth = last / first - 1 if first > 0 else 0.0
        # A peak that is only kept rises by ever smaller steps; a leak goes on as it began.
        goes_on = level[-1] - level[-4] > (level[-1] - level[1]) / 4
        limit = case.limits.throughput.memory_growth
        if steady and goes_on and growth > limit and (found is None or growth > found[1]):
            found = (name, growth, first, last, int(finite.steps[len(finite) // _STRETCHES]))
    if found is None:
        return None
    name, growth, first, last, step = found
    what = "The memory in use" if name == "all" else f"The memory {name!r}"
    return Evidence(
        because=f"{what} grew from {num(first)} at step {step} to {num(last)} ({growth:+.0%}), "
        "steadily to the end.",
        step=step,
        measured={"first": first, "last": last, "growth": growth},
        first="Look for tensors that are kept from step to step: a loss added up without .item(), "
        "outputs in a list, a graph that is retained.",
        then=(
            "Evaluate under torch.no_grad().",
            "Take two memory snapshots a hundred steps apart and compare them.",
            "Set expandable_segments:True if it is fragmentation.",
        ),
    )


def _speed(case: Case) -> tuple[Ints, Floats] | None:
    """Return steps and speeds, in any unit: what was logged, or one over the time of a step."""
    rate, time = case.history.get("tokens_per_second"), case.history.get("step_time")
    series = rate if rate is not None else time
    if series is None:
        return None
    series = series.finite()
    values = series.values
    if len(values) < _LEAST:
        return None
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
    ),
    Symptom(
        slug="throughput-sawtooth",
        severity=Severity.WARNING,
        family="throughput",
        title="Slow steps at regular distances",
        check=throughput_sawtooth,
        needs=_SPEED,
        limits=("throughput.lost_share",),
    ),
    Symptom(
        slug="mfu-low",
        severity=Severity.NOTE,
        family="throughput",
        title="Little of the accelerator is used",
        check=mfu_low,
        needs=("mfu",),
        limits=("throughput.least_mfu",),
    ),
    Symptom(
        slug="stall",
        severity=Severity.WARNING,
        family="throughput",
        title="The run stood still",
        check=stall,
        needs=("clock or manifest.total_steps",),
        limits=("throughput.stall_ratio", "throughput.stall_seconds"),
    ),
    Symptom(
        slug="memory-growth",
        severity=Severity.WARNING,
        family="throughput",
        title="Memory that goes on growing",
        check=memory_growth,
        needs=("memory",),
        limits=("throughput.memory_growth",),
    ),
)
