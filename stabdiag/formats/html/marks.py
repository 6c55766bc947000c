"""What a page marks on its charts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from stabdiag.formats.html.thin import stretches
from stabdiag.model.history import EventKind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stabdiag.model.report import Report

_MOST = 500


@dataclass(frozen=True, kw_only=True)
class Mark:
    """A step, or all steps from ``first`` to ``last``, and what is there.

    ``level`` is the loss that a recovery had to come below.
    """

    kind: str
    first: int
    last: int
    label: str
    level: float | None = None


def marks(report: Report) -> Iterator[Mark]:
    """Yield every mark, the most important last, but for the checkpoints of the cadence.

    Those the charts count off themselves.
    """
    yield from _bad(report)
    yield from _recovery(report)
    yield from _resumes(report)
    yield from _reload(report)
    yield from _findings(report)


def _at(kind: str, step: int, label: str) -> Mark:
    return Mark(kind=kind, first=step, last=step, label=label)


def _findings(report: Report) -> Iterator[Mark]:
    first = report.diagnosis
    for found in (*report.also_found, first):
        if found.step is not None:
            kind = "event" if found is first else "finding"
            yield _at(kind, found.step, found.title)


def _bad(report: Report) -> Iterator[Mark]:
    loss = report.history.get("loss")
    if loss is None:
        return
    begins, ends = stretches(~np.isfinite(loss.values))
    for begin, end in zip(begins[:_MOST].tolist(), ends[:_MOST].tolist(), strict=True):
        first, last = int(loss.steps[begin]), int(loss.steps[end])
        yield Mark(kind="bad", first=first, last=last, label="The loss is not finite")


def _recovery(report: Report) -> Iterator[Mark]:
    """Yield the steps within which the loss had to come back, and the level to reach."""
    for answer in report.tree.answers:
        # On a sparse log the answer tells of a longer time than the limit.
        limit, level = answer.limits.get("spike.recovery_steps"), answer.measured.get("bound")
        steps = answer.measured.get("recovery_steps", limit)
        if answer.steps and isinstance(steps, int | float) and isinstance(level, int | float):
            first = answer.steps[0]
            yield Mark(
                kind="recovery",
                first=first,
                last=first + int(steps),
                label="Recovery window",
                level=float(level),
            )


def _resumes(report: Report) -> Iterator[Mark]:
    for event in report.history.events:
        if event.step is not None and event.kind in (EventKind.REWIND, EventKind.ATTEMPT):
            yield _at(event.kind.value, event.step, event.message)
    source, first = report.history.source, report.history.first_step
    if source.attempts > 1 and first is not None:
        yield _at("attempt", first, f"Attempt {source.attempt} of {source.attempts} begins")


def _reload(report: Report) -> Iterator[Mark]:
    step = report.diagnosis.evidence.get("checkpoint")
    if isinstance(step, int) and step > 0:
        yield _at("reload", step, "Last checkpoint before it")
