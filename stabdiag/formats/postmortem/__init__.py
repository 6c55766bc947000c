"""The facts of an incident for its post-mortem: the timeline and the cost."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from stabdiag.formats.postmortem.cost import Clock, IncidentCost, estimate_cost, read_clock
from stabdiag.model.events import EventKind
from stabdiag.model.findings import Answer, AnswerScope, Finding, Severity, Verdict
from stabdiag.model.frozen import frozen
from stabdiag.model.history import History
from stabdiag.model.report import Detection, Report
from stabdiag.model.text import num, plural

# Series that may become non-finite before the loss.
_NORM_ROLES: Final = ("grad_norm", "activation_norm", "weight_norm")

# A log may have many resumes and messages; the timeline shows the last ones.
_MAX_EVENTS: Final = 12

_EVENT_NAMES: Final = {EventKind.REWIND: "Resume", EventKind.MESSAGE: "Message"}


@frozen
class LostWork:
    """A description of the lost work, and its cost, if any.

    ``at_least`` is True if the cost is a lower bound because no checkpoint is known.
    """

    description: str
    cost: IncidentCost | None = None
    at_least: bool = False


@dataclass(frozen=True, eq=False)
class Moment:
    """One line of the timeline: a step, its name, and what happened."""

    step: int
    name: str
    event: str


@frozen
class Incident:
    """The steps of an incident; None if an event did not happen or is unknown.

    - ``onset``: the start of the trouble.
    - ``first_bad``: the first visibly bad step; a divergence has none.
    - ``not_finite``: the first non-finite value, of the loss or another series, that led to a NaN.
    - ``last_good``: the last finite loss before the onset.
    - ``worst``: the highest loss of a spike.
    - ``recovered``: the step where the loss recovered.
    - ``lead_up``: the error before a NaN that the advice names.
    - ``checkpoint``: the last checkpoint before the onset, 0 if there is none.
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
    detected: Detection | None = None

    @property
    def checkpoint(self) -> int | None:
        """The step of the last checkpoint from before the onset."""
        return self.report.manifest.earlier_checkpoint(self.onset)

    @property
    def changed(self) -> tuple[int | None, str] | None:
        """The setting that changed near the onset: the step and the change."""
        for finding in (self.report.diagnosis, self.lead_up):
            if finding is not None and "changed" in finding.evidence:
                step = finding.evidence.get("changed_step")
                return step if isinstance(step, int) else None, str(finding.evidence["changed"])
        return None

    @cached_property
    def clock(self) -> Clock | None:
        """The time of each step, if logged."""
        return read_clock(self.report.history)

    @cached_property
    def lost(self) -> LostWork:
        """The lost work."""
        return _compute_lost(self)

    @property
    def timeline(self) -> list[Moment]:
        """The events, by step."""
        return sorted(_moments(self), key=lambda moment: moment.step)


def has_incident(report: Report) -> bool:
    """Return True if the report has an incident to write up."""
    return bool(report.tree.outcome.section) or report.diagnosis.severity is Severity.ERROR


def build_incident(report: Report, detected: Detection | None = None) -> Incident:
    """Return the facts of an incident."""
    diagnosis, history = report.diagnosis, report.history
    first, last = history.first_step or 0, history.last_step or 0
    lead_up = next(
        (
            finding
            for finding in report.findings
            if finding.scope is AnswerScope.LEAD_UP
            and finding.severity is Severity.ERROR
            and finding.step is not None
        ),
        None,
    )
    not_finite = _not_finite(history, diagnosis)
    # A jump or surge that led to it began earlier: the advice is to go back before that.
    candidates = (
        not_finite,
        diagnosis.step,
        diagnosis.began,
        None if lead_up is None else lead_up.step,
    )
    onset = min((step for step in candidates if step is not None), default=first)
    recovered, earlier = _recovered(report), history.finite("loss").until(onset - 1).steps
    return Incident(
        report=report,
        first=first,
        last=last,
        onset=onset,
        first_bad=None if diagnosis.section in ("§4", "symptom") else diagnosis.step,
        not_finite=not_finite,
        last_good=int(earlier[-1]) if len(earlier) else None,
        worst=_worst(report, last if recovered is None else recovered),
        recovered=recovered,
        lead_up=lead_up,
        detected=detected,
    )


def find_answer(
    report: Report, question: str, scope: AnswerScope = AnswerScope.RUN
) -> Answer | None:
    """Return the answer to a question, or None if it was not asked."""
    answers = (a for a in report.tree.answers if a.question == question and a.scope is scope)
    return next(answers, None)


def _not_finite(history: History, diagnosis: Finding) -> int | None:
    """Return the step of the first non-finite value that led to a NaN loss.

    A loss scaler skips single overflows: values count only if they stay non-finite up to the NaN.
    """
    if diagnosis.section != "§1" or diagnosis.step is None:
        return None
    starts = [diagnosis.step]
    for role in _NORM_ROLES:
        for series in history.group(role).values():
            before = series.until(diagnosis.step - 1)
            finite = np.flatnonzero(np.isfinite(before.values))
            start = int(finite[-1]) + 1 if len(finite) else 0
            starts += before.steps[start : start + 1].tolist()
    return min(starts)


def _recovered(report: Report) -> int | None:
    """Return the step where the loss recovered from the spike of the diagnosis."""
    answer = find_answer(report, "Q2.2")
    if report.diagnosis.section != "§2" or answer is None or answer.verdict is not Verdict.YES:
        return None
    return answer.steps[-1]


def _worst(report: Report, end: int) -> int | None:
    """Return the step of the highest loss of a spike; a NaN has none."""
    diagnosis = report.diagnosis
    if diagnosis.section != "§2" or diagnosis.step is None:
        return None
    after = report.history.finite("loss").between(diagnosis.step, end)
    return int(after.steps[np.argmax(after.values)]) if len(after) else None


def _compute_lost(incident: Incident) -> LostWork:
    """Return the work that has to be repeated.

    An error costs all steps since the last good checkpoint, anything else costs nothing.
    """
    report, diagnosis, last = incident.report, incident.report.diagnosis, incident.last
    unit, checkpoint = report.history.unit, incident.checkpoint
    nothing = "no steps have to be repeated"
    if incident.recovered is not None and incident.first_bad is not None:
        duration = plural(incident.recovered - incident.first_bad, unit)
        return LostWork(description=f"{nothing}: the loss recovered after {duration}")
    if diagnosis.back is not None:
        onset, end = incident.onset, diagnosis.back
        description = f"from the onset at {onset} to {end}, where the loss had recovered"
        return LostWork(
            description=description, cost=estimate_cost(report, incident.clock, onset, end)
        )
    if diagnosis.severity is not Severity.ERROR:
        survived = diagnosis.severity is Severity.WARNING
        return LostWork(
            description=f"{nothing}: {'the run survived' if survived else 'nothing broke'}"
        )
    if checkpoint is None:
        since = incident.onset
        description = f"from the onset at {since} to the end at {last}"
        description += "; the last good checkpoint is not known"
    elif checkpoint:
        since = checkpoint
        description = f"from the checkpoint of {unit} {checkpoint} to the end at {last}"
    else:
        # If the log begins later than its run, the cost counts from the first logged step.
        since = 0 if incident.first <= 1 else incident.first
        description = f"from the start to the end at {last}, as no checkpoint precedes the onset"
    cost = estimate_cost(report, incident.clock, since, last)
    return LostWork(description=description, cost=cost, at_least=checkpoint is None)


def _moments(incident: Incident) -> Iterator[Moment]:
    """Yield the lines of the timeline; lines of the same step are in reading order."""
    report, diagnosis = incident.report, incident.report.diagnosis
    unit = report.history.unit
    checkpoint, every = incident.checkpoint, report.manifest.checkpoint_every
    yield Moment(incident.first, "Start", f"The log begins{_loss(report, at=0)}")
    if checkpoint and checkpoint >= incident.first:
        cadence = plural(every, unit) if every and every > 1 else unit
        location = "It is next to the log" if report.manifest.checkpoints else ""
        yield Moment(
            checkpoint, "Last good checkpoint", location or f"One is written every {cadence}"
        )
    if incident.changed is not None and incident.changed[0] is not None:
        yield Moment(incident.changed[0], "Setting changed", incident.changed[1])
    yield from _trouble(incident)
    if incident.detected is not None:
        alias = (
            "" if incident.detected.slug == diagnosis.slug else f" (as {incident.detected.slug})"
        )
        yield Moment(incident.detected.step, "Detectable", f"The log so far shows it{alias}")
    if incident.recovered is not None:
        yield Moment(incident.recovered, "Recovered", "The loss recovered")
    yield from _others(incident)
    total = report.manifest.total_steps
    planned = f"; planned: {plural(total, unit)}" if total else ""
    yield Moment(incident.last, "End", f"The log ends{_loss(report, at=-1)}{planned}")


def _trouble(incident: Incident) -> Iterator[Moment]:
    diagnosis = incident.report.diagnosis
    if incident.last_good is not None and diagnosis.section == "§1":
        yield Moment(
            incident.last_good, "Last good step", "The last finite loss before the trouble"
        )
    if diagnosis.step is None:
        return
    if incident.first_bad != incident.onset:
        yield Moment(incident.onset, "Onset", _onset(incident))
    if incident.first_bad is not None:
        name = "Loss not finite" if diagnosis.section == "§1" else "First bad step"
        name = f"Onset, {name.lower()}" if incident.first_bad == incident.onset else name
        yield Moment(incident.first_bad, name, diagnosis.title)
    if incident.worst not in (None, incident.first_bad):
        loss = incident.report.history.series["loss"].between(incident.worst, incident.worst)
        yield Moment(
            incident.worst, "Worst step", f"The highest loss, {num(float(loss.values[0]))}"
        )


def _onset(incident: Incident) -> str:
    diagnosis = incident.report.diagnosis
    if incident.lead_up is not None and incident.lead_up.step == incident.onset:
        return f"{incident.lead_up.title} ({incident.lead_up.slug}), which led to the NaN"
    if diagnosis.section == "§4":
        turned = diagnosis.evidence.get("turning_step") == incident.onset
        return f"{diagnosis.title}{': its cause begins here' if turned else ''}"
    if diagnosis.section == "§1" and incident.not_finite == incident.onset:
        return "Another series is not finite before the loss is"
    if diagnosis.began == incident.onset:
        return "The cause begins: later checkpoints may be damaged"
    return diagnosis.title


def _others(incident: Incident) -> Iterator[Moment]:
    """Yield other spikes, other findings, and messages of the log."""
    report = incident.report
    reported = {finding.step for finding in report.findings}
    answer = find_answer(report, "Q2.1")
    others = [step for step in answer.steps if step not in reported] if answer is not None else []
    # The original rules may find thousands; the evidence has their number.
    if answer is not None and answer.verdict is Verdict.YES and len(others) <= _MAX_EVENTS:
        for step in others:
            yield Moment(step, "Another spike", "The loss jumped here as well")
    for finding in report.also_found:
        is_bad = finding.severity in (Severity.ERROR, Severity.WARNING)
        if is_bad and finding.step is not None and finding is not incident.lead_up:
            name = "Before it" if finding.scope is AnswerScope.LEAD_UP else "Also found"
            yield Moment(finding.step, name, f"{finding.title} ({finding.slug})")
    events = [e for e in report.history.events if e.kind in _EVENT_NAMES and e.step is not None]
    for event in events[-_MAX_EVENTS:]:
        line = "" if event.line is None else f" (line {event.line})"
        yield Moment(event.step or 0, _EVENT_NAMES[event.kind], f"{event.message}{line}")


def _loss(report: Report, *, at: int) -> str:
    loss = report.history.get("loss")
    return "" if loss is None else f", loss {num(float(loss.values[at]))}"
