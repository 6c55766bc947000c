"""The facts of an incident: which step was the first bad one, and what comes before and after."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from stabdiag.formats.postmortem.cost import Clock, Lost, clock_of, cost_of
from stabdiag.model.findings import Answer, AskedOf, Severity, Verdict
from stabdiag.model.text import plural

if TYPE_CHECKING:
    from stabdiag.model.findings import Finding
    from stabdiag.model.history import History
    from stabdiag.model.report import Detected, Report

# What may go non-finite before the loss does.
_NORMS = ("grad_norm", "activation_norm", "weight_norm")


@dataclass(frozen=True, kw_only=True, eq=False)
class Incident:
    """What happened when, in steps; None for what did not happen or cannot be told.

    ``onset`` is where the trouble began, ``first_bad`` the first step that was visibly bad (a climb
    has none), ``not_finite`` the step of the first value that led to a NaN, of the loss or of
    another series, ``last_good`` the last finite loss before it, ``recovered`` where the loss was
    back. ``lead_up`` is what the run suffered from before a NaN. ``checkpoint`` is the last from
    before the onset, 0 where there is none.
    """

    report: Report
    first: int
    last: int
    onset: int
    first_bad: int | None = None
    not_finite: int | None = None
    last_good: int | None = None
    worst: int | None = None
    recovered: int | None = None
    lead_up: Finding | None = None
    detected: Detected | None = None

    @property
    def unit(self) -> str:
        """What a step of the log is called."""
        return self.report.history.unit

    @property
    def checkpoint(self) -> int | None:
        """The step of the last checkpoint from before the onset."""
        return self.report.manifest.checkpoint_before(self.onset)

    @cached_property
    def clock(self) -> Clock | None:
        """When each step was trained, if the log tells."""
        return clock_of(self.report.history)

    @cached_property
    def lost(self) -> Lost:
        """What the incident lost."""
        return _lost_by(self)


def incident_of(report: Report, detected: Detected | None = None) -> Incident:
    """Return the facts of a diagnosis that found something."""
    found, history = report.diagnosis, report.history
    first, last = history.first_step or 0, history.last_step or 0
    lead_up = _lead_up(report)
    not_finite = _not_finite(history, found)
    # A jump or a surge that led up to it began before what shows: the advice goes back beyond it.
    begins = (not_finite, found.step, found.began, None if lead_up is None else lead_up.step)
    onset = min((step for step in begins if step is not None), default=first)
    recovered = _recovered(report)
    nan = asked(report, "Q1.1")
    last_good = None if nan is None else nan.measured.get("last_good")
    return Incident(
        report=report,
        first=first,
        last=last,
        onset=onset,
        first_bad=None if found.section in ("§4", "symptom") else found.step,
        not_finite=not_finite,
        last_good=last_good if isinstance(last_good, int) else None,
        worst=_worst(report, onset, last if recovered is None else recovered),
        recovered=recovered,
        lead_up=lead_up,
        detected=detected,
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


def _not_finite(history: History, found: Finding) -> int | None:
    """Return the step of the first value that was not finite and led to a NaN of the loss.

    A scaler skips single overflows and lives on: only what lasts up to the NaN counts.
    """
    if found.section != "§1" or found.step is None:
        return None
    starts = [found.step]
    for role, series in history.series.items():
        if role.partition("/")[0] in _NORMS:
            before = series.until(found.step - 1)
            good = np.flatnonzero(np.isfinite(before.values))
            begin = int(good[-1]) + 1 if len(good) else 0
            starts += before.steps[begin : begin + 1].tolist()
    return min(starts)


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


def _lost_by(one: Incident) -> Lost:
    """Return what has to be trained again.

    An error costs all that was trained since the last good checkpoint, anything else nothing.
    """
    report, found, unit, last = one.report, one.report.diagnosis, one.unit, one.last
    nothing = "nothing has to be trained again"
    if one.recovered is not None and one.first_bad is not None:
        took = plural(one.recovered - one.first_bad, unit)
        return Lost(what=f"{nothing}: the loss recovered after {took}")
    if found.severity is not Severity.ERROR:
        survived = found.severity is Severity.WARNING
        return Lost(what=f"{nothing}: {'the run survived this' if survived else 'nothing broke'}")
    if found.back is not None:
        what = f"from the onset at {one.onset} to {found.back}, by which the loss had recovered"
        return Lost(what=what, cost=cost_of(report, one.clock, one.onset, found.back))
    saved = one.checkpoint
    if saved is None:
        since, what = one.onset, f"from the onset at {one.onset} to the end at {last}"
        what += "; the last good checkpoint is not known"
    elif saved:
        since, what = saved, f"from the checkpoint of {unit} {saved} to the end at {last}"
    else:
        # A log that begins later than its run did shows the cost from there on.
        since = 0 if one.first <= 1 else one.first
        what = f"from the start to the end at {last}, as no checkpoint is from before the onset"
    cost = cost_of(report, one.clock, since, last)
    return Lost(what=what, cost=cost, at_least=saved is None)
