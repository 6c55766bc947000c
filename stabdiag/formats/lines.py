"""The report as linters write: a line for each finding, with what to do about it below."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stabdiag.formats.measured import changed_limits
from stabdiag.formats.place import line_of, log_path
from stabdiag.formats.visible import visible
from stabdiag.model.findings import Severity

if TYPE_CHECKING:
    from stabdiag.model.findings import Finding
    from stabdiag.model.limits import Limits
    from stabdiag.model.report import Report


def render(report: Report, *, limits: bool = True) -> str:
    """Return two lines for each finding; of a healthy run nothing is said.

    A last line tells of ``limits`` that differ from their defaults.
    """
    found = (
        f"{escape(_headline(finding, report))}\n    {escape(finding.first_action)}\n"
        for finding in report.findings
        if finding.severity is not Severity.OK
    )
    return "".join((*found, limits_line(report.limits) if limits else ""))


def limits_line(limits: Limits) -> str:
    """Return the line on limits that differ from their defaults; none where none does."""
    told = "; ".join(changed_limits(limits))
    return f"limits: {escape(told)}\n" if told else ""


def escape(text: str) -> str:
    """Return log text that stands on one line and changes nothing around it."""
    return visible(text)


def _headline(finding: Finding, report: Report) -> str:
    source = report.history.source
    place = log_path(source, finding.step) or source.name
    line = line_of(finding, report)
    at = place if line is None else f"{place}:{line}"
    return f"{at}: {finding.severity.value}: {finding.headline} [{finding.slug}]"
