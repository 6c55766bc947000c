"""Findings with their files and lines: as linters write them, for GitLab, for GitHub Actions."""

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
from stabdiag.model.text import capitalised

GITLAB = {Severity.ERROR: "critical", Severity.WARNING: "major", Severity.NOTE: "info"}

GITHUB = {
    Severity.ERROR: "error",
    Severity.WARNING: "warning",
    Severity.NOTE: "notice",
    Severity.OK: "notice",
}

# GitHub shows ten annotations of a level for a step.
_MOST_MESSAGES = 5

# As terminals know them: bold red, bold yellow, bold.
_COLORS = {Severity.ERROR: "1;31", Severity.WARNING: "1;33", Severity.NOTE: "1"}


def lines(report: Report, *, limits: bool = True, color: bool = False) -> str:
    """Return two lines for each finding, and a last one on changed ``limits``.

    A healthy run has no findings. Only the severity has a ``color``.
    """
    found = (
        f"{_headline(finding, report, color=color)}\n    {visible(finding.first_action)}\n"
        for finding in report.findings
        if finding.severity is not Severity.OK
    )
    return "".join((*found, limits_line(report.limits) if limits else ""))


def limits_line(limits: Limits) -> str:
    """Return the line on limits that differ from their defaults; empty if none does."""
    told = "; ".join(changed_limits(limits))
    return f"limits: {visible(told)}\n" if told else ""


def _headline(finding: Finding, report: Report, *, color: bool) -> str:
    line = line_of(finding, report)
    at = path_of(finding, report) if line is None else f"{path_of(finding, report)}:{line}"
    severity = f"{finding.severity.value}:"
    if color:
        severity = f"\x1b[{_COLORS[finding.severity]}m{severity}\x1b[0m"
    named = f"{visible(finding.headline)} ({finding.confidence.words})"
    return f"{visible(at)}: {severity} {named} [{finding.slug}]"


def gitlab(report: Report) -> str:
    """Return the findings as a code quality report; that of a healthy run is an empty list."""
    found = zip(report.findings, fingerprints(report), strict=True)
    return dumps([_issue(one, mark, report) for one, mark in found if one.severity in GITLAB])


def _issue(finding: Finding, fingerprint: str, report: Report) -> Json:
    headline = _of_check(finding.headline) if is_partly_read(finding) else finding.headline
    return {
        "description": visible(
            f"{headline} ({finding.confidence.words}): {finding.summary} {finding.first_action}"
        ),
        "check_name": finding.slug,
        "fingerprint": fingerprint,
        "severity": "blocker" if is_partly_read(finding) else GITLAB[finding.severity],
        "location": {
            "path": visible(path_of(finding, report)),
            "lines": {"begin": line_of(finding, report) or 1},
        },
    }


def is_partly_read(finding: Finding) -> bool:
    """Return True for the finding that the log was not judged to its end: an error of the check."""
    return finding.slug == PARTLY_READ and finding.ignored is None


def _of_check(headline: str) -> str:
    return f"The check is incomplete: {headline[:1].lower()}{headline[1:]}"


def github(report: Report) -> str:
    """Return an annotation for each finding, the worst first, and for messages in the log.

    The runner takes an annotation for an order; log text cannot end one or begin another.
    """
    told = (*_annotations(report), *_messages(report))
    return "".join(f"{line}\n" for line in told)


def _value(text: str) -> str:
    """Return log text as a message, which nothing in it can end."""
    return visible(text).replace("%", "%25")


def annotation(level: str, *lines: str, **properties: str | int | None) -> str:
    """Return one annotation, of lines and properties that may be log text."""
    known = {name: _value(str(one)) for name, one in properties.items() if one is not None}
    told = (f"{name}={v.replace(':', '%3A').replace(',', '%2C')}" for name, v in known.items())
    return f"::{level} {','.join(told)}::{'%0A'.join(map(_value, lines))}"


def _annotations(report: Report) -> Iterator[str]:
    source = report.history.source
    for finding in report.findings:
        lines = [f"{finding.summary} ({capitalised(finding.confidence.words)}.)"]
        if finding.first_action and finding.severity is not Severity.OK:
            lines.append(f"First action: {finding.first_action}")
        is_open = is_partly_read(finding)
        headline = _of_check(finding.headline) if is_open else finding.headline
        yield annotation(
            "error" if is_open else GITHUB[finding.severity],
            *lines,
            file=log_path(source, finding.step),
            line=line_of(finding, report),
            title=f"{headline} [{finding.slug}]",
        )
    if told := list(changed_limits(report.limits)):
        yield annotation("notice", *told, title="Limits that differ from their defaults")


def _messages(report: Report) -> Iterator[str]:
    source = report.history.source
    for event in report.history.messages[-_MOST_MESSAGES:]:
        path = _relative(event.path or source.path_at(event.step), source)
        yield annotation("notice", event.message, file=path, line=event.line, title="The log says")


def path_of(finding: Finding, report: Report) -> str:
    """Return the path of a finding's log, or the log's name if it was not read from a file."""
    source = report.history.source
    return log_path(source, finding.step) or source.name


def log_path(source: Source, step: int | None = None) -> str | None:
    """Return the path of the log, of several files that of a step, else of the last one.

    None if it was not read from a file. The path is as it was given: relative to the top of the
    repository if the command ran there.
    """
    return _relative(source.path_at(step), source)


def _relative(path: str, source: Source) -> str | None:
    if source.format == "memory" or path == "standard input":
        return None
    return path.replace("\\", "/").removeprefix("./")


def line_of(finding: Finding, report: Report) -> int | None:
    """Return the line of the log that holds a finding's step, or None if it is not known."""
    if finding.step is None:
        return None
    path = report.history.source.path_at(finding.step)
    known = (
        event.line
        for event in report.history.events
        if event.step == finding.step and event.path in (None, path)
    )
    return next((line for line in known if line is not None), None)


def fingerprints(report: Report) -> list[str]:
    """Return an identifier for each finding that stays the same when the run is trained again.

    It depends on the log's name and the outcome alone: steps and numbers change between runs. Of
    several files the first one counts, because a resumed run adds more.
    """
    source = report.history.source
    path = _relative(source.parts[0].path if source.parts else source.name, source)
    counts: Counter[str] = Counter()
    made = []
    for finding in report.findings:
        counts[finding.slug] += 1
        parts = (path or source.name, finding.slug, str(counts[finding.slug]))
        told = "\0".join(parts).encode("utf-8", "replace")
        made.append(hashlib.sha256(told).hexdigest()[:32])
    return made
