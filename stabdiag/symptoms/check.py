"""Check all symptoms of one run, after the walk."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from stabdiag.findings import Action, ActionKind, Finding, Severity
from stabdiag.report import Unchecked
from stabdiag.symptoms import SYMPTOMS
from stabdiag.tree.advice.changed import with_changes_at

if TYPE_CHECKING:
    from stabdiag.symptoms.symptom import Evidence, Symptom
    from stabdiag.tree.case import Case

_NOTHING_URGENT = Action(ActionKind.SEE_FINDING, "Nothing urgent; see what else was found.")


@dataclass(frozen=True, kw_only=True)
class Checked:
    """The symptoms that hold, each with its evidence, and what could not be checked."""

    held: tuple[tuple[Symptom, Evidence], ...] = ()
    unchecked: tuple[Unchecked, ...] = ()

    def beside(self, found: tuple[Finding, ...]) -> tuple[Finding, ...]:
        """Return what the tree found and the symptoms that it does not explain, diagnosis first."""
        symptoms = [
            _finding(symptom, evidence)
            for symptom, evidence in self.held
            if not any(finding.slug.startswith(symptom.explained_by) for finding in found)
        ]
        symptoms.sort(key=lambda finding: finding.severity.rank)
        return _merged(found, tuple(symptoms))


def check_symptoms(case: Case) -> Checked:
    """Check every symptom, whatever the tree finds."""
    held: list[tuple[Symptom, Evidence]] = []
    unchecked: list[Unchecked] = []
    for symptom in SYMPTOMS:
        missing = symptom.missing(case)
        if missing:
            unchecked.append(Unchecked(symptom=symptom.slug, missing=missing))
            continue
        evidence = symptom.check(case)
        if evidence is not None:
            held.append((symptom, _with_changes(case, evidence)))
    return Checked(held=tuple(held), unchecked=tuple(unchecked))


def _with_changes(case: Case, evidence: Evidence) -> Evidence:
    """Return the evidence with the settings that changed where the symptom begins."""
    because, first, more = with_changes_at(case, evidence.step, evidence.because, evidence.first)
    return replace(evidence, because=because, first=first, measured={**evidence.measured, **more})


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


def _merged(found: tuple[Finding, ...], symptoms: tuple[Finding, ...]) -> tuple[Finding, ...]:
    """Put the symptoms after the tree's findings; an error goes first where the tree has none.

    Beside a symptom that is one, ``healthy`` would be no truth.
    """
    if not symptoms or found[0].severity.rank < Severity.NOTE.rank:
        return (*found, *symptoms)
    if symptoms[0].severity is Severity.ERROR:
        return (*symptoms, *(f for f in found if f.severity is not Severity.OK))
    if symptoms[0].severity is Severity.NOTE and found[0].severity is Severity.OK:
        return (replace(found[0], actions=(_NOTHING_URGENT,)), *found[1:], *symptoms)
    if symptoms[0].severity is Severity.WARNING:
        worse = ", ".join(one.slug for one in symptoms if one.severity is Severity.WARNING)
        act = found[0].actions[0]
        first = replace(act, text=f"{act.text} See also {worse}, found beside it.")
        if found[0].severity is Severity.OK:
            first = symptoms[0].actions[0]
        elif found[0].slug == "insufficient-data":
            # A run that overfits or was killed is not merely to be let go on.
            first = act.after(f"See to {worse} first, found beside it; then")
        found = (replace(found[0], actions=(first, *found[0].actions[1:])), *found[1:])
    return (*found, *symptoms)
