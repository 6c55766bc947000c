"""Symptoms: failures that a log shows beside the decision tree. One module holds one family."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from stabdiag.model.findings import RATE, ActionKind, Severity
from stabdiag.model.report import NotChecked, skipped
from stabdiag.symptoms import (
    curve,
    data,
    generalisation,
    gradients,
    learning,
    precision,
    rates,
    resume,
    schedule,
    stuck,
    throughput,
    weights,
)
from stabdiag.symptoms.symptom import Evidence, Symptom
from stabdiag.tree.advice.shared import with_changes_at

if TYPE_CHECKING:
    from stabdiag.model.findings import Finding
    from stabdiag.tree.case import Case

# Of equally severe findings, the first in this order is the diagnosis.
SYMPTOMS: tuple[Symptom, ...] = (
    stuck.LOSS_CONSTANT,
    stuck.PLATEAU_AT_CHANCE,
    curve.LOSS_OSCILLATING,
    learning.NOT_LEARNING,
    rates.LR_TOO_HIGH,
    rates.LEARNING_SLOW,
    curve.INITIAL_LOSS_OFF,
    curve.PLATEAU_EARLY,
    curve.TOO_GOOD,
    # A loader that is stuck comes before what the model memorised by it.
    data.BATCH_REPEATS,
    generalisation.OVERFITTING,
    generalisation.EVAL_RISING,
    generalisation.EVAL_GAP_FROM_START,
    generalisation.UNDERFITTING,
    generalisation.EVAL_NONFINITE,
    data.EPOCH_BOUNDARY_JUMP,
    # What a resume changed comes before what followed from it.
    resume.RESUME_LOSS_JUMP,
    curve.FREQUENT_SPIKES,
    gradients.GRAD_NONFINITE,
    gradients.GRAD_EXPLODING,
    gradients.GRAD_VANISHING,
    gradients.GRAD_CLIP_SATURATED,
    gradients.GRAD_LAYER_OUTLIER,
    weights.WEIGHT_NORM_RUNAWAY,
    weights.WEIGHT_NORM_SHRINKING,
    weights.UPDATE_RATIO_OFF,
    weights.DEAD_NEURONS,
    weights.ACTIVATION_SATURATED,
    weights.ATTENTION_ENTROPY_COLLAPSE,
    schedule.LR_NO_WARMUP,
    schedule.LR_WARMUP_MISMATCH,
    schedule.LR_DECAYS_EARLY,
    schedule.LR_NEVER_DECAYS,
    schedule.LR_DISCONTINUITY,
    precision.OVERFLOW_RATE_HIGH,
    precision.ADAM_UNDERFLOW_RISK,
    resume.RESUME_LR_RESET,
    resume.RESUME_DATA_REPLAYED,
    resume.RESUME_STEP_GAP,
    throughput.THROUGHPUT_DROP,
    throughput.THROUGHPUT_SAWTOOTH,
    throughput.MFU_LOW,
    throughput.STALL,
    throughput.MEMORY_GROWTH,
)

BY_SLUG = {symptom.slug: symptom for symptom in SYMPTOMS}

__all__ = ["BY_SLUG", "SYMPTOMS", "Checked", "Symptom", "check_symptoms", "worst_first"]


@dataclass(frozen=True, kw_only=True)
class Checked:
    """The symptoms that hold with their evidence, those not checked, and those ruled out."""

    held: tuple[tuple[Symptom, Evidence], ...] = ()
    not_checked: tuple[NotChecked, ...] = ()
    held_not: tuple[Symptom, ...] = ()

    def findings(self, found: tuple[Finding, ...], unit: str) -> tuple[Finding, ...]:
        """Return the symptoms as findings, except those that the tree's findings explain."""
        return tuple(
            symptom.finding(evidence, unit)
            for symptom, evidence in self.held
            if not _explained(symptom, found)
        )

    def led(self, found: tuple[Finding, ...]) -> tuple[Finding, ...]:
        """Return the tree's findings; a symptom behind its spikes says what to do first.

        Where the tree begins with the rate itself, as where it jumped, that stands.
        """
        first = tuple(evidence.first for symptom, evidence in self.held if symptom.leads)[:1]
        return tuple(
            replace(one, actions=(*first, *one.actions))
            if one.section == "§2" and not RATE.intersection(one.actions[0].kinds)
            else one
            for one in found
        )

    def clear(self, found: tuple[Finding, ...]) -> tuple[str, ...]:
        """Return the symptoms ruled out, except those that a finding would explain."""
        return tuple(one.slug for one in self.held_not if not _explained(one, found))

    def told_of(self, outcome: Finding) -> Finding:
        """Return the tree's outcome; if it found nothing, with a sentence on skipped checks."""
        if outcome.severity is not Severity.OK or not self.not_checked:
            return outcome
        return replace(outcome, summary=f"{outcome.summary} {skipped(self.not_checked)}.")


def worst_first(tree: tuple[Finding, ...], symptoms: tuple[Finding, ...]) -> tuple[Finding, ...]:
    """Return all findings, worst first; of equally severe ones the tree's come first.

    An outcome that says nothing was found stays only where nothing else was.
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
            held.append((symptom, _with_changes(case, symptom, evidence)))
        elif missing:
            not_checked.append(NotChecked(symptom=symptom.slug, missing=missing))
        elif reason := symptom.too_few(case):
            not_checked.append(NotChecked(symptom=symptom.slug, reason=reason))
        else:
            held_not.append(symptom)
    return Checked(held=tuple(held), not_checked=tuple(not_checked), held_not=tuple(held_not))


def _with_changes(case: Case, symptom: Symptom, evidence: Evidence) -> Evidence:
    """Return the evidence with the settings that changed where the symptom begins."""
    then = symptom.then if evidence.then is None else evidence.then
    because, (first, *rest), more = with_changes_at(
        case, evidence.step, evidence.because, (evidence.first, *then)
    )
    measured = {**evidence.measured, **more}
    return replace(evidence, because=because, first=first, then=tuple(rest), measured=measured)


def _explained(symptom: Symptom, found: tuple[Finding, ...]) -> bool:
    # A rate that jumped is too high for that reason.
    return any(
        one.slug.startswith(symptom.explained_by)
        or (symptom.leads and one.actions[:1] and one.actions[0].kind is ActionKind.FIX_SCHEDULE)
        for one in found
    )
