"""The symptom of a run that stood still, or broke off."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from stabdiag.model.findings import Action, ActionKind, Severity
from stabdiag.model.history import EventCode
from stabdiag.model.text import num
from stabdiag.stats.quantiles import median
from stabdiag.symptoms.symptom import Evidence, Symptom, too_few
from stabdiag.tree.checkpoint import checkpoint_before

if TYPE_CHECKING:
    from stabdiag.model.arrays import Mask
    from stabdiag.model.history import Event, Series
    from stabdiag.tree.case import Case

# So few records show no usual distance.
_LEAST = 25

# Time stamps above this are in milliseconds: as seconds they would lie beyond the year 5000.
_MILLISECONDS = 1e11

# So many pauses are single events; more of them are a habit beyond one in a hundred records.
_FEW_PAUSES = 3

# A run that ends before this share of its steps was not finished.
_FINISHED = 0.95


# What ends a run, and what to do about it before a resume.
_FATAL = {
    EventCode.KILLED: (
        ActionKind.READ_LOGS,
        "Find out who killed the process: the scheduler's log (time limit, preemption), or dmesg "
        "(exit code 137: the host ran out of memory)",
    ),
    EventCode.OUT_OF_MEMORY: (
        ActionKind.FREE_MEMORY,
        "Use less memory: halve the batch and accumulate over twice as many steps, shorten the "
        "sequences, or checkpoint activations",
    ),
    EventCode.COLLECTIVE_FAILED: (
        ActionKind.READ_LOGS,
        "Look in the logs of every rank for the first error: the rank that reports a time-out "
        "waited for another one",
    ),
    EventCode.CUDA_ERROR: (
        ActionKind.RERUN,
        "Run the last steps again with CUDA_LAUNCH_BLOCKING=1, so that the traceback names the "
        "operation that failed",
    ),
    EventCode.TRACEBACK: (ActionKind.READ_LOGS, "Fix what the traceback says"),
}
# The kernel's killer frees the memory of the host, not that of the accelerator.
_HOST = re.compile("killed process|oom.kill", re.IGNORECASE)
_HOST_MEMORY = (
    ActionKind.FREE_MEMORY,
    "Use less memory on the host: fewer loader workers, less prefetching, a smaller cache",
)
_UNKNOWN = (ActionKind.READ_LOGS, "Find out why the run ended")


def stall(case: Case) -> Evidence | None:
    """Is there a pause that nothing usual explains, or did the run break off?"""
    return _broken_off(case) or _paused(case)


def _broken_off(case: Case) -> Evidence | None:
    """Find an end before the last step that the log itself gives a reason for.

    Without one, a run that has stopped cannot be told from one that is still going on.
    """
    total, last = case.manifest.total_steps, case.history.last_step
    if last is None or (total is not None and last >= _FINISHED * total):
        return None
    told = _last_words(case, last - 2 * case.stride)
    if told is None:
        return None
    saved = checkpoint_before(case.manifest, last + 1).step
    where = f"the checkpoint of step {saved}" if saved else "the last checkpoint"
    kind, cure = _cure(told)
    of = f" of {total}" if total is not None else ""
    return Evidence(
        title="The run broke off",
        because=f"The log ends at step {last}{of}, with: {told.message}",
        step=last,
        measured={"last_step": last, "total_steps": total},
        first=Action(kind, f"{cure}; then resume from {where}.", checkpoint=saved or None),
        then=(
            Action(
                ActionKind.READ_LOGS,
                "If there are several ranks, look in the log of each for the first error.",
            ),
            Action(
                ActionKind.KEEP_CHECKPOINT,
                "Save checkpoints often enough that a failure costs little, and test a resume.",
            ),
        ),
    )


def _cure(told: Event) -> tuple[ActionKind, str]:
    """Return what to do about what ended the run, as the beginning of a sentence."""
    if _HOST.search(told.said):
        return _HOST_MEMORY
    return _UNKNOWN if told.code is None else _FATAL.get(told.code, _UNKNOWN)


def _last_words(case: Case, since: float) -> Event | None:
    """Return the first message from a step on that a run may end with.

    Where the manifest does not tell of the end, it has to be one that ends a run for certain.
    """
    known = case.manifest.total_steps is not None
    return next(
        (
            event
            for event in case.history.messages
            if event.step is not None and event.step >= since and (known or event.code in _FATAL)
        ),
        None,
    )


def _paused(case: Case) -> Evidence | None:
    clock = case.history.finite("clock")
    if len(clock) < _LEAST:
        return None
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
    # What comes before the second record is start-up: compiling, loading, warming caches.
    long[0] = False
    long &= ~_between_jobs(case, clock)
    places = np.flatnonzero(long)
    # Pauses that come again and again are how the run is.
    if not len(places) or len(places) > max(_FEW_PAUSES, len(waits) // 100):
        return None
    at = int(places[np.argmax(waits[places])])
    first, last, wait = int(clock.steps[at]), int(clock.steps[at + 1]), float(waits[at])
    return Evidence(
        title="The run stood still",
        because=f"Nothing was logged for {_time(wait)} between steps {first} and {last}; "
        f"{_time(usual)} is usual.",
        step=first,
        measured={"seconds": wait, "usual_seconds": usual, "stalls": len(places)},
        first=Action(
            ActionKind.READ_LOGS,
            f"Look in the logs of every rank for what happened after step {first}: a rank that "
            "waited for another, a slow disk, a job that was preempted.",
            step=first,
        ),
        then=(
            Action(
                ActionKind.READ_LOGS, "Run with NCCL_DEBUG=INFO and TORCH_DISTRIBUTED_DEBUG=DETAIL."
            ),
            Action(ActionKind.READ_LOGS, "Dump the stacks of a process that hangs (py-spy dump)."),
        ),
    )


def _between_jobs(case: Case, clock: Series) -> Mask:
    """Tell which waits between records are those of one job for another that resumes it."""
    return np.isin(clock.steps[1:], np.array(case.history.jobs_began, dtype=np.int64))


def _time(seconds: float) -> str:
    if seconds < 120:
        return f"{num(seconds)} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def _few_times(case: Case) -> str:
    logged = len(case.history.finite("clock"))
    return too_few(_LEAST, f"{logged} of clock") if 0 < logged < _LEAST else ""


SYMPTOMS: tuple[Symptom, ...] = (
    Symptom(
        slug="stall",
        severity=Severity.WARNING,
        family="throughput",
        title="The run stood still, or broke off",
        check=stall,
        needs=("clock or manifest.total_steps or message",),
        limits=("throughput.stall_ratio", "throughput.stall_seconds"),
        explained_by=("nan", "loss-scale-collapsed"),
        enough=(_few_times,),
    ),
)
