"""The confidence of the findings of the tree, from measurements and never from texts."""

from __future__ import annotations

from typing import Final

from stabdiag.model.events import EventKind
from stabdiag.model.findings import Confidence, Severity, Verdict
from stabdiag.stats.standards import TWICE
from stabdiag.tree.case import Case

# A spike or a climb above this multiple of the noise limit has high confidence.
_FAR_BEYOND: Final = TWICE

# A trend below this p-value is significant even among many runs.
_MAX_P_VALUE: Final = 1e-6

_FROM_LOWEST: Final = (Confidence.LOW, Confidence.MEDIUM, Confidence.HIGH)


def leaf_confidence(case: Case, section: str, severity: Severity) -> Confidence:
    """Return the confidence in a leaf of a section."""
    by_section = {
        "§1": _of_nan,
        "§2": _spike_confidence,
        "§3": _overflow_confidence,
        "§4": _climb_confidence,
    }
    estimate = by_section[section](case)
    # A plateau is the default when no evidence is found.
    return min_confidence(estimate, Confidence.MEDIUM) if severity is Severity.NOTE else estimate


def confidence_without_finding(verdicts: tuple[Verdict, ...], *, is_tested: bool) -> Confidence:
    """Return the confidence in a healthy run; ``is_tested`` for NaN, spikes and climbs."""
    if not is_tested:
        return Confidence.LOW
    return Confidence.MEDIUM if Verdict.UNKNOWN in verdicts else Confidence.HIGH


def min_confidence(first: Confidence, second: Confidence) -> Confidence:
    """Return the lower of two confidences."""
    return min(first, second, key=_FROM_LOWEST.index)


def _of_nan(case: Case) -> Confidence:
    # A hidden NaN is inferred from missing values.
    hidden = any(event.kind is EventKind.HIDDEN_NAN for event in case.history.events)
    return Confidence.MEDIUM if hidden else Confidence.HIGH


def _spike_confidence(case: Case) -> Confidence:
    spike, scan = case.focus or case.spikes[0], case.scan
    if spike in scan.abrupt or not scan.tested:
        return Confidence.MEDIUM
    if spike.score <= scan.limit and not case.after_logged_cause[spike.onset]:
        return Confidence.LOW
    is_far = spike.score > _FAR_BEYOND * scan.limit
    return Confidence.HIGH if is_far and spike.recovered is not None else Confidence.MEDIUM


def _overflow_confidence(case: Case) -> Confidence:
    return Confidence.MEDIUM if "dtype" in case.manifest.inferred else Confidence.HIGH


def _climb_confidence(case: Case) -> Confidence:
    rise = case.rise
    if rise is None:
        return Confidence.MEDIUM
    is_far = rise.p_value < _MAX_P_VALUE and rise.amount > _FAR_BEYOND * rise.bar
    return Confidence.HIGH if is_far else Confidence.MEDIUM
