"""The whole post-mortem as Markdown: its sections, in the order in which they are read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from stabdiag._version import __version__
from stabdiag.formats.markdown_text import escape, table
from stabdiag.formats.measured import in_words, label, number
from stabdiag.formats.postmortem.blanks import MARK, blanks
from stabdiag.formats.postmortem.cost import duration, large
from stabdiag.formats.postmortem.figures import around, course, drawn
from stabdiag.formats.postmortem.incident import Incident, incident_of
from stabdiag.formats.postmortem.suspects import cause_of, panels_of, suspects
from stabdiag.formats.postmortem.timeline import timeline
from stabdiag.formats.sarif import rule_of
from stabdiag.formats.subject import choose, decisive
from stabdiag.model.findings import Severity, Verdict
from stabdiag.model.text import plural, sentence, uncapitalised, whole_sentence

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from stabdiag.formats.subject import Plot
    from stabdiag.model.findings import Scalar
    from stabdiag.model.report import Detected, Report

_MESSAGES = 10

# What has to be seen to before a restart from before a spike; a jump of the learning rate is mended
# by the first action itself.
_CAUSE_FIRST = {
    "duplicate-batch": "Fix the data loader before the restart: it gave a batch twice.",
    "long-tail-batch": "Look at the batch before the restart: it made the gradients far larger "
    "than usual.",
}


@dataclass(frozen=True, kw_only=True, eq=False)
class Document:
    """A post-mortem: its title as plain text, its Markdown, and what its picture shows.

    ``incident`` and ``plot`` are None for a run that has nothing to write up.
    """

    title: str
    markdown: str
    incident: Incident | None = None
    plot: Plot | None = None


def write(report: Report, detected: Detected | None) -> Document:
    """Write the post-mortem of a report."""
    found = report.diagnosis
    if not report.tree.outcome.section and found.severity is not Severity.ERROR:
        title = f"No post-mortem to write: {uncapitalised(found.title)}"
        if found.severity is Severity.WARNING:
            title = f"Short post-mortem: {found.title}"
        parts = (f"# {escape(title)}", *_quiet(report), *_reading(report))
        return Document(title=title, markdown=_joined(*parts))
    one, plot = incident_of(report, detected), choose(report)
    title = f"Post-mortem: {found.headline}"
    sections = (
        _head(one),
        _timeline(one),
        _cost(one),
        _evidence(one, plot),
        _causes(one),
        _actions(one),
        _logging(one),
        _questions(one),
        _reading(report),
    )
    parts = (f"# {escape(title)}", *(part for section in sections for part in section))
    return Document(title=title, markdown=_joined(*parts), incident=one, plot=plot)


def _joined(*parts: str) -> str:
    return "\n\n".join(parts) + "\n"


def _head(one: Incident) -> Iterator[str]:
    """Yield in a table which run this was and what it lost; what happened and what to do first."""
    report, found, unit = one.report, one.report.diagnosis, one.unit
    source = report.history.source
    read = f"{source.format}, {plural(source.records, 'record')}, {unit}s {one.first} to {one.last}"
    attempt = f", attempt {source.attempt} of {source.attempts}" if source.attempts > 1 else ""
    count = plural(len(blanks(one)), "question")
    rows = [
        ["Log", escape(f"{read}{attempt}")],
        ["Diagnosis", f"{escape(found.title)} (`{found.slug}`, {found.severity})"],
        ["Onset", _onset(one)],
        *([["Detectable", _detectable(one, one.detected)]] if one.detected is not None else []),
        ["Lost", escape(one.lost.briefly)],
        ["Draft", f"by stabdiag {__version__}; {count} left to a person, marked “{MARK}”"],
    ]
    yield table(["Run", escape(source.name)], rows)
    yield "## Summary"
    yield escape(found.summary)
    if found.first_action:
        yield f"**What to do first.** {escape(_first_action(one))}"


def _onset(one: Incident) -> str:
    if one.report.diagnosis.step is None:
        return "at no single step"
    when = "" if one.clock is None else one.clock.at(one.onset)
    zone = " UTC" if one.clock is not None and one.clock.calendar else " into the log"
    return f"{one.unit} {one.onset}{f', {when}{zone}' if when else ''}"


def _detectable(one: Incident, detected: Detected) -> str:
    """Return from when on the log was enough, and how much of it was still to come."""
    late = detected.step - one.onset
    after = f", {plural(late, one.unit)} after the onset" if late > 0 else ""
    seconds = None if one.clock is None else one.clock.between(detected.step, one.last)
    time = f", {duration(seconds / 3600)}," if seconds else ""
    left = f"{plural(one.last - detected.step, one.unit)}{time}"
    return f"from {one.unit} {detected.step} on{after}; the log goes on for {left} after that"


def _first_action(one: Incident) -> str:
    """Return what to do first, with what the first action of a lasting spike would miss."""
    found = one.report.diagnosis
    told = [found.first_action]
    if found.section == "§2" and found.severity is Severity.ERROR:
        causes = [panel.branch for panel in panels_of(one) if panel.holds]
        told += [_CAUSE_FIRST[cause] for cause in causes if cause in _CAUSE_FIRST]
    return " ".join(told)


def _timeline(one: Incident) -> Iterator[str]:
    clock = one.clock
    head = [one.unit.capitalize(), *([] if clock is None else [clock.heading])]
    yield "## Timeline"
    yield table(
        [*head, "Event", "What happened"],
        [
            [
                str(moment.step),
                *([] if clock is None else [clock.at(moment.step)]),
                f"**{moment.name}**",
                escape(moment.what),
            ]
            for moment in timeline(one)
        ],
    )
    if clock is None:
        yield "The log has no time stamps."
    elif clock.calendar:
        yield "Times are the log's own time stamps in UTC; a log does not tell its machine's zone."


def _cost(one: Incident) -> Iterator[str]:
    """Yield what the incident cost, figure by figure, each with how it is known."""
    yield "## Compute lost"
    cost = one.lost.cost
    if cost is None:
        yield escape(sentence(one.lost.what))
        return
    least, how = "", one.lost.what
    if one.lost.at_least:
        least, how = "at least ", f"{how}; --set checkpoint_every=N counts from the last good one"
    rows = [[f"{cost.step_unit.capitalize()}s", f"{least}{cost.steps}", escape(how)]]
    figures = (("Time", cost.hours, duration), (cost.unit.capitalize(), cost.work, large))
    for name, amount, words in figures:
        value = "not known" if amount.value is None else f"{least}{words(amount.value)}"
        rows.append([name, value, escape(amount.how)])
    yield table(["What", "How much", "How it is known"], rows)


def _evidence(one: Incident, plot: Plot | None) -> Iterator[str]:
    """Yield the plot, the values around the event, the answers that decided, the log's words."""
    report, found = one.report, one.report.diagnosis
    yield "## Evidence"
    if plot is not None:
        yield drawn(plot)
    if plot is not None and one.first_bad is not None:
        yield f"What was logged around {one.unit} {one.first_bad}:"
        yield around(report.history, plot.series, one.first_bad)
    elif plot is not None:
        yield "The course of the run, in tenths:"
        yield course(plot, one.unit)
    rows = [
        [f"{a.question} {escape(a.asks)}", a.word, escape(a.because), _limits(a.limits)]
        for a in decisive(report)
    ]
    if rows:
        yield "The questions that decided:"
        yield table(["Question", "Answer", "Because", "Limits"], rows)
    elif found.evidence:
        numbers = (f"{label(name)} {in_words(name, v)}" for name, v in found.evidence.items())
        yield f"Measured: {escape(', '.join(numbers))}."
    if report.history.messages:
        yield "The log says:"
        yield "\n".join(
            f"- {escape(event.message)}{'' if event.line is None else f' (line {event.line})'}"
            for event in report.history.messages[-_MESSAGES:]
        )


def _limits(limits: Mapping[str, Scalar]) -> str:
    return ", ".join(f"`{name}` {number(value)}" for name, value in limits.items())


def _causes(one: Incident) -> Iterator[str]:
    """Yield the cause as far as the log shows it, what was ruled out, and what stays open."""
    report = one.report
    sureness, because = cause_of(one)
    yield "## Root cause, as far as the log shows it"
    yield f"**{sureness.value}**"
    if because:
        yield "\n".join(f"- {escape(reason)}" for reason in because)
    # Of one line: some sites break lines where a paragraph of Markdown does.
    meaning = rule_of(report.diagnosis, report.limits).meaning
    yield f"What this kind of failure is: {escape(meaning)}"
    all_ = [
        (one.verdict, escape(f"{one.what} ({one.question})" if one.question else one.what), one)
        for one in suspects(one)
    ]
    yield "### What was ruled out, and how"
    rows = [[what, escape(s.because), _limits(s.limits)] for v, what, s in all_ if v is Verdict.NO]
    if rows:
        yield table(["Suspect", "How it was ruled out", "Limits"], rows)
    else:
        yield "None of the tree's other suspects could be ruled out."
    if report.clear:
        yield f"Symptoms checked and not found: {', '.join(report.clear)}."
    yield "### Not ruled out"
    rows = [[what, escape(s.because)] for v, what, s in all_ if v is Verdict.UNKNOWN]
    if rows:
        yield table(["Suspect", "Why it is open"], rows)
    if report.not_checked:
        yield f"Symptoms not checked, for lack of what it takes: {_unchecked(report)}."
    if not rows and not report.not_checked:
        yield "Nothing that stabdiag asks about stayed open."


def _unchecked(report: Report) -> str:
    """Return the symptoms that were not checked; those that lack the same stand together."""
    by_need: dict[str, list[str]] = {}
    for one in report.not_checked:
        by_need.setdefault(one.because, []).append(one.symptom)
    return "; ".join(escape(f"{', '.join(symptoms)} ({why})") for why, symptoms in by_need.items())


def _actions(one: Incident) -> Iterator[str]:
    """Yield what to do, the first action first; what else was found comes after it."""
    found = one.report.diagnosis
    yield "## Actions, in order"
    steps = [f"**{escape(_first_action(one))}**"] if found.first_action else []
    steps += [escape(action) for action in found.next_actions]
    steps += [
        f"Also found, {escape(other.title)} (`{other.slug}`): {escape(other.first_action)}"
        for other in one.report.also_found
        if other.first_action and other.severity is not Severity.OK
    ]
    yield "\n".join(f"{number}. {step}" for number, step in enumerate(steps, start=1))


def _logging(one: Incident) -> Iterator[str]:
    """Yield what to log next time, and what it would have told."""
    cost = one.lost.cost
    rows = [[escape(missing.role), escape(missing.cost)] for missing in one.report.not_logged]
    if one.clock is None:
        rows.append(["time stamps", "when it happened, by the clock"])
    if cost is not None and cost.hours.value is None:
        rows.append(["time stamps, or the time of a step", "how many hours it cost"])
    if cost is not None and cost.work.value is None:
        rows.append(["throughput (tokens per second)", "how many tokens it cost"])
    yield "## What to log next time"
    yield table(["Log", "Not known without it"], rows) if rows else "Nothing was missing."


def _questions(one: Incident) -> Iterator[str]:
    yield "## What only a person can answer"
    yield "\n".join(f"- [ ] **{MARK}:** {question}" for question in blanks(one))


def _quiet(report: Report) -> Iterator[str]:
    """Yield what was found, what was tested, what was not, and where to look if it failed."""
    found = report.diagnosis
    yield f"**Run.** {escape(report.history.source.name)}"
    told = f"{whole_sentence(found.summary)} {report.otherwise}".rstrip()
    yield f"**What was found.** {escape(told)}"
    if found.first_action:
        yield f"**What to do.** {escape(found.first_action)}"
    yield "## What was asked"
    rows = [[a.question, escape(a.asks), a.word, escape(a.because)] for a in report.tree.answers]
    yield table(["Question", "What it asks", "Answer", "Because"], rows)
    if report.also_found:
        yield "## Also noticed"
        yield "\n".join(
            f"- {one.severity}, {escape(one.title)} (`{one.slug}`): "
            f"{escape(whole_sentence(one.summary))} {escape(one.first_action)}"
            for one in report.also_found
        )
    yield "## If the run failed nevertheless"
    yield "\n".join(f"- {hint}" for hint in _hints(report))


def _hints(report: Report) -> Iterator[str]:
    source, loss = report.history.source, report.history.get("loss")
    if source.attempts > 1:
        which = f"this is number {source.attempt}"
        yield f"The log holds {source.attempts} runs, and {which}: `--attempt N` takes another."
    open_ = [a.question for a in report.tree.answers if a.verdict is Verdict.UNKNOWN]
    if open_:
        yield f"These questions could not be answered: {', '.join(open_)}."
    for missing in report.not_logged:
        yield f"Not logged: {escape(missing.role)}; {escape(missing.cost)}."
    if loss is not None:
        yield f"The loss was read from {escape(loss.column)}: `--column loss=NAME` takes another."
    yield (
        "A crash, a hang or an error outside the training loop leaves no trace in the scalars: "
        "look at what every rank printed last."
    )


def _reading(report: Report) -> Iterator[str]:
    """Yield everything about the input that a reader could dispute."""
    yield "## How this was made"
    yield "\n".join(f"- {escape(note)}" for note in _notes(report))


def _notes(report: Report) -> Iterator[str]:
    tree = "the literal decision tree" if report.literal else "its decision tree"
    yield f"stabdiag {__version__} read the log, walked {tree} and wrote this draft"
    series = report.history.series.items()
    columns = [f"{role} from {one.column}" for role, one in series if one.column != role]
    if columns:
        yield f"read: {', '.join(columns)}"
    manifest = report.manifest
    yield f"manifest: {manifest.path or 'none found'}"
    for names, how in ((manifest.overridden, "set by hand"), (manifest.logged, "told by the log")):
        if names:
            told = (f"{name} {number(getattr(manifest, name, None))}" for name in names)
            yield f"{how}: {', '.join(told)}"
    for name, why in manifest.inferred.items():
        yield f"{name} {number(getattr(manifest, name, None))}, inferred: {why}"
    for info in report.limits.changed:
        yield f"limit {info.name} {number(info.value)} (default {number(info.default)})"
    for event in report.history.notes:
        yield event.message
