"""Check every symptom, and rank the findings."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from stabdiag.model.findings import INSUFFICIENT_DATA, RATE, ActionKind, Finding, Severity
from stabdiag.model.frozen import frozen
from stabdiag.model.report import NotChecked, skipped
from stabdiag.symptoms.registry import SYMPTOMS
from stabdiag.symptoms.symptom import Evidence, Symptom
from stabdiag.tree.advice.shared import with_nearby_changes
from stabdiag.tree.case import Case

_FACTS = frozenset(symptom.slug for symptom in SYMPTOMS if symptom.is_fact)


@frozen
class SymptomResults:
    """The symptoms that are present with their evidence, not checked, or ruled out."""

    present: tuple[tuple[Symptom, Evidence], ...] = ()
    not_checked: tuple[NotChecked, ...] = ()
    absent: tuple[Symptom, ...] = ()

    def findings(self, tree: tuple[Finding, ...], unit: str) -> tuple[Finding, ...]:
        """Return the symptoms as findings, except those that the tree's findings explain."""
        shown = [pair for pair in self.present if not _is_explained(pair[0], tree)]
        slugs = {symptom.slug for symptom, _ in shown}
        return tuple(
            symptom.finding(evidence, unit)
            for symptom, evidence in shown
            if slugs.isdisjoint(symptom.yields_to)
        )

    def without_expected(
        self, findings: tuple[Finding, ...], shown: tuple[Finding, ...]
    ) -> tuple[Finding, ...]:
        """Return the findings except those that a trial causes or a symptom explains.

        A symptom that is not ``shown`` itself, for example after a NaN, explains nothing.
        """
        slugs = {finding.slug for finding in shown}
        expected = {
            symptom.slug: prefixes
            for symptom, evidence in self.present
            if (prefixes := (*symptom.expects, *evidence.explains)) and symptom.slug in slugs
        }
        if not expected:
            return findings
        prefixes = tuple(prefix for expects in expected.values() for prefix in expects)
        return tuple(
            finding
            for finding in findings
            if finding.slug in expected or not finding.slug.startswith(prefixes)
        )

    def with_cause_first(self, tree: tuple[Finding, ...]) -> tuple[Finding, ...]:
        """Return the tree's findings; spikes start with the action of the symptom that causes them.

        A finding whose first action concerns the learning rate is left as it is.
        """
        first = tuple(
            evidence.first for symptom, evidence in self.present if symptom.is_root_cause
        )[:1]
        return tuple(
            replace(finding, actions=(*first, *finding.actions))
            if finding.section == "§2" and not RATE.intersection(finding.actions[0].kinds)
            else finding
            for finding in tree
        )

    def clear(self, tree: tuple[Finding, ...]) -> tuple[str, ...]:
        """Return the symptoms ruled out, except those that a finding would explain."""
        return tuple(symptom.slug for symptom in self.absent if not _is_explained(symptom, tree))

    def with_skipped_checks(self, outcome: Finding) -> Finding:
        """Return the tree's outcome; if nothing was found, its summary mentions skipped checks."""
        if outcome.severity is not Severity.OK or not self.not_checked:
            return outcome
        return replace(outcome, summary=f"{outcome.summary} {skipped(self.not_checked)}.")


def worst_first(tree: tuple[Finding, ...], symptoms: tuple[Finding, ...]) -> tuple[Finding, ...]:
    """Return all findings, worst first. If equally severe, facts come first, then the tree's.

    The outcome that nothing was found is kept only without other findings. In a run that
    failed, a fact that is a warning by itself is the likely cause, and counts as an error.
    """
    findings = [finding for finding in (*tree, *symptoms) if finding.severity is not Severity.OK]
    if any(
        finding.severity is Severity.ERROR and finding.slug not in _FACTS for finding in findings
    ):
        findings = [
            replace(finding, severity=Severity.ERROR)
            if finding.slug in _FACTS and finding.severity is Severity.WARNING
            else finding
            for finding in findings
        ]
    # Notes of a short log say more than that it is short.
    findings.sort(
        key=lambda finding: (
            finding.severity.rank,
            finding.slug == INSUFFICIENT_DATA,
            finding.slug not in _FACTS,
        )
    )
    return tuple(findings) or tree


def is_fact(finding: Finding) -> bool:
    """Return True if a finding does not depend on any curve."""
    return finding.slug in _FACTS


def check_symptoms(case: Case) -> SymptomResults:
    """Check every symptom, regardless of the tree's findings."""
    present: list[tuple[Symptom, Evidence]] = []
    not_checked: list[NotChecked] = []
    absent: list[Symptom] = []
    for symptom, missing in _missing_needs(case.logged_or_configured):
        why = "" if missing else symptom.failed_precondition(case)
        evidence = None if missing or why else symptom.run_check(case)
        if evidence is not None:
            present.append((symptom, _with_changes(case, symptom, evidence)))
        elif missing or (why := why or symptom.inconclusive_reason(case)):
            not_checked.append(NotChecked(symptom=symptom.slug, missing=missing, reason=why))
        else:
            absent.append(symptom)
    return SymptomResults(
        present=tuple(present), not_checked=tuple(not_checked), absent=tuple(absent)
    )


@lru_cache
def _missing_needs(available: frozenset[str]) -> tuple[tuple[Symptom, tuple[str, ...]], ...]:
    """Return each symptom with its needs that are not available; many runs of a scan have these."""
    return tuple((symptom, symptom.missing(available)) for symptom in SYMPTOMS)


def _with_changes(case: Case, symptom: Symptom, evidence: Evidence) -> Evidence:
    """Add the settings that changed where the symptom begins to its evidence."""
    next_actions = symptom.next_actions if evidence.next_actions is None else evidence.next_actions
    because, (first, *others), changes = with_nearby_changes(
        case, evidence.step, evidence.because, (evidence.first, *next_actions)
    )
    measured = {**evidence.measured, **changes}
    return replace(
        evidence, because=because, first=first, next_actions=tuple(others), measured=measured
    )


def _is_explained(symptom: Symptom, tree: tuple[Finding, ...]) -> bool:
    # If the rate jumped, it is too high because of the jump.
    return any(
        finding.slug.startswith(symptom.explained_by)
        or (
            symptom.is_root_cause
            and finding.actions[:1]
            and finding.actions[0].kind is ActionKind.FIX_SCHEDULE
        )
        for finding in tree
    )
