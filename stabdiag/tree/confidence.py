"""How sure a finding of the tree is, from what was measured and never from its texts."""

from __future__ import annotations

from typing import Final

from stabdiag.model.findings import Confidence, Severity, Verdict
from stabdiag.model.history import EventKind
from stabdiag.tree.case import Case

# Beyond this multiple of what noise explains, a spike or a climb is beyond doubt.
_FAR_BEYOND: Final = 2.0

# A trend with a smaller p-value is no accident, even of many runs looked at.
_BEYOND_DOUBT: Final = 1e-6

_FROM_LOWEST: Final = (Confidence.LOW, Confidence.MEDIUM, Confidence.HIGH)


def confidence_in(case: Case, section: str, severity: Severity) -> Confidence:
    """Return how sure a leaf of a section is in this run."""
    by_section = {"§1": _of_nan, "§2": _of_spike, "§3": _of_overflow, "§4": _of_climb}
    estimate = by_section[section](case)
    # A plateau is what is left where nothing stands out.
    return min_of(estimate, Confidence.MEDIUM) if severity is Severity.NOTE else estimate


def confidence_without_finding(verdicts: tuple[Verdict, ...], *, is_tested: bool) -> Confidence:
    """Return how sure it is that a run is sound; ``is_tested`` for NaN, spikes and climbs."""
    if not is_tested:
        return Confidence.LOW
    return Confidence.MEDIUM if Verdict.UNKNOWN in verdicts else Confidence.HIGH


def min_of(one: Confidence, other: Confidence) -> Confidence:
    """Return the lower of two."""
    return min(one, other, key=_FROM_LOWEST.index)


def _of_nan(case: Case) -> Confidence:
    # A NaN that the log does not spell out is inferred from what is missing.
    hidden = any(event.kind is EventKind.HIDDEN_NAN for event in case.history.events)
    return Confidence.MEDIUM if hidden else Confidence.HIGH


def _of_spike(case: Case) -> Confidence:
    spike, scan = case.focus or case.spikes[0], case.scan
    if spike in scan.abrupt or not scan.tested:
        return Confidence.MEDIUM
    if spike.score <= scan.limit and not case.after_logged_cause[spike.onset]:
        return Confidence.LOW
    is_far = spike.score > _FAR_BEYOND * scan.limit
    return Confidence.HIGH if is_far and spike.recovered is not None else Confidence.MEDIUM


def _of_overflow(case: Case) -> Confidence:
    return Confidence.MEDIUM if "dtype" in case.manifest.inferred else Confidence.HIGH


def _of_climb(case: Case) -> Confidence:
    rise = case.rise
    if rise is None:
        return Confidence.MEDIUM
    is_far = rise.p_value < _BEYOND_DOUBT and rise.amount > _FAR_BEYOND * rise.bar
    return Confidence.HIGH if is_far else Confidence.MEDIUM
