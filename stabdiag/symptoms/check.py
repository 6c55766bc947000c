"""Check all symptoms of one run, after the walk."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from stabdiag.model.findings import Finding, Severity
from stabdiag.model.report import NotChecked, lacking
from stabdiag.symptoms import SYMPTOMS
from stabdiag.tree.advice.shared import with_changes_at

if TYPE_CHECKING:
    from stabdiag.symptoms.symptom import Evidence, Symptom
    from stabdiag.tree.case import Case

# So many of the roles that are missing are named.
_NAMED = 3


@dataclass(frozen=True, kw_only=True)
class Checked:
    """The symptoms that hold, each with its evidence; what could not be checked; the others."""

    held: tuple[tuple[Symptom, Evidence], ...] = ()
    not_checked: tuple[NotChecked, ...] = ()
    held_not: tuple[Symptom, ...] = ()

    def findings(self, found: tuple[Finding, ...]) -> tuple[Finding, ...]:
        """Return the symptoms as findings, but for those that the tree's findings explain."""
        return tuple(
            _finding(symptom, evidence)
            for symptom, evidence in self.held
            if not _explained(symptom, found)
        )

    def clear(self, found: tuple[Finding, ...]) -> tuple[str, ...]:
        """Return the symptoms that do not hold, but for those that a finding would explain."""
        return tuple(one.slug for one in self.held_not if not _explained(one, found))

    def told_of(self, outcome: Finding) -> Finding:
        """Return the tree's outcome; where it is that nothing was found, with what was skipped."""
        if outcome.severity is not Severity.OK or not self.not_checked:
            return outcome
        roles = lacking(self.not_checked)
        why = [f"no {', '.join((*roles[:_NAMED], *['…'][: len(roles) - _NAMED]))}"] if roles else []
        if few := sum(bool(one.reason) for one in self.not_checked):
            why.append(f"{few} had too little to go by")
        skipped = f"{len(self.not_checked)} of {len(SYMPTOMS)} checks were skipped"
        return replace(outcome, summary=f"{outcome.summary} {skipped}: {'; '.join(why)}.")


def worst_first(tree: tuple[Finding, ...], symptoms: tuple[Finding, ...]) -> tuple[Finding, ...]:
    """Return all findings, worst first, of equally bad ones the tree's before the symptoms'.

    That the tree found nothing is told only where nothing else was found.
    """
    found = [one for one in (*tree, *symptoms) if one.severity is not Severity.OK]
    return tuple(sorted(found, key=lambda one: one.severity.rank)) or tree


def check_symptoms(case: Case) -> Checked:
    """Check every symptom, whatever the tree finds."""
    held: list[tuple[Symptom, Evidence]] = []
    not_checked: list[NotChecked] = []
    held_not: list[Symptom] = []
    for symptom in SYMPTOMS:
        missing = symptom.missing(case)
        evidence = None if missing else symptom.check(case)
        if evidence is not None:
            held.append((symptom, _with_changes(case, evidence)))
        elif missing:
            not_checked.append(NotChecked(symptom=symptom.slug, missing=missing))
        elif reason := symptom.too_few(case):
            not_checked.append(NotChecked(symptom=symptom.slug, reason=reason))
        else:
            held_not.append(symptom)
    return Checked(held=tuple(held), not_checked=tuple(not_checked), held_not=tuple(held_not))


def _with_changes(case: Case, evidence: Evidence) -> Evidence:
    """Return the evidence with the settings that changed where the symptom begins."""
    because, (first, *then), more = with_changes_at(
        case, evidence.step, evidence.because, (evidence.first, *evidence.then)
    )
    measured = {**evidence.measured, **more}
    return replace(evidence, because=because, first=first, then=tuple(then), measured=measured)


def _explained(symptom: Symptom, found: tuple[Finding, ...]) -> bool:
    return any(finding.slug.startswith(symptom.explained_by) for finding in found)


def _finding(symptom: Symptom, evidence: Evidence) -> Finding:
    return Finding(
        slug=symptom.slug,
        severity=symptom.severity,
        section="symptom",
        question="",
        title=evidence.title or symptom.title,
        summary=evidence.because,
        actions=(evidence.first, *evidence.then),
        step=evidence.step,
        evidence=evidence.measured,
    )
