"""What happened when, in the order of the steps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from stabdiag.findings import AskedOf, Severity, Verdict
from stabdiag.history import EventKind
from stabdiag.postmortem.incident import asked
from stabdiag.tree.changes import Change, went
from stabdiag.words import in_epochs, num, plural

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stabdiag.history import Event
    from stabdiag.postmortem.alarm import Alarm
    from stabdiag.postmortem.incident import Incident
    from stabdiag.report import Report

# Resumes and messages of a log may be many; the timeline has room for these last ones.
_MOST_EVENTS = 12


@dataclass(frozen=True, kw_only=True)
class Moment:
    """One line of the timeline: a step, what it is called, and what happened."""

    step: int
    name: str
    what: str


def timeline(
    report: Report, incident: Incident, alarm: Alarm | None, changes: tuple[Change, ...]
) -> tuple[Moment, ...]:
    """Return what happened, by step; of one step in the order in which it is told here."""
    moments = [
        *_beginning(report, incident),
        *(Moment(step=one.step, name="Setting changed", what=went([one])) for one in changes),
        *_trouble(report, incident),
        *_alarm(report, incident, alarm),
        *_afterwards(report, incident),
        *_events(report),
        *_end(report, incident),
    ]
    return tuple(sorted(moments, key=lambda moment: moment.step))


def _beginning(report: Report, incident: Incident) -> Iterator[Moment]:
    yield Moment(
        step=incident.first, name="Start", what=f"The log begins{_loss(report, first=True)}"
    )
    saved = incident.checkpoint
    if saved.step and saved.step >= incident.first:
        what = f"The last one from before the onset ({saved.cadence})"
        what = in_epochs(what) if report.history.unit == "epoch" else what
        yield Moment(step=saved.step, name="Last good checkpoint", what=what)


def _trouble(report: Report, incident: Incident) -> Iterator[Moment]:
    found = report.diagnosis
    if incident.last_good is not None and found.section == "§1":
        yield Moment(
            step=incident.last_good, name="Last good step", what="The last loss that is finite"
        )
    if found.step is None:
        return
    if incident.first_bad != incident.onset:
        yield Moment(step=incident.onset, name="Onset", what=_onset(report, incident))
    if incident.first_bad is not None:
        same = incident.first_bad == incident.onset
        name = "Onset, first bad step" if same else "First bad step"
        yield Moment(step=incident.first_bad, name=name, what=found.title)
    if incident.worst not in (None, incident.first_bad):
        loss = report.history.series["loss"].between(incident.worst, incident.worst)
        what = f"The highest loss, {num(float(loss.values[0]))}"
        yield Moment(step=incident.worst, name="Worst step", what=what)


def _onset(report: Report, incident: Incident) -> str:
    if incident.lead_up is not None and incident.lead_up.step == incident.onset:
        return f"What led up to it begins: {incident.lead_up.summary}"
    if report.diagnosis.section == "§4":
        if report.diagnosis.evidence.get("turned") == incident.onset:
            return f"{report.diagnosis.title}: here its cause began"
        return f"{report.diagnosis.title}; a climb has no single bad step"
    if report.diagnosis.section == "§1" and incident.not_finite == incident.onset:
        return "Another series was not finite before the loss was"
    if report.diagnosis.began == incident.onset:
        return "What led up to it began: no checkpoint from later is sure to be sound"
    return report.diagnosis.title


def _alarm(report: Report, incident: Incident, alarm: Alarm | None) -> Iterator[Moment]:
    if alarm is None:
        return
    shown = alarm.finding
    as_what = "" if shown.slug == report.diagnosis.slug else f" (as {shown.slug})"
    after = alarm.step - incident.onset
    dated = report.diagnosis.step is not None
    already = "Already the" if dated and not after else "The"
    late = f", {plural(after, report.history.unit)} after the onset" if dated and after else ""
    what = f"{already} log up to here is enough for stabdiag to name it{as_what}{late}"
    yield Moment(step=alarm.step, name="Detectable", what=what)


def _afterwards(report: Report, incident: Incident) -> Iterator[Moment]:
    """Yield the way back, and what else was found that is bad."""
    if incident.recovered is not None:
        took = plural(incident.took, report.history.unit)
        yield Moment(
            step=incident.recovered, name="Recovered", what=f"The loss was back after {took}"
        )
    told = {found.step for found in report.findings}
    spiked = asked(report, "Q2.1")
    others = [step for step in spiked.steps if step not in told] if spiked is not None else []
    # To the letter a log may hold thousands; of those the evidence tells the number.
    if spiked is not None and spiked.verdict is Verdict.YES and len(others) <= _MOST_EVENTS:
        for step in others:
            yield Moment(step=step, name="Another spike", what="The loss jumped here as well")
    for found in report.also_found:
        bad = found.severity in (Severity.ERROR, Severity.WARNING)
        if bad and found.step is not None and found is not incident.lead_up:
            name = "Before it" if found.asked_of is AskedOf.LEAD_UP else "Also found"
            what = f"{found.title} ({found.slug})"
            yield Moment(step=found.step, name=name, what=what)


def _events(report: Report) -> Iterator[Moment]:
    names = {EventKind.REWIND: "Resume", EventKind.MESSAGE: "Message"}
    told = [e for e in report.history.events if e.kind in names and e.step is not None]
    for event in told[-_MOST_EVENTS:]:
        if event.step is not None:
            yield Moment(step=event.step, name=names[event.kind], what=_words(event))


def _words(event: Event) -> str:
    return event.message if event.line is None else f"{event.message} (line {event.line})"


def _end(report: Report, incident: Incident) -> Iterator[Moment]:
    total = report.manifest.total_steps
    unit = report.history.unit
    planned = f"; {plural(total, f'{unit} was', f'{unit}s were')} planned" if total else ""
    what = f"The log ends{_loss(report, first=False)}{planned}"
    yield Moment(step=incident.last, name="End", what=what)


def _loss(report: Report, *, first: bool) -> str:
    loss = report.history.get("loss")
    return "" if loss is None else f", loss {num(float(loss.values[0 if first else -1]))}"
