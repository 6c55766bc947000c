"""Symptoms: failures that a log shows outside the decision tree, one module for each family."""

from __future__ import annotations

from dataclasses import replace

from stabdiag.model.findings import RATE, ActionKind, Finding, Severity
from stabdiag.model.frozen import frozen
from stabdiag.model.report import NotChecked, skipped
from stabdiag.symptoms import (
    adversarial,
    chance,
    clipping,
    curve,
    data,
    first_loss,
    generalization,
    gradients,
    held_batch,
    layers,
    learning,
    magnitude,
    other_losses,
    precision,
    progress,
    ranks,
    rates,
    recorded_batches,
    recorded_loss,
    recorded_modes,
    recorded_parameters,
    recovered,
    reduction,
    resume,
    reward,
    schedule,
    settings,
    spikes,
    stalls,
    stuck,
    throughput,
    trials,
    weights,
)
from stabdiag.symptoms.symptom import Evidence, Symptom
from stabdiag.tree.advice.shared import with_nearby_changes
from stabdiag.tree.case import Case

# If several findings are equally severe, the first in this order is the diagnosis.
SYMPTOMS: tuple[Symptom, ...] = (
    trials.lr_range_test,
    trials.one_batch_test,
    # Facts come first, starting with those that affect every step.
    recorded_loss.loss_of_probabilities,
    recorded_loss.loss_broadcast,
    recorded_loss.gradients_not_zeroed,
    recorded_batches.inputs_nonfinite,
    ranks.ranks_differ,
    recorded_parameters.not_in_optimizer,
    recorded_parameters.optimizer_replaced,
    recorded_loss.log_of_softmax,
    recorded_loss.gradient_of_a_multiple,
    recorded_loss.relu_on_logits,
    recorded_parameters.updates_lost,
    recorded_batches.labels_in_order,
    ranks.ranks_share_batches,
    recorded_parameters.initial_weights_off,
    recorded_parameters.frozen_at_init,
    recorded_modes.batch_norm_of_few,
    recorded_modes.evaluated_in_training_mode,
    recorded_modes.left_in_evaluation_mode,
    recorded_parameters.no_gradient,
    stuck.loss_constant,
    chance.plateau_at_chance,
    curve.loss_oscillating,
    learning.not_learning,
    reward.reward_not_rising,
    reward.policy_entropy_collapsed,
    reward.policy_drifts,
    rates.lr_too_high,
    rates.learning_slow,
    first_loss.initial_loss_off,
    first_loss.softmax_twice,
    curve.plateau_early,
    curve.too_good,
    progress.no_progress,
    progress.score_collapsed,
    progress.score_constant,
    # A stuck loader comes before the memorization that it causes.
    data.batch_repeats,
    # An evaluation of the wrong model comes before conclusions from its losses.
    stuck.eval_constant,
    generalization.overfitting,
    generalization.overconfident,
    generalization.eval_rising,
    reduction.train_loss_summed,
    reduction.eval_loss_scaled,
    reduction.eval_far_below_train,
    generalization.learning_not_transferring,
    generalization.eval_gap_from_start,
    generalization.underfitting,
    generalization.eval_nonfinite,
    other_losses.other_loss_nonfinite,
    other_losses.other_loss_rising,
    adversarial.discriminator_wins,
    data.epoch_boundary_jump,
    # A change at a resume comes before its consequences.
    resume.resume_loss_jump,
    spikes.frequent_spikes,
    gradients.grad_nonfinite,
    magnitude.loss_implausible,
    gradients.grad_exploding,
    magnitude.activation_exploding,
    magnitude.attention_logits_growing,
    gradients.grad_vanishing,
    clipping.grad_clip_saturated,
    gradients.grad_layer_outlier,
    layers.grad_vanishing_by_depth,
    layers.group_frozen,
    magnitude.norm_jump,
    weights.weight_norm_runaway,
    weights.weight_norm_shrinking,
    weights.update_ratio_off,
    weights.dead_neurons,
    weights.activation_saturated,
    weights.attention_entropy_collapse,
    schedule.lr_no_warmup,
    schedule.lr_warmup_mismatch,
    schedule.lr_decays_early,
    schedule.ends_mid_cycle,
    schedule.lr_never_decays,
    schedule.lr_discontinuity,
    precision.overflow_rate_high,
    precision.loss_scale_stuck,
    precision.adam_underflow_risk,
    resume.resume_lr_reset,
    resume.resume_data_replayed,
    resume.resume_step_gap,
    recovered.rise_recovered,
    recovered.collapse_recovered,
    spikes.heavy_tailed_loss,
    throughput.straggler,
    throughput.throughput_drop,
    throughput.throughput_sawtooth,
    throughput.data_loading_slow,
    throughput.mfu_low,
    stalls.stall,
    throughput.memory_growth,
    # Findings from the settings alone come last.
    settings.setting_unusual,
    # These rest on a statistic of one batch.
    held_batch.dead_from_start,
    held_batch.saturated_from_start,
    held_batch.training_labels_wrong,
    held_batch.ends_at_noise_floor,
)

SYMPTOM_BY_SLUG = {symptom.slug: symptom for symptom in SYMPTOMS}

_FACTS = frozenset(symptom.slug for symptom in SYMPTOMS if symptom.is_fact)

__all__ = [
    "SYMPTOMS",
    "SYMPTOM_BY_SLUG",
    "Symptom",
    "SymptomResults",
    "check_symptoms",
    "worst_first",
]


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

    def without_expected(self, findings: tuple[Finding, ...]) -> tuple[Finding, ...]:
        """Return the findings except those that a trial causes or a symptom explains."""
        expected = {
            symptom.slug: prefixes
            for symptom, evidence in self.present
            if (prefixes := (*symptom.expects, *evidence.explains))
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
    findings.sort(key=lambda finding: (finding.severity.rank, finding.slug not in _FACTS))
    return tuple(findings) or tree


def check_symptoms(case: Case) -> SymptomResults:
    """Check every symptom, regardless of the tree's findings."""
    present: list[tuple[Symptom, Evidence]] = []
    not_checked: list[NotChecked] = []
    absent: list[Symptom] = []
    for symptom in SYMPTOMS:
        missing = symptom.missing(case)
        why = "" if missing else symptom.failed_precondition(case)
        evidence = None if missing or why else symptom.check(case)
        if evidence is not None:
            present.append((symptom, _with_changes(case, symptom, evidence)))
        elif missing or (why := why or symptom.inconclusive_reason(case)):
            not_checked.append(NotChecked(symptom=symptom.slug, missing=missing, reason=why))
        else:
            absent.append(symptom)
    return SymptomResults(
        present=tuple(present), not_checked=tuple(not_checked), absent=tuple(absent)
    )


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
