"""Select the findings that fail a command, by the severity of ``--fail-on``."""

from __future__ import annotations

from typing import Final

from stabdiag.model.findings import INSUFFICIENT_DATA, PARTLY_READ, Finding, Severity

# With ``--fail-on unknown`` an error fails, and a run that was not judged is an error of the check.
NEVER: Final = "never"
UNKNOWN: Final = "unknown"


def threshold(fail_on: str) -> Severity | None:
    """Return the lowest severity that fails; None for ``never``."""
    if fail_on == NEVER:
        return None
    return Severity.ERROR if fail_on == UNKNOWN else Severity(fail_on)


def fails(severity: Severity, fail_on: str) -> bool:
    """Return True if a severity is at or above ``fail_on``; always False for ``never``."""
    lowest = threshold(fail_on)
    return lowest is not None and severity.rank <= lowest.rank


def is_check_error(slug: str, fail_on: str) -> bool:
    """Return True if an outcome is an error of the check because the log was not judged."""
    if slug == PARTLY_READ:
        return fail_on != NEVER
    return slug == INSUFFICIENT_DATA and fail_on == UNKNOWN


def fails_run(finding: Finding, fail_on: str) -> bool:
    """Return True if a finding is a failure of the run rather than of the check."""
    return fails(finding.severity, fail_on) and not is_check_error(finding.slug, fail_on)
