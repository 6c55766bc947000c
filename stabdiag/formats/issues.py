"""Findings with files and lines: in the style of linters, for GitLab, for GitHub Actions."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator

from stabdiag.formats.json import Json, dumps
from stabdiag.formats.measured import changed_limits, visible
from stabdiag.model.findings import PARTLY_READ, Finding, Severity
from stabdiag.model.history import Source
from stabdiag.model.limits import Limits
from stabdiag.model.report import Report
from stabdiag.model.text import capitalized

GITLAB = {Severity.ERROR: "critical", Severity.WARNING: "major", Severity.NOTE: "info"}

GITHUB = {
    Severity.ERROR: "error",
    Severity.WARNING: "warning",
    Severity.NOTE: "notice",
    Severity.OK: "notice",
}

# GitHub shows at most ten annotations of a level per step.
_MAX_ANNOTATIONS = 5

# Terminal codes: bold red, bold yellow, bold.
_COLORS = {Severity.ERROR: "1;31", Severity.WARNING: "1;33", Severity.NOTE: "1"}


def lines(report: Report, *, limits: bool = True, color: bool = False) -> str:
    """Return two lines for each finding, and a last line for changed ``limits``.

    A healthy run has no findings. ``color`` applies to the severity only.
    """
    findings = (
        f"{_headline(finding, report, color=color)}\n    {visible(finding.first_action)}\n"
        for finding in report.findings
        if finding.severity is not Severity.OK
    )
    return "".join((*findings, limits_line(report.limits) if limits else ""))


def limits_line(limits: Limits) -> str:
    """Return the line for limits that differ from their defaults, or an empty text."""
    clauses = "; ".join(changed_limits(limits))
    return f"limits: {visible(clauses)}\n" if clauses else ""


def _headline(finding: Finding, report: Report, *, color: bool) -> str:
    line = finding_line(finding, report)
    position = (
        finding_path(finding, report) if line is None else f"{finding_path(finding, report)}:{line}"
    )
    severity = f"{finding.severity.value}:"
    if color:
        severity = f"\x1b[{_COLORS[finding.severity]}m{severity}\x1b[0m"
    title = f"{visible(finding.headline)} ({finding.confidence.words})"
    return f"{visible(position)}: {severity} {title} [{finding.slug}]"


def gitlab(report: Report) -> str:
    """Return the findings as a code quality report: an empty list for a healthy run."""
    findings = zip(report.findings, fingerprints(report), strict=True)
    return dumps(
        [_issue(finding, mark, report) for finding, mark in findings if finding.severity in GITLAB]
    )


def _issue(finding: Finding, fingerprint: str, report: Report) -> Json:
    headline = _check_headline(finding.headline) if is_partly_read(finding) else finding.headline
    return {
        "description": visible(
            f"{headline} ({finding.confidence.words}): {finding.summary} {finding.first_action}"
        ),
        "check_name": finding.slug,
        "fingerprint": fingerprint,
        "severity": "blocker" if is_partly_read(finding) else GITLAB[finding.severity],
        "location": {
            "path": visible(finding_path(finding, report)),
            "lines": {"begin": finding_line(finding, report) or 1},
        },
    }


def is_partly_read(finding: Finding) -> bool:
    """Return True for the finding that the log was read only in part: an error of the check."""
    return finding.slug == PARTLY_READ and finding.ignored is None


def _check_headline(headline: str) -> str:
    return f"The check is incomplete: {headline[:1].lower()}{headline[1:]}"


def github(report: Report) -> str:
    """Return an annotation for each finding, the worst first, and for messages in the log.

    The runner executes annotations as commands; log text cannot end or start one.
    """
    annotations = (*_annotations(report), *_messages(report))
    return "".join(f"{line}\n" for line in annotations)


def _value(text: str) -> str:
    """Escape log text so that it cannot end the annotation."""
    return visible(text).replace("%", "%25")


def annotation(level: str, *lines: str, **properties: str | int | None) -> str:
    """Return one annotation; its lines and properties may be log text."""
    values = {name: _value(str(value)) for name, value in properties.items() if value is not None}
    fields = (f"{name}={v.replace(':', '%3A').replace(',', '%2C')}" for name, v in values.items())
    return f"::{level} {','.join(fields)}::{'%0A'.join(map(_value, lines))}"


def _annotations(report: Report) -> Iterator[str]:
    source = report.history.source
    for finding in report.findings:
        lines = [f"{finding.summary} ({capitalized(finding.confidence.words)}.)"]
        if finding.first_action and finding.severity is not Severity.OK:
            lines.append(f"First action: {finding.first_action}")
        is_incomplete = is_partly_read(finding)
        headline = _check_headline(finding.headline) if is_incomplete else finding.headline
        yield annotation(
            "error" if is_incomplete else GITHUB[finding.severity],
            *lines,
            file=log_path(source, finding.step),
            line=finding_line(finding, report),
            title=f"{headline} [{finding.slug}]",
        )
    if clauses := list(changed_limits(report.limits)):
        yield annotation("notice", *clauses, title="Limits that differ from their defaults")


def _messages(report: Report) -> Iterator[str]:
    source = report.history.source
    for event in report.history.messages[-_MAX_ANNOTATIONS:]:
        path = _relative(event.path or source.record_path(event.step), source)
        yield annotation("notice", event.message, file=path, line=event.line, title="The log says")


def finding_path(finding: Finding, report: Report) -> str:
    """Return the path of the log of a finding, or its name if it is not a file."""
    source = report.history.source
    return log_path(source, finding.step) or source.name


def log_path(source: Source, step: int | None = None) -> str | None:
    """Return the path of the log file that contains a step, by default of the last file.

    None if the log is not a file. The path is unchanged: relative to the root of the repository if
    the command ran there.
    """
    return _relative(source.record_path(step), source)


def _relative(path: str, source: Source) -> str | None:
    if source.format == "memory" or path == "standard input":
        return None
    return path.replace("\\", "/").removeprefix("./")


def finding_line(finding: Finding, report: Report) -> int | None:
    """Return the line of the log with the step of a finding, or None if unknown."""
    if finding.step is None:
        return None
    path = report.history.source.record_path(finding.step)
    lines = (
        event.line
        for event in report.history.events
        if event.step == finding.step and event.path in (None, path)
    )
    return next((line for line in lines if line is not None), None)


def fingerprints(report: Report) -> list[str]:
    """Return an identifier for each finding that stays the same if the run is trained again.

    It depends only on the name of the log and the outcome: steps and numbers change between runs.
    If the log has several files, the first one counts because a resumed run adds more.
    """
    source = report.history.source
    path = _relative(source.parts[0].path if source.parts else source.name, source)
    counts: Counter[str] = Counter()
    marks = []
    for finding in report.findings:
        counts[finding.slug] += 1
        parts = (path or source.name, finding.slug, str(counts[finding.slug]))
        identity = "\0".join(parts).encode("utf-8", "replace")
        marks.append(hashlib.sha256(identity).hexdigest()[:32])
    return marks
