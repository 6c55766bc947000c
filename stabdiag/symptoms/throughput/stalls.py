"""Runs that stop early, and pauses between records."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stabdiag.model.events import LAST_LINES, Event, EventCode
from stabdiag.model.findings import Action, Confidence, Severity
from stabdiag.model.findings import ActionKind as Do
from stabdiag.model.text import duration, num
from stabdiag.stats.quantiles import median
from stabdiag.stats.standards import COMPLETE, FEW_EVENTS, LEAST, TENFOLD
from stabdiag.symptoms.symptom import Evidence, Symptom, too_few
from stabdiag.tree.case import Case
from stabdiag.tree.checkpoint import earlier_checkpoint

if TYPE_CHECKING:
    from stabdiag.symptoms.throughput.endings import Ending

# A time stamp above this is in milliseconds: in seconds it would be beyond the year 5000.
_MILLISECONDS = 1e11


_EACH_RANK = Action(Do.READ_LOGS, "Look for the first error in the log of each rank.")


def _few_times(case: Case) -> str:
    logged, needed = len(case.history.finite("clock")), LEAST
    return too_few(needed, f"{logged} of clock") if 0 < logged < needed else ""


@Symptom(
    slug="stall",
    confidence=Confidence.HIGH,
    title="The run stalled or stopped early",
    needs=("clock or manifest.total_steps or message",),
    explained_by=("nan", "loss-scale-collapsed"),
    inconclusive_if=(_few_times,),
    next_actions=(
        Action(Do.READ_LOGS, "Run with NCCL_DEBUG=INFO and TORCH_DISTRIBUTED_DEBUG=DETAIL."),
        Action(Do.READ_LOGS, "Dump the stacks of a process that hangs (py-spy dump)."),
    ),
)
def stall(case: Case) -> Evidence | None:
    """Is there a long pause between records, or did the run stop early?"""
    return _stopped_early(case) or _paused(case)


def _stopped_early(case: Case) -> Evidence | None:
    """Report an end that a message in the log explains, such as an exception.

    Without a reason, a run that stopped looks the same as a run that is still going. An error after
    the last planned steps counts as well: the evaluation or the last checkpoint may be missing.
    """
    total, last = case.manifest.total_steps, case.history.last_step
    if last is None:
        return None
    is_complete = total is not None and last >= COMPLETE * total
    event = _final_message(case, last if is_complete else last - 2 * case.stride)
    if event is None:
        return None
    from stabdiag.symptoms.throughput.endings import find_ending  # few logs have a message

    saved = earlier_checkpoint(case, last + 1).step
    where = f"the checkpoint of {case.unit} {saved}" if saved else "the last checkpoint"
    ending = find_ending(event)
    of = f" of {total}" if total is not None else ""
    title = "The run ended with an error" if is_complete else "The run stopped early"
    title = "The run was interrupted" if ending.is_deliberate else ending.title or title
    severity = Severity.ERROR if ending.title and ending.is_certain else None
    is_note = ending.is_deliberate or not ending.is_certain
    return Evidence(
        title=title,
        severity=Severity.NOTE if is_note else severity,
        confidence=_confidence(event, ending),
        because=f"The log ends at {case.unit} {last}{of}, with{_last_line(event)}"
        f"{_last_change(case)}",
        step=last,
        measured={"last_step": last, "total_steps": total},
        first=Action(
            ending.kind,
            f"{ending.clause}; then check whether the last checkpoint was written."
            if is_complete
            else f"{ending.clause}; then resume from {where}.",
            checkpoint=saved or None,
        ),
        next_actions=(
            *ending.next_actions,
            *(() if ending.next_actions else (_EACH_RANK,)),
            Action(Do.KEEP_CHECKPOINT, "Save checkpoints more often, and test a resume."),
        ),
    )


def _confidence(event: Event, ending: Ending) -> Confidence | None:
    """Return the confidence in an end that words of no other rule name, or None for the usual."""
    if not ending.is_certain:
        return Confidence.LOW
    return Confidence.MEDIUM if event.code is EventCode.CLOSING_LINE else None


def _last_line(event: Event) -> str:
    is_last = event.code in LAST_LINES
    return f" the line: {event.quote}" if is_last else f": {event.message}"


def _last_change(case: Case) -> str:
    """Describe the last two losses if the loss rose tenfold between them."""
    losses = case.loss.values[-2:]
    if len(losses) < 2 or losses[1] <= TENFOLD * abs(losses[0]):
        return ""
    return f". The last losses were {num(losses[0])} and {num(losses[1])}"


def _final_message(case: Case, since: float) -> Event | None:
    """Return the first message after a step that may explain the end of the run.

    If the planned length is unknown or reached, only messages that always end a run count, and if
    it is unknown, a last line in unknown words.
    """
    if not case.history.messages:
        return None
    from stabdiag.symptoms.throughput.endings import FATAL

    total = case.manifest.total_steps
    is_complete = total is not None and since >= COMPLETE * total
    final = FATAL if is_complete else {*FATAL, EventCode.CLOSING_LINE}
    is_unfinished = total is not None and not is_complete
    return next(
        (
            event
            for event in case.history.messages
            if event.step is not None
            and event.step >= since
            and (is_unfinished or event.code in final)
        ),
        None,
    )


def _paused(case: Case) -> Evidence | None:
    clock, limits = case.history.finite("clock"), case.limits.throughput
    if len(clock) < LEAST:
        return None
    seconds = clock.values / (1000.0 if clock.values.max() > _MILLISECONDS else 1.0)
    waits = np.diff(seconds)
    usual = median(waits)
    long = waits > max(limits.stall_ratio * usual, limits.stall_seconds)
    # The time before the second record is start-up, and the time before a new job is idle.
    long[0] = False
    long &= ~np.isin(clock.steps[1:], np.array(case.history.jobs_began, dtype=np.int64))
    stalls = np.flatnonzero(long)
    if not 0 < len(stalls) <= FEW_EVENTS:
        return None
    at = int(stalls[np.argmax(waits[stalls])])
    first, last, wait = int(clock.steps[at]), int(clock.steps[at + 1]), float(waits[at])
    return Evidence(
        title="The run stalled",
        because=f"Nothing was logged for {duration(wait)} between {case.unit}s {first} and {last}; "
        f"{duration(usual)} is usual.",
        step=first,
        measured={"seconds": wait, "usual_seconds": usual, "stalls": len(stalls)},
        first=Action(
            Do.READ_LOGS,
            f"Check the logs of every rank after {case.unit} {first}: a rank that waited for "
            "another, a slow disk, a preempted job.",
            step=first,
        ),
    )
