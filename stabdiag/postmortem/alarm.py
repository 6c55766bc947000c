"""When the trouble could have been known: the log up to a step, diagnosed on its own."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from stabdiag.findings import Finding, Severity
from stabdiag.symptoms.check import check_symptoms
from stabdiag.tree.case import Case
from stabdiag.tree.walk import walk

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stabdiag.history import History
    from stabdiag.report import Report

SYMPTOM = "symptom"
"""The section of a finding that is none of the tree's."""


@dataclass(frozen=True, kw_only=True)
class Alarm:
    """The first step at whose end the log showed the trouble, and what it showed."""

    step: int
    finding: Finding


def first_alarm(report: Report, onset: int) -> Alarm | None:
    """Return when a diagnosis of the log so far would have told of the trouble, from its onset on.

    The log is cut after the onset, and 1, 3, 7, … points later, until a diagnosis of it finds what
    the diagnosis of all found or something as bad; the step is then looked for in the last of these
    gaps. A finding that comes, goes and comes again within a gap may thus be missed once.
    """
    steps = _steps(report.history)
    begin = int(np.searchsorted(steps, onset))
    quiet, ahead = begin - 1, 1
    cut = min(begin, len(steps) - 1)
    found = _found(report, int(steps[cut]), onset)
    while found is None and cut < len(steps) - 1:
        quiet, cut, ahead = cut, min(cut + ahead, len(steps) - 1), 2 * ahead
        found = _found(report, int(steps[cut]), onset)
    while found is not None and cut - quiet > 1:
        middle = (quiet + cut) // 2
        earlier = _found(report, int(steps[middle]), onset)
        if earlier is None:
            quiet = middle
        else:
            cut, found = middle, earlier
    return None if found is None else Alarm(step=int(steps[cut]), finding=found)


def _steps(history: History) -> NDArray[np.int64]:
    """Return the steps of the loss, or of the longest series where no loss was logged."""
    loss = history.get("loss")
    series = loss if loss is not None else max(history.series.values(), key=len)
    return series.steps


def _found(report: Report, last: int, onset: int) -> Finding | None:
    """Return the finding of the log up to a step that tells of the trouble, or None."""
    cut = report.history.before(last + 1)
    # What the log said later was not known then.
    events = tuple(e for e in cut.events if e.step is None or e.step <= last)
    history = replace(cut, events=events)
    case = Case(
        history=history, manifest=report.manifest, limits=report.limits, literal=report.literal
    )
    findings = walk(case).findings
    if report.diagnosis.section == SYMPTOM:
        findings = check_symptoms(case, findings).findings
    return next((f for f in findings if _tells(f, report.diagnosis, onset)), None)


def _tells(finding: Finding, diagnosis: Finding, onset: int) -> bool:
    if finding.slug == diagnosis.slug:
        return True
    if finding.severity is not Severity.ERROR and finding.severity is not diagnosis.severity:
        return False
    since = finding.step is not None and finding.step >= onset
    return since or (finding.section == diagnosis.section != SYMPTOM)
