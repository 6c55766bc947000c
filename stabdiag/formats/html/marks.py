"""The steps that the charts of a page mark."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from stabdiag.formats.html.points import MAX_STRETCHES, stretches
from stabdiag.formats.subject import Mark
from stabdiag.model.events import EventKind
from stabdiag.model.findings import AnswerScope
from stabdiag.model.report import Report


def marks(report: Report) -> Iterator[Mark]:
    """Yield all marks, the most important last; the script adds regular checkpoints."""
    yield from _bad(report)
    yield from _recovery(report)
    yield from _resumes(report)
    yield from _left(report)
    diagnosis = report.diagnosis
    checkpoint = diagnosis.evidence.get("checkpoint")
    if isinstance(checkpoint, int) and checkpoint > 0:
        yield Mark(kind="reload", step=checkpoint, label="Last checkpoint before it")
    for finding in (*report.also_found, diagnosis):
        if finding.step is not None:
            kind = "event" if finding is diagnosis else "finding"
            yield Mark(kind=kind, step=finding.step, label=finding.title)


def _left(report: Report) -> Iterator[Mark]:
    """Yield the step where the first series left the band of earlier good runs."""
    first = None if report.baseline is None else report.baseline.first_to_leave
    if first is not None and first.step is not None:
        label = f"The {first.name} leaves the band of the good runs"
        yield Mark(kind="finding", step=first.step, label=label)


def _bad(report: Report) -> Iterator[Mark]:
    loss = report.history.get("loss")
    if loss is None:
        return
    begins, ends = stretches(~np.isfinite(loss.values))
    firsts, lasts = (loss.steps[at[:MAX_STRETCHES]].tolist() for at in (begins, ends))
    for first, last in zip(firsts, lasts, strict=True):
        yield Mark(kind="bad", step=first, last=last, label="Loss not finite")


def _recovery(report: Report) -> Iterator[Mark]:
    """Yield the window for the recovery of the loss, and the level to reach."""
    for answer in report.tree.answers:
        # In a sparse log the window in the answer is longer than the limit.
        limit, level = answer.limits.get("spike.recovery_steps"), answer.measured.get("bound")
        steps = answer.measured.get("recovery_steps", limit)
        if answer.steps and isinstance(steps, int | float) and isinstance(level, int | float):
            first = answer.steps[0]
            last = first + int(steps)
            if answer.scope is AnswerScope.LEAD_UP:
                last = min(last, report.diagnosis.step or last)
            yield Mark(
                kind="recovery", step=first, last=last, label="Recovery window", level=float(level)
            )


def _resumes(report: Report) -> Iterator[Mark]:
    for event in report.history.events:
        if event.step is not None and event.kind in (EventKind.REWIND, EventKind.ATTEMPT):
            yield Mark(kind=event.kind.value, step=event.step, label=event.message)
    source, first = report.history.source, report.history.first_step
    if source.attempts > 1 and first is not None:
        label = f"Attempt {source.attempt} of {source.attempts} begins"
        yield Mark(kind="attempt", step=first, label=label)
