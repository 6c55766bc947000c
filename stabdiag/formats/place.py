"""Where a finding is, for formats that point at files and lines."""

from __future__ import annotations

import hashlib
from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stabdiag.model.findings import Finding
    from stabdiag.model.history import Event, Source
    from stabdiag.model.report import Report


def log_path(source: Source, step: int | None = None) -> str | None:
    """Return the path of the log, of several files that of a step, else of the last one.

    None where it was not read from a file. The path is as it was given: from the top of the
    repository, if the command was run there.
    """
    return _shown(source.path_at(step), source)


def path_of(event: Event, source: Source) -> str | None:
    """Return the path of the file that an event was read from, or None."""
    return _shown(event.path or source.path_at(event.step), source)


def _shown(path: str, source: Source) -> str | None:
    if source.format == "memory" or path == "standard input":
        return None
    return path.replace("\\", "/").removeprefix("./")


def line_of(finding: Finding, report: Report) -> int | None:
    """Return the line of the log from which a finding's step is known, or None."""
    if finding.step is None:
        return None
    path = report.history.source.path_at(finding.step)
    lines = (
        event.line
        for event in report.history.events
        if event.step == finding.step and event.path in (None, path)
    )
    return next((line for line in lines if line is not None), None)


def fingerprints(report: Report) -> list[str]:
    """Return for each finding what tells it from all others, the same whenever it is found again.

    It is made of the log's name and the outcome alone: a run that is trained again has the same
    fault at another step, and with other numbers. Of several files the first one counts: a run that
    is resumed gets more of them.
    """
    source = report.history.source
    path = _shown(source.parts[0].path if source.parts else source.name, source)
    counts: Counter[str] = Counter()
    made = []
    for finding in report.findings:
        counts[finding.slug] += 1
        parts = (path or source.name, finding.slug, str(counts[finding.slug]))
        told = "\0".join(parts).encode("utf-8", "replace")
        made.append(hashlib.sha256(told).hexdigest()[:32])
    return made
