"""Diagnoses against a baseline, and the baseline as a Python object."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from stabdiag.api.references import References, read_references
from stabdiag.baseline.guard import find_odd_run
from stabdiag.baseline.judge import is_worse, judge
from stabdiag.baseline.profile import run_profile
from stabdiag.comparison import compare_with_baseline, differ_by_seed, ends_differ
from stabdiag.comparison.outcomes import AGREE, RUN_FAILS
from stabdiag.errors import StabdiagError
from stabdiag.model.comparison import Comparison, ComparisonKind
from stabdiag.model.findings import Action, ActionKind, Finding, Severity
from stabdiag.model.frozen import frozen
from stabdiag.model.profile import RunProfile
from stabdiag.model.report import Report
from stabdiag.model.text import plural
from stabdiag.sources.profiles import write_kept
from stabdiag.symptoms.baseline.findings import baseline_finding
from stabdiag.symptoms.check import is_fact

if TYPE_CHECKING:
    from stabdiag.assemble.inputs import Options

ReportType = TypeVar("ReportType", bound=Report)


@frozen
class Baseline(References):
    """Earlier good runs of a task, to compare other runs with.

    ``profiles`` has the level of each series of each run on a grid of steps. ``left_out`` has the
    unusable runs with reasons. No log is kept.
    """

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the runs."""
        return tuple(profile.name for profile in self.profiles)

    def __len__(self) -> int:
        return len(self.profiles)

    def save(self, output: str | os.PathLike[str]) -> None:
        """Write the baseline atomically as one Parquet file of a few kilobytes.

        Raises:
            StabdiagError: if it holds no run, or the file cannot be written.
        """
        if not self.profiles:
            raise StabdiagError("baseline: no run to keep")
        write_kept(self.profiles, Path(output))

    def __repr__(self) -> str:
        """Name the runs in one line."""
        return f"<Baseline of {len(self)} runs: {', '.join(self.names[:5])}>"


def read_baseline(sources: object, options: Options, where: str | Sequence[str]) -> Baseline:
    """Read references from one source or a list of sources.

    Raises:
        StabdiagError: if nothing is named, or a condition is not one.
    """
    named = list(sources) if isinstance(sources, list | tuple) else [sources]
    if not named:
        raise StabdiagError("baseline: no run is given")
    conditions = [where] if isinstance(where, str) else where
    return Baseline(**vars(read_references(named, options, conditions)))


def with_baseline(report: ReportType, references: References, *, refuse: bool = True) -> ReportType:
    """Return a report with the result of a comparison with references.

    Raises:
        StabdiagError: if ``refuse`` is set and no reference is a run of the same thing.
    """
    profile = run_profile(report.history, report.manifest)
    comparison = judge(profile, references.profiles, refuse=refuse)
    left_out = (*references.left_out, *comparison.left_out)
    comparison = replace(comparison, left_out=left_out)
    finding = baseline_finding(comparison, report.findings)
    findings = report.findings if finding is None else _inserted(report.findings, finding)
    return replace(report, findings=findings, baseline=comparison)


def compared_with_others(comparison: Comparison, noun: str = "your good run") -> Comparison:
    """Return a comparison of runs with the finding of the first run against the others.

    Args:
        comparison: the runs; the first one is compared.
        noun: one of the others in a sentence.

    Raises:
        StabdiagError: if no other run has the same task, dataset, model and number of classes.
    """
    profiles = _profiles(comparison)
    result = judge(profiles[0], profiles[1:])
    result = replace(result, run_name=comparison.runs[0].label, reference_noun=noun)
    finding = baseline_finding(result)
    if finding is None:
        text = "Nothing has to be done: the run is as good as the others."
        finding = AGREE.finding(result.inside, Action(ActionKind.DO_NOTHING, text))
    return replace(comparison, findings=(replace(finding, section="compare"),))


def with_worse_run_first(comparison: Comparison) -> Comparison:
    """Compare one run with the others as its baseline if it ends worse and these agree.

    Only seeds and reruns whose ends differ clearly are compared in this way, and only if no run
    failed in an obvious way. If only the seed differs, they remain seeds, and the finding says
    where the worse run leaves the others.
    """
    has_failed_run = any(finding.slug == RUN_FAILS.slug for finding in comparison.findings)
    is_candidate = (
        comparison.kind in (ComparisonKind.SEEDS, ComparisonKind.RERUNS) and not has_failed_run
    )
    if not is_candidate or not ends_differ(comparison):
        return comparison
    profiles = _profiles(comparison)
    at = find_odd_run(profiles)
    if at is None:
        return comparison
    others = [profile for profile in profiles if profile is not profiles[at]]
    result = judge(profiles[at], others, refuse=False)
    if not is_worse(result):
        return comparison
    run = comparison.runs[at]
    if differ_by_seed(comparison):
        first, *others_found = comparison.findings
        left = f"{run.label} leaves the band of the others at {result.unit} {result.step}."
        first = replace(first, summary=f"{first.summary} {left}")
        return replace(comparison, findings=(first, *others_found))
    why = f"{run.label} ends worse than {plural(len(others), 'other run')} that agree"
    return compared_with_others(compare_with_baseline(comparison, run, why), "the other run")


def _profiles(comparison: Comparison) -> list[RunProfile]:
    return [
        replace(run_profile(run.history, run.manifest, name=run.label), key=f"{number}")
        for number, run in enumerate(comparison.runs)
    ]


def _inserted(findings: Iterable[Finding], finding: Finding) -> tuple[Finding, ...]:
    """Insert a finding by severity, after facts and findings of the tree of the same severity."""

    def order(item: Finding) -> tuple[int, int]:
        if is_fact(item):
            return item.severity.rank, 0
        is_from_tree = item.section.startswith("§")
        return item.severity.rank, 1 if is_from_tree else 2 + (item is not finding)

    kept = [item for item in findings if item.severity is not Severity.OK]
    return tuple(sorted([*kept, finding], key=order))
