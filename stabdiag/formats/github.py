"""The report for GitHub Actions, as annotations.

An annotation is a line that the runner takes for an order; log text is written so that it cannot
end the order or begin another.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stabdiag.formats.issues import event_path, line_of, log_path
from stabdiag.formats.measured import changed_limits, visible
from stabdiag.model.findings import Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stabdiag.model.report import Report

LEVELS = {
    Severity.ERROR: "error",
    Severity.WARNING: "warning",
    Severity.NOTE: "notice",
    Severity.OK: "notice",
}

# GitHub shows ten annotations of a level for a step.
_MOST_MESSAGES = 5


def render(report: Report) -> str:
    """Return an annotation for each finding, the worst first, and for messages in the log."""
    lines = (*_findings(report), *_limits(report), *_messages(report))
    return "".join(f"{line}\n" for line in lines)


def escape(text: str) -> str:
    """Return log text as a message, which nothing in it can end."""
    return visible(text).replace("%", "%25")


def _property(text: str) -> str:
    """Return log text as the value of a property, before the message."""
    return escape(text).replace(":", "%3A").replace(",", "%2C")


def annotation(level: str, *lines: str, **properties: str | int | None) -> str:
    """Return one annotation, of lines and properties that may be log text."""
    told = (f"{name}={_property(str(v))}" for name, v in properties.items() if v is not None)
    return f"::{level} {','.join(told)}::{'%0A'.join(map(escape, lines))}"


def _findings(report: Report) -> Iterator[str]:
    source = report.history.source
    for finding in report.findings:
        lines = [finding.summary]
        if finding.first_action and finding.severity is not Severity.OK:
            lines.append(f"First action: {finding.first_action}")
        yield annotation(
            LEVELS[finding.severity],
            *lines,
            file=log_path(source, finding.step),
            line=line_of(finding, report),
            title=f"{finding.headline} [{finding.slug}]",
        )


def _limits(report: Report) -> Iterator[str]:
    told = list(changed_limits(report.limits))
    if told:
        yield annotation("notice", *told, title="Limits that differ from their defaults")


def _messages(report: Report) -> Iterator[str]:
    for event in report.history.messages[-_MOST_MESSAGES:]:
        path = event_path(event, report.history.source)
        yield annotation("notice", event.message, file=path, line=event.line, title="The log says")
