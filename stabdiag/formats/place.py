"""Where a finding is, for formats that point at files and lines."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stabdiag.findings import Finding
    from stabdiag.history import Source
    from stabdiag.report import Report

_OTHERS = re.compile(r" and \d+ more$")


def log_path(source: Source) -> str | None:
    """Return the path of the log, the first of several; None where it was not read from a file.

    The path is as it was given: from the top of the repository, if the command was run there.
    """
    if source.format == "memory" or source.name == "standard input":
        return None
    return _OTHERS.sub("", source.name).replace("\\", "/").removeprefix("./")


def line_of(finding: Finding, report: Report) -> int | None:
    """Return the line of the log from which a finding's step is known, or None."""
    if finding.step is None:
        return None
    events = (event for event in report.history.events if event.step == finding.step)
    return next((event.line for event in events if event.line is not None), None)


def fingerprints(report: Report) -> list[str]:
    """Return for each finding what tells it from all others, the same whenever it is found again.

    It is made of the log's name and the outcome alone: a run that is trained again has the same
    fault at another step, and with other numbers.
    """
    source = report.history.source
    counts: Counter[str] = Counter()
    made = []
    for finding in report.findings:
        counts[finding.slug] += 1
        parts = (log_path(source) or source.name, finding.slug, str(counts[finding.slug]))
        told = "\0".join(parts).encode("utf-8", "replace")
        made.append(hashlib.sha256(told).hexdigest()[:32])
    return made
