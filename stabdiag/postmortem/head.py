"""The head of a post-mortem: what it is about, and the summary."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stabdiag import __version__
from stabdiag.formats.markdown_text import escape, table
from stabdiag.postmortem.blanks import MARK
from stabdiag.postmortem.cost import duration
from stabdiag.postmortem.follow_up import first_action
from stabdiag.words import plural

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stabdiag.postmortem.alarm import Alarm
    from stabdiag.postmortem.study import Study


def title(told: Study) -> str:
    """Return the title, as plain text."""
    return f"Post-mortem: {told.report.diagnosis.headline}"


def head(told: Study) -> Iterator[str]:
    """Yield the title, and in a table which run this was, what it had, and what is left open."""
    yield f"# {escape(title(told))}"
    found, history = told.report.diagnosis, told.report.history
    source, unit = history.source, history.unit
    read = f"{source.format}, {plural(source.records, 'record')}, {unit}s {told.incident.first} to "
    attempt = f", attempt {source.attempt} of {source.attempts}" if source.attempts > 1 else ""
    blanks = plural(len(told.blanks), "question")
    yield table(
        ["Run", escape(source.name)],
        [
            ["Log", escape(f"{read}{told.incident.last}{attempt}")],
            ["Diagnosis", f"{escape(found.title)} (`{found.slug}`, {found.severity})"],
            ["Onset", _onset(told)],
            ["Lost", escape(told.lost.briefly)],
            ["Draft", f"by stabdiag {__version__}; {blanks} left to a person, marked “{MARK}”"],
        ],
    )


def _onset(told: Study) -> str:
    if told.report.diagnosis.step is None:
        return "at no single step"
    when = told.clock.at(told.incident.onset) if told.clock is not None else ""
    zone = " UTC" if told.clock is not None and told.clock.calendar else " into the log"
    unit = told.report.history.unit
    return f"{unit} {told.incident.onset}{f', {when}{zone}' if when else ''}"


def summary(told: Study) -> Iterator[str]:
    """Yield what happened, what it cost, why, and what to do, a sentence or two each."""
    found, cause = told.report.diagnosis, told.cause
    yield "## Summary"
    yield f"**What happened.** {escape(found.summary)}"
    if told.alarm is not None:
        yield f"**When it could be known.** {_known(told, told.alarm)}"
    yield f"**What it cost.** {escape(_sentence(told.lost.briefly))}"
    yield f"**Why.** {cause.sureness.value} {escape(_reason(cause.because))}".rstrip()
    if found.first_action:
        yield f"**What to do first.** {escape(first_action(told))}"


def _known(told: Study, alarm: Alarm) -> str:
    """Return when the log was enough, and how much of it was still to come."""
    incident, clock, unit = told.incident, told.clock, told.report.history.unit
    late = alarm.step - incident.onset
    dated = told.report.diagnosis.step is not None
    after = f", {plural(late, unit)} after the onset" if dated and late else ""
    seconds = clock.between(alarm.step, incident.last) if clock is not None else None
    left = plural(incident.last - alarm.step, unit)
    left += f", {duration(seconds / 3600)}," if seconds else ""
    return f"From {unit} {alarm.step} on{after}. The log goes on for {left} after that."


def _reason(because: tuple[str, ...]) -> str:
    return " ".join(_sentence(one) for one in because)


def _sentence(words: str) -> str:
    """Return words as a sentence; the name of a series (``grad_norm``) keeps its small letter."""
    named = "_" in words.partition(" ")[0]
    begun = words if named else words[:1].upper() + words[1:]
    return begun if begun.endswith(".") else f"{begun}."
