"""What stands in the open: the headline, what to do, the evidence, what else was found."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stabdiag._version import __version__
from stabdiag.formats.deciding import decisive, numbers
from stabdiag.formats.markdown_text import block, code, escape, table
from stabdiag.formats.measured import in_words, label
from stabdiag.formats.subject import choose
from stabdiag.model.findings import AskedOf, Severity, Verdict
from stabdiag.model.text import plural

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from stabdiag.formats.subject import Plot
    from stabdiag.model.comparison import Comparison
    from stabdiag.model.findings import Finding
    from stabdiag.model.report import Report

SIGNS = {
    Severity.ERROR: "❌",
    Severity.WARNING: "⚠️",
    Severity.NOTE: "\u2139\ufe0f",
    Severity.OK: "✅",
}

_FEW = 6
_MESSAGES = 5


def head(report: Report) -> Iterator[str]:
    """Yield the headline and the summary."""
    found = report.diagnosis
    yield f"### {SIGNS[found.severity]} {_named(found)}"
    yield f"**{found.severity.value}** · `{found.slug}` · {code(report.history.source.name)}"
    yield escape(found.summary)
    if report.otherwise:
        yield escape(report.otherwise)


def actions(report: Report | Comparison) -> Iterator[str]:
    """Yield the first action, set off, and the next ones."""
    found = report.diagnosis
    if found.first_action and found.severity is Severity.OK:
        yield escape(found.first_action)
    elif found.first_action:
        yield f"> **First action:** {escape(found.first_action)}"
    if found.next_actions:
        listed = (f"{i}. {escape(action)}" for i, action in enumerate(found.next_actions, start=1))
        yield "\n".join(["Then:", "", *listed])


def also_found(report: Report | Comparison) -> Iterator[str]:
    """Yield the other findings, each with its own first action."""
    if not report.also_found:
        return
    yield "**Also found**"
    yield "\n".join(
        f"- {SIGNS[found.severity]} **{_named(found)}** `{found.slug}`: {escape(found.summary)}"
        + (f" *Do:* {escape(found.first_action)}" if found.first_action else "")
        for found in report.also_found
    )


def messages(report: Report) -> Iterator[str]:
    """Yield what the log says in words, the last of it."""
    said = report.history.messages
    if not said:
        return
    yield "**The log says**"
    yield "\n".join(
        f"- {code(event.message)}" + ("" if event.line is None else f" (line {event.line})")
        for event in said[-_MESSAGES:]
    )


def evidence(report: Report, chart: Callable[[Plot], str]) -> Iterator[str]:
    """Yield the chart and the deciding numbers; nothing where there is nothing to prove."""
    if not report.diagnosis.section:
        return
    plot = choose(report)
    values = list(numbers(report, decisive(report)).items())[:_FEW]
    if plot is not None or values:
        yield "**Evidence**"
    if plot is not None:
        yield chart(plot)
    if values:
        rows = [
            [escape(label(name)), escape(in_words(name, measured))] for name, measured in values
        ]
        yield table(["Measured", "Value"], rows)


def untested(report: Report) -> Iterator[str]:
    """Yield what could not be tested, where a reader could take silence for health."""
    unknown = [a for a in report.tree.answers if a.verdict is Verdict.UNKNOWN]
    if report.tree.outcome.section or not unknown:
        return
    yield "**Could not be tested**"
    yield "\n".join(f"- {answer.question}: {escape(answer.because)}" for answer in unknown)


def foot(report: Report, command: str | None) -> Iterator[str]:
    """Yield the commands that tell the same again and more, and which log this was."""
    commands = [command or "", f"stabdiag explain {report.diagnosis.slug}"]
    yield block("\n".join(line for line in commands if line), "sh")
    source, first = report.history.source, report.history.first_step
    told = [
        f"stabdiag {__version__}",
        f"{plural(source.records, 'record')} ({escape(source.format)})",
    ]
    if first is not None:
        told.append(f"{report.history.unit}s {first} to {report.history.last_step}")
    if source.unreadable:
        told.append(f"{plural(source.unreadable, 'line')} could not be read")
    if source.attempts > 1:
        told.append(f"attempt {source.attempt} of {source.attempts}")
    if report.literal:
        told.append("the tree to the letter")
    yield f"<sub>{' · '.join(told)}</sub>"


def _named(found: Finding) -> str:
    when = " (before the NaN)" if found.asked_of is AskedOf.LEAD_UP else ""
    return f"{escape(found.headline)}{when}"
