"""The facts of an incident: which step was the first bad one, and what comes before and after."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from stabdiag.findings import Answer, AskedOf, Severity, Verdict
from stabdiag.tree.case import Case
from stabdiag.tree.checkpoint import Checkpoint, checkpoint_before
from stabdiag.tree.origin import origin

if TYPE_CHECKING:
    from stabdiag.findings import Finding
    from stabdiag.report import Report


@dataclass(frozen=True, kw_only=True)
class Incident:
    """What happened when, in steps; None for what did not happen or cannot be told.

    ``onset`` is where the trouble began, ``first_bad`` the first step that was visibly bad (a climb
    has none), ``not_finite`` the step of the first value that led to a NaN, of the loss or of
    another series, ``last_good`` the last finite loss before it, ``recovered`` where the loss was
    back. ``lead_up`` is what the run suffered from before a NaN. ``checkpoint`` is the last from
    before the onset.
    """

    first: int
    last: int
    onset: int
    checkpoint: Checkpoint
    first_bad: int | None = None
    not_finite: int | None = None
    last_good: int | None = None
    worst: int | None = None
    recovered: int | None = None
    lead_up: Finding | None = None

    @property
    def took(self) -> int:
        """How many steps the loss of a spike took to be back."""
        if self.recovered is None or self.first_bad is None:
            return 0
        return self.recovered - self.first_bad


def incident_of(report: Report) -> Incident:
    """Return the facts of a diagnosis that found something."""
    found, history = report.diagnosis, report.history
    first, last = history.first_step or 0, history.last_step or 0
    lead_up = _lead_up(report)
    not_finite = _not_finite(report)
    # A jump or a surge that led up to it began before what shows: the advice goes back beyond it.
    begins = (not_finite, found.step, found.began, None if lead_up is None else lead_up.step)
    onset = min((step for step in begins if step is not None), default=first)
    recovered = _recovered(report)
    return Incident(
        first=first,
        last=last,
        onset=onset,
        checkpoint=checkpoint_before(report.manifest, onset),
        first_bad=None if found.section in ("§4", "symptom") else found.step,
        not_finite=not_finite,
        last_good=_number(asked(report, "Q1.1"), "last_good"),
        worst=_worst(report, onset, last if recovered is None else recovered),
        recovered=recovered,
        lead_up=lead_up,
    )


def asked(report: Report, question: str, of: AskedOf = AskedOf.RUN) -> Answer | None:
    """Return the answer to a question, or None where the walk did not come to it."""
    answers = (a for a in report.tree.answers if a.question == question and a.asked_of is of)
    return next(answers, None)


def _lead_up(report: Report) -> Finding | None:
    """Return the error that the run suffered from before a NaN, the one that the advice names."""
    return next(
        (
            finding
            for finding in report.findings
            if finding.asked_of is AskedOf.LEAD_UP
            and finding.severity is Severity.ERROR
            and finding.step is not None
        ),
        None,
    )


def _not_finite(report: Report) -> int | None:
    """Return the step of the first value that was not finite and led to a NaN."""
    if report.diagnosis.section != "§1":
        return None
    case = Case(history=report.history, manifest=report.manifest, limits=report.limits)
    return origin(case).step


def _recovered(report: Report) -> int | None:
    """Return the step at which the loss was back from the spike that the diagnosis is about."""
    answer = asked(report, "Q2.2")
    if report.diagnosis.section != "§2" or answer is None or answer.verdict is not Verdict.YES:
        return None
    return answer.steps[-1]


def _worst(report: Report, onset: int, end: int) -> int | None:
    """Return the step of the highest loss from the onset of a spike or a NaN on."""
    if report.diagnosis.section not in ("§1", "§2"):
        return None
    after = report.history.finite("loss").between(onset, end)
    return int(after.steps[np.argmax(after.values)]) if len(after) else None


def _number(answer: Answer | None, name: str) -> int | None:
    value = None if answer is None else answer.measured.get(name)
    return value if isinstance(value, int) else None
