"""The report for GitLab's code quality widget: a list of findings with their paths and lines."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stabdiag.formats.json_text import Json, dumps
from stabdiag.formats.place import fingerprints, line_of, log_path
from stabdiag.formats.visible import visible
from stabdiag.model.findings import Severity

if TYPE_CHECKING:
    from stabdiag.model.findings import Finding
    from stabdiag.model.report import Report

SEVERITIES = {Severity.ERROR: "critical", Severity.WARNING: "major", Severity.NOTE: "info"}


def render(report: Report) -> str:
    """Return the findings as a code quality report; that of a healthy run is an empty list."""
    return dumps(
        [
            _issue(finding, print_, report)
            for finding, print_ in zip(report.findings, fingerprints(report), strict=True)
            if finding.severity in SEVERITIES
        ]
    )


def _issue(finding: Finding, fingerprint: str, report: Report) -> Json:
    source = report.history.source
    return {
        "description": visible(f"{finding.headline}: {finding.summary} {finding.first_action}"),
        "check_name": finding.slug,
        "fingerprint": fingerprint,
        "severity": SEVERITIES[finding.severity],
        "location": {
            "path": visible(log_path(source, finding.step) or source.name),
            "lines": {"begin": line_of(finding, report) or 1},
        },
    }
