"""The facts of an incident, which its post-mortem tells: what happened when, and what it cost."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from stabdiag.formats.postmortem.cost import Clock, Cost, clock_of, cost_of
from stabdiag.model.findings import Answer, AskedOf, Finding, Severity, Verdict
from stabdiag.model.frozen import frozen
from stabdiag.model.history import EventKind, History
from stabdiag.model.report import Detected, Report
from stabdiag.model.text import num, plural

# What may go non-finite before the loss does.
_NORMS: Final = ("grad_norm", "activation_norm", "weight_norm")

# Resumes and messages of a log may be many; the timeline has room for the last ones.
_MOST_EVENTS: Final = 12

_EVENTS: Final = {EventKind.REWIND: "Resume", EventKind.MESSAGE: "Message"}


@frozen
class Lost:
    """What was lost, in words, and its cost where there is one.

    ``at_least`` says that more was lost than is known, for want of a checkpoint's step.
    """

    what: str
    cost: Cost | None = None
    at_least: bool = False


@dataclass(frozen=True, eq=False)
class Moment:
    """One line of the timeline: a step, what it is called, and what happened."""

    step: int
    name: str
    what: str


@frozen
class Incident:
    """What happened when, in steps; None for what did not happen or is not known.

    ``onset`` is where the trouble began, ``first_bad`` the first step that was visibly bad (a climb
    has none), ``not_finite`` the step of the first value that led to a NaN, of the loss or of
    another series, ``last_good`` the last finite loss before the onset, ``worst`` the highest loss
    of a spike, ``recovered`` where the loss was back. ``lead_up`` is the error before a NaN that
    the advice names. ``checkpoint`` is the last from before the onset, 0 where there is none.
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
    def checkpoint(self) -> int | None:
        """The step of the last checkpoint from before the onset."""
        return self.report.manifest.checkpoint_before(self.onset)

    @property
    def changed(self) -> tuple[int | None, str] | None:
        """The setting that changed near the onset: at which step, and how."""
        for found in (self.report.diagnosis, self.lead_up):
            if found is not None and "changed" in found.evidence:
                step = found.evidence.get("changed_step")
                return step if isinstance(step, int) else None, str(found.evidence["changed"])
        return None

    @cached_property
    def clock(self) -> Clock | None:
        """When each step was trained, if the log says."""
        return clock_of(self.report.history)

    @cached_property
    def lost(self) -> Lost:
        """What the incident lost."""
        return _lost_by(self)

    @property
    def timeline(self) -> list[Moment]:
        """What happened, by step."""
        return sorted(_moments(self), key=lambda moment: moment.step)


def has_incident(report: Report) -> bool:
    """Tell whether there is an incident to write up."""
    return bool(report.tree.outcome.section) or report.diagnosis.severity is Severity.ERROR


def incident_of(report: Report, detected: Detected | None = None) -> Incident:
    """Return the facts of a diagnosis that found something."""
    found, history = report.diagnosis, report.history
    first, last = history.first_step or 0, history.last_step or 0
    lead_up = next(
        (
            one
            for one in report.findings
            if one.asked_of is AskedOf.LEAD_UP
            and one.severity is Severity.ERROR
            and one.step is not None
        ),
        None,
    )
    not_finite = _not_finite(history, found)
    # A jump or a surge that led up to it began before what shows: the advice goes back beyond it.
    begins = (not_finite, found.step, found.began, None if lead_up is None else lead_up.step)
    onset = min((step for step in begins if step is not None), default=first)
    recovered, before = _recovered(report), history.finite("loss").until(onset - 1).steps
    return Incident(
        report=report,
        first=first,
        last=last,
        onset=onset,
        first_bad=None if found.section in ("§4", "symptom") else found.step,
        not_finite=not_finite,
        last_good=int(before[-1]) if len(before) else None,
        worst=_worst(report, last if recovered is None else recovered),
        recovered=recovered,
        lead_up=lead_up,
        detected=detected,
    )


def asked(report: Report, question: str, of: AskedOf = AskedOf.RUN) -> Answer | None:
    """Return the answer to a question, or None where the walk did not come to it."""
    answers = (a for a in report.tree.answers if a.question == question and a.asked_of is of)
    return next(answers, None)


def _not_finite(history: History, found: Finding) -> int | None:
    """Return the step of the first value that was not finite and led to a NaN of the loss.

    A scaler skips single overflows: only what lasts up to the NaN counts.
    """
    if found.section != "§1" or found.step is None:
        return None
    starts = [found.step]
    for role in _NORMS:
        for series in history.group(role).values():
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


def _worst(report: Report, end: int) -> int | None:
    """Return the step of the highest loss of a spike; of a NaN none is worse than another."""
    found = report.diagnosis
    if found.section != "§2" or found.step is None:
        return None
    after = report.history.finite("loss").between(found.step, end)
    return int(after.steps[np.argmax(after.values)]) if len(after) else None


def _lost_by(one: Incident) -> Lost:
    """Return what has to be trained again.

    An error costs all that was trained since the last good checkpoint, anything else nothing.
    """
    report, found, last = one.report, one.report.diagnosis, one.last
    unit, saved = report.history.unit, one.checkpoint
    nothing = "nothing has to be trained again"
    if one.recovered is not None and one.first_bad is not None:
        took = plural(one.recovered - one.first_bad, unit)
        return Lost(what=f"{nothing}: the loss recovered after {took}")
    if found.back is not None:
        what = f"from the onset at {one.onset} to {found.back}, by which the loss had recovered"
        return Lost(what=what, cost=cost_of(report, one.clock, one.onset, found.back))
    if found.severity is not Severity.ERROR:
        survived = found.severity is Severity.WARNING
        return Lost(what=f"{nothing}: {'the run survived' if survived else 'nothing broke'}")
    if saved is None:
        since, what = one.onset, f"from the onset at {one.onset} to the end at {last}"
        what += "; the last good checkpoint is not known"
    elif saved:
        since, what = saved, f"from the checkpoint of {unit} {saved} to the end at {last}"
    else:
        # A log that begins later than its run did shows the cost from there on.
        since = 0 if one.first <= 1 else one.first
        what = f"from the start to the end at {last}, as no checkpoint precedes the onset"
    cost = cost_of(report, one.clock, since, last)
    return Lost(what=what, cost=cost, at_least=saved is None)


def _moments(one: Incident) -> Iterator[Moment]:
    """Yield the lines of the timeline; of one step in the order in which they are read."""
    report, found, unit = one.report, one.report.diagnosis, one.report.history.unit
    saved, every = one.checkpoint, report.manifest.checkpoint_every
    yield Moment(one.first, "Start", f"The log begins{_loss(report, at=0)}")
    if saved and saved >= one.first:
        cadence = plural(every, unit) if every and every > 1 else unit
        there = "It lies beside the log" if report.manifest.checkpoints else ""
        yield Moment(saved, "Last good checkpoint", there or f"One is written every {cadence}")
    if one.changed is not None and one.changed[0] is not None:
        yield Moment(one.changed[0], "Setting changed", one.changed[1])
    yield from _trouble(one)
    if one.detected is not None:
        as_what = "" if one.detected.slug == found.slug else f" (as {one.detected.slug})"
        yield Moment(one.detected.step, "Detectable", f"The log so far shows it{as_what}")
    if one.recovered is not None:
        yield Moment(one.recovered, "Recovered", "The loss was back")
    yield from _others(one)
    total = report.manifest.total_steps
    planned = f"; planned: {plural(total, unit)}" if total else ""
    yield Moment(one.last, "End", f"The log ends{_loss(report, at=-1)}{planned}")


def _trouble(one: Incident) -> Iterator[Moment]:
    found = one.report.diagnosis
    if one.last_good is not None and found.section == "§1":
        yield Moment(one.last_good, "Last good step", "The last finite loss before the trouble")
    if found.step is None:
        return
    if one.first_bad != one.onset:
        yield Moment(one.onset, "Onset", _onset(one))
    if one.first_bad is not None:
        name = "Loss not finite" if found.section == "§1" else "First bad step"
        name = f"Onset, {name.lower()}" if one.first_bad == one.onset else name
        yield Moment(one.first_bad, name, found.title)
    if one.worst not in (None, one.first_bad):
        loss = one.report.history.series["loss"].between(one.worst, one.worst)
        yield Moment(one.worst, "Worst step", f"The highest loss, {num(float(loss.values[0]))}")


def _onset(one: Incident) -> str:
    found = one.report.diagnosis
    if one.lead_up is not None and one.lead_up.step == one.onset:
        return f"{one.lead_up.title} ({one.lead_up.slug}), which led to the NaN"
    if found.section == "§4":
        turned = found.evidence.get("turned") == one.onset
        return f"{found.title}{': its cause begins here' if turned else ''}"
    if found.section == "§1" and one.not_finite == one.onset:
        return "Another series is not finite before the loss is"
    if found.began == one.onset:
        return "The cause begins: later checkpoints may be damaged"
    return found.title


def _others(one: Incident) -> Iterator[Moment]:
    """Yield other spikes, what else is bad, and what the log itself says."""
    report = one.report
    known = {found.step for found in report.findings}
    spiked = asked(report, "Q2.1")
    others = [step for step in spiked.steps if step not in known] if spiked is not None else []
    # A literal reading may find thousands; the evidence gives their number.
    if spiked is not None and spiked.verdict is Verdict.YES and len(others) <= _MOST_EVENTS:
        for step in others:
            yield Moment(step, "Another spike", "The loss jumped here as well")
    for found in report.also_found:
        bad = found.severity in (Severity.ERROR, Severity.WARNING)
        if bad and found.step is not None and found is not one.lead_up:
            name = "Before it" if found.asked_of is AskedOf.LEAD_UP else "Also found"
            yield Moment(found.step, name, f"{found.title} ({found.slug})")
    events = [e for e in report.history.events if e.kind in _EVENTS and e.step is not None]
    for event in events[-_MOST_EVENTS:]:
        line = "" if event.line is None else f" (line {event.line})"
        yield Moment(event.step or 0, _EVENTS[event.kind], f"{event.message}{line}")


def _loss(report: Report, *, at: int) -> str:
    loss = report.history.get("loss")
    return "" if loss is None else f", loss {num(float(loss.values[at]))}"
