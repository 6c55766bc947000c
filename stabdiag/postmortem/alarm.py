"""When the trouble could have been known: earlier parts of the log, diagnosed on their own."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from stabdiag.findings import Finding, Severity
from stabdiag.symptoms.check import check_symptoms, worst_first
from stabdiag.tree.case import Case
from stabdiag.tree.walk import walk

if TYPE_CHECKING:
    from stabdiag.arrays import Ints
    from stabdiag.history import History
    from stabdiag.postmortem.incident import Incident
    from stabdiag.report import Report

SYMPTOM = "symptom"
"""The section of a finding that is none of the tree's."""

_LOSS_WENT_UP = frozenset({"§2", "§4"})

# Every diagnosis costs as much as that of the whole log: a long one is not asked at every point.
_FASTER = 4
_EXACT = 100


@dataclass(frozen=True, kw_only=True)
class Alarm:
    """The first step up to which the log showed the trouble, and the finding that it showed."""

    step: int
    finding: Finding


def first_alarm(report: Report, incident: Incident) -> Alarm | None:
    """Return when a diagnosis of the log so far would first have reported the trouble.

    The log is cut at the onset, and 1, 5, 21, … points later, until a diagnosis of it finds what
    that of the whole log found, or something as bad; the point is then looked for in the last of
    these gaps, to a hundredth of its distance from the onset. What is found, and for a while is
    not, within one gap may be missed once.
    """
    steps = _steps(report.history)
    begin = min(int(np.searchsorted(steps, incident.onset)), len(steps) - 1)
    quiet, cut, ahead = begin - 1, begin, 1
    found = _found(report, incident, int(steps[cut]))
    while found is None and cut < len(steps) - 1:
        quiet, cut, ahead = cut, min(cut + ahead, len(steps) - 1), _FASTER * ahead
        found = _found(report, incident, int(steps[cut]))
    while found is not None and cut - quiet > max((cut - begin) // _EXACT, 1):
        middle = (quiet + cut) // 2
        earlier = _found(report, incident, int(steps[middle]))
        if earlier is None:
            quiet = middle
        else:
            cut, found = middle, earlier
    return None if found is None else Alarm(step=int(steps[cut]), finding=found)


def _steps(history: History) -> Ints:
    """Return the steps of the loss, or of the longest series where no loss was logged."""
    loss = history.get("loss")
    series = loss if loss is not None else max(history.series.values(), key=len)
    return series.steps


def _found(report: Report, incident: Incident, last: int) -> Finding | None:
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
        findings = worst_first(findings, check_symptoms(case).findings(findings))
    return next((f for f in findings if _tells(f, report.diagnosis, incident)), None)


def _tells(finding: Finding, diagnosis: Finding, incident: Incident) -> bool:
    """Tell whether a finding of an early part of the log is about the trouble of the whole."""
    if finding.slug == diagnosis.slug:
        return True
    if finding.severity is not Severity.ERROR and finding.severity is not diagnosis.severity:
        return False
    # The onset that an early part shows may lie a little before that which the whole shows, and
    # the first losses of a climb may look like a jump.
    related = {one.section for one in (diagnosis, incident.lead_up) if one is not None} - {SYMPTOM}
    if related & _LOSS_WENT_UP:
        related |= _LOSS_WENT_UP
    since = finding.step is not None and finding.step >= incident.onset
    return since or finding.section in related
