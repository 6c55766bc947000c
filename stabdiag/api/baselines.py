"""Diagnoses against a baseline, and the baseline itself as Python has it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from stabdiag.baseline.findings import finding_of
from stabdiag.baseline.judge import judge
from stabdiag.baseline.kept import write_kept
from stabdiag.baseline.profile import profile_of
from stabdiag.baseline.references import References
from stabdiag.errors import StabdiagError
from stabdiag.model.baseline import BaselineComparison
from stabdiag.model.findings import Finding, Severity
from stabdiag.model.frozen import frozen
from stabdiag.model.report import Report

if TYPE_CHECKING:
    from stabdiag.baseline.profile import RunProfile
    from stabdiag.model.baseline import LeftOut

ReportType = TypeVar("ReportType", bound=Report)


@frozen
class Baseline(References):
    """Earlier good runs of a task, to compare other runs with.

    ``profiles`` has the level of each series of each run on a grid of steps; ``left_out`` what was
    named and cannot be used, and why. No log is kept.
    """

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the runs."""
        return tuple(profile.name for profile in self.profiles)

    def __len__(self) -> int:
        return len(self.profiles)

    def save(self, output: str | os.PathLike[str]) -> None:
        """Write the baseline as one Parquet file of a few kilobytes, as a whole or not at all.

        Raises:
            StabdiagError: if it holds no run, or the file cannot be written.
        """
        if not self.profiles:
            raise StabdiagError("baseline: no run to keep")
        write_kept(self.profiles, Path(output))

    def __repr__(self) -> str:
        """Name the runs in one line."""
        return f"<Baseline of {len(self)} runs: {', '.join(self.names[:5])}>"


def with_baseline(report: ReportType, references: References) -> ReportType:
    """Return a report with what a comparison with references adds to it.

    Raises:
        StabdiagError: if no reference is a run of the same task, dataset, model or classes.
    """
    comparison = compared_with(report, references.profiles, references.left_out)
    finding = finding_of(comparison, report.findings)
    findings = report.findings if finding is None else _inserted(report.findings, finding)
    return replace(report, findings=findings, baseline=comparison)


def compared_with(
    report: Report, profiles: Sequence[RunProfile], left_out: Iterable[LeftOut] = ()
) -> BaselineComparison:
    """Return how the run of a report compares with the profiles of others."""
    comparison = judge(profile_of(report.history, report.manifest), profiles)
    return replace(comparison, left_out=(*left_out, *comparison.left_out))


def _inserted(findings: Iterable[Finding], finding: Finding) -> tuple[Finding, ...]:
    """Return findings with another one: of equal severity it goes after those of the tree."""

    def order(one: Finding) -> tuple[int, int]:
        return one.severity.rank, 0 if one.section.startswith("§") else 1 + (one is not finding)

    kept = [one for one in findings if one.severity is not Severity.OK]
    return tuple(sorted([*kept, finding], key=order))
