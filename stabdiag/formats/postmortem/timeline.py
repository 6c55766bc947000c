"""What happened when, in the order of the steps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from stabdiag.formats.postmortem.incident import asked
from stabdiag.model.findings import AskedOf, Severity, Verdict
from stabdiag.model.history import EventKind
from stabdiag.model.text import num, plural

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stabdiag.formats.postmortem.incident import Incident
    from stabdiag.model.report import Report

# Resumes and messages of a log may be many; the timeline has room for these last ones.
_MOST_EVENTS = 12

_EVENTS = {EventKind.REWIND: "Resume", EventKind.MESSAGE: "Message"}


@dataclass(frozen=True)
class Moment:
    """One line of the timeline: a step, what it is called, and what happened."""

    step: int
    name: str
    what: str


def timeline(one: Incident) -> list[Moment]:
    """Return what happened, by step; of one step in the order in which it is told here."""
    moments = [
        *_beginning(one),
        *_changes(one),
        *_trouble(one),
        *_detection(one),
        *_afterwards(one),
        *_events(one.report),
        _end(one),
    ]
    return sorted(moments, key=lambda moment: moment.step)


def _beginning(one: Incident) -> Iterator[Moment]:
    yield Moment(one.first, "Start", f"The log begins{_loss(one.report, at=0)}")
    saved, every = one.checkpoint, one.report.manifest.checkpoint_every
    if saved and every and saved >= one.first:
        cadence = f"one is written every {plural(every, one.unit) if every > 1 else one.unit}"
        yield Moment(saved, "Last good checkpoint", f"The last from before the onset ({cadence})")


def _changes(one: Incident) -> Iterator[Moment]:
    for found in (one.report.diagnosis, one.lead_up):
        step = None if found is None else found.evidence.get("changed_step")
        if found is not None and isinstance(step, int):
            yield Moment(step, "Setting changed", str(found.evidence["changed"]))
            return


def _trouble(one: Incident) -> Iterator[Moment]:
    found = one.report.diagnosis
    if one.last_good is not None and found.section == "§1":
        yield Moment(one.last_good, "Last good step", "The last finite loss")
    if found.step is None:
        return
    if one.first_bad != one.onset:
        yield Moment(one.onset, "Onset", _onset(one))
    if one.first_bad is not None:
        name = "Onset, first bad step" if one.first_bad == one.onset else "First bad step"
        yield Moment(one.first_bad, name, found.title)
    if one.worst not in (None, one.first_bad):
        loss = one.report.history.series["loss"].between(one.worst, one.worst)
        yield Moment(one.worst, "Worst step", f"The highest loss, {num(float(loss.values[0]))}")


def _onset(one: Incident) -> str:
    found = one.report.diagnosis
    if one.lead_up is not None and one.lead_up.step == one.onset:
        return f"{one.lead_up.title} ({one.lead_up.slug}), which led up to it"
    if found.section == "§4":
        turned = found.evidence.get("turned") == one.onset
        return f"{found.title}{': here its cause began' if turned else ''}"
    if found.section == "§1" and one.not_finite == one.onset:
        return "Another series was not finite before the loss was"
    if found.began == one.onset:
        return "What led up to it began: a later checkpoint may be damaged"
    return found.title


def _detection(one: Incident) -> Iterator[Moment]:
    if one.detected is not None:
        found, slug = one.report.diagnosis, one.detected.slug
        as_what = "" if slug == found.slug else f" (as {slug})"
        yield Moment(one.detected.step, "Detectable", f"The log up to here shows it{as_what}")


def _afterwards(one: Incident) -> Iterator[Moment]:
    """Yield the way back, and what else was found that is bad."""
    if one.recovered is not None:
        yield Moment(one.recovered, "Recovered", "The loss was back")
    told = {found.step for found in one.report.findings}
    spiked = asked(one.report, "Q2.1")
    others = [step for step in spiked.steps if step not in told] if spiked is not None else []
    # A literal reading may find thousands; of those the evidence tells the number.
    if spiked is not None and spiked.verdict is Verdict.YES and len(others) <= _MOST_EVENTS:
        for step in others:
            yield Moment(step, "Another spike", "The loss jumped here as well")
    for found in one.report.also_found:
        bad = found.severity in (Severity.ERROR, Severity.WARNING)
        if bad and found.step is not None and found is not one.lead_up:
            name = "Before it" if found.asked_of is AskedOf.LEAD_UP else "Also found"
            yield Moment(found.step, name, f"{found.title} ({found.slug})")


def _events(report: Report) -> Iterator[Moment]:
    told = [(e.step, e) for e in report.history.events if e.kind in _EVENTS and e.step is not None]
    for step, event in told[-_MOST_EVENTS:]:
        line = "" if event.line is None else f" (line {event.line})"
        yield Moment(step, _EVENTS[event.kind], f"{event.message}{line}")


def _end(one: Incident) -> Moment:
    total = one.report.manifest.total_steps
    were = f"{one.unit} was", f"{one.unit}s were"
    planned = f"; {plural(total, *were)} planned" if total else ""
    return Moment(one.last, "End", f"The log ends{_loss(one.report, at=-1)}{planned}")


def _loss(report: Report, *, at: int) -> str:
    loss = report.history.get("loss")
    return "" if loss is None else f", loss {num(float(loss.values[at]))}"
