"""Which finding a page for people opens with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from stabdiag.findings import Severity

if TYPE_CHECKING:
    from stabdiag.findings import Finding


class Found(Protocol):
    """Whatever has findings: the report on a run, or a comparison of several."""

    @property
    def diagnosis(self) -> Finding:
        """The worst finding of the tree."""

    @property
    def also_found(self) -> tuple[Finding, ...]:
        """All others."""


def lead(report: Found) -> Finding:
    """Return the diagnosis, or the worst error or warning where the tree found nothing as bad.

    A run that was killed must not be read as one in which nothing is wrong, nor one that has never
    learned as one that had a spike.
    """
    worst = min((report.diagnosis, *report.also_found), key=lambda one: one.severity.rank)
    return worst if worst.severity.rank < Severity.NOTE.rank else report.diagnosis


def others(report: Found) -> tuple[Finding, ...]:
    """Return what else was found; that the tree found nothing wrong is no finding."""
    first = lead(report)
    rest = (one for one in (report.diagnosis, *report.also_found) if one is not first)
    return tuple(one for one in rest if one.severity is not Severity.OK)


def otherwise(report: Found) -> str:
    """Return what the tree says of a run that is well but for the finding that leads."""
    found = report.diagnosis
    well = found.severity is Severity.OK and lead(report) is not found
    return f"Otherwise: {found.summary}" if well else ""
