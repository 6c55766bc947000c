"""Symptoms: failures that a log shows beside the decision tree. One module holds one family."""

from __future__ import annotations

from dataclasses import replace

from stabdiag.model.findings import RATE, ActionKind, Finding, Severity
from stabdiag.model.frozen import frozen
from stabdiag.model.report import NotChecked, skipped
from stabdiag.symptoms import (
    chance,
    curve,
    data,
    first_loss,
    generalisation,
    gradients,
    held_batch,
    layers,
    learning,
    magnitude,
    other_losses,
    precision,
    progress,
    rates,
    recorded,
    reduction,
    resume,
    reward,
    schedule,
    settings,
    spikes,
    stuck,
    throughput,
    trials,
    weights,
)
from stabdiag.symptoms.symptom import Evidence, Symptom
from stabdiag.tree.advice.shared import with_changes_at
from stabdiag.tree.case import Case

# Of equally severe findings, the first in this order is the diagnosis.
SYMPTOMS: tuple[Symptom, ...] = (
    trials.lr_range_test,
    trials.one_batch_test,
    # Facts come first, and of these the ones that spoil every step.
    recorded.loss_of_probabilities,
    recorded.loss_broadcast,
    recorded.gradients_not_zeroed,
    recorded.inputs_nonfinite,
    recorded.not_in_optimizer,
    recorded.optimizer_replaced,
    recorded.log_of_softmax,
    recorded.gradient_of_a_multiple,
    recorded.relu_on_logits,
    recorded.updates_lost,
    recorded.labels_in_order,
    recorded.initial_weights_off,
    recorded.frozen_at_init,
    recorded.batch_norm_of_few,
    recorded.evaluated_in_training_mode,
    recorded.left_in_evaluation_mode,
    recorded.no_gradient,
    stuck.loss_constant,
    chance.plateau_at_chance,
    curve.loss_oscillating,
    learning.not_learning,
    reward.reward_not_rising,
    rates.lr_too_high,
    rates.learning_slow,
    first_loss.initial_loss_off,
    first_loss.softmax_twice,
    curve.plateau_early,
    curve.too_good,
    progress.no_progress,
    progress.score_collapsed,
    progress.score_constant,
    # A loader that is stuck comes before what the model memorised by it.
    data.batch_repeats,
    # An evaluation of something else comes before what its losses seem to say.
    stuck.eval_constant,
    generalisation.overfitting,
    generalisation.overconfident,
    generalisation.eval_rising,
    reduction.train_loss_summed,
    reduction.eval_loss_scaled,
    reduction.eval_far_below_train,
    generalisation.learning_not_transferring,
    generalisation.eval_gap_from_start,
    generalisation.underfitting,
    generalisation.eval_nonfinite,
    other_losses.other_loss_nonfinite,
    other_losses.other_loss_climbing,
    data.epoch_boundary_jump,
    # What a resume changed comes before what followed from it.
    resume.resume_loss_jump,
    spikes.frequent_spikes,
    gradients.grad_nonfinite,
    magnitude.loss_absurd,
    gradients.grad_exploding,
    magnitude.activation_exploding,
    magnitude.attention_logits_growing,
    gradients.grad_vanishing,
    gradients.grad_clip_saturated,
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
    precision.adam_underflow_risk,
    resume.resume_lr_reset,
    resume.resume_data_replayed,
    resume.resume_step_gap,
    spikes.heavy_tailed_loss,
    throughput.straggler,
    throughput.throughput_drop,
    throughput.throughput_sawtooth,
    throughput.data_loading_slow,
    throughput.mfu_low,
    throughput.stall,
    throughput.memory_growth,
    # What the settings alone say comes last.
    settings.setting_unusual,
    # These rest on a statistic of one batch.
    held_batch.dead_from_start,
    held_batch.saturated_from_start,
    held_batch.training_labels_wrong,
    held_batch.ends_at_noise_floor,
)

BY_SLUG = {symptom.slug: symptom for symptom in SYMPTOMS}

_FACTS = frozenset(symptom.slug for symptom in SYMPTOMS if symptom.is_fact)

__all__ = ["BY_SLUG", "SYMPTOMS", "Checked", "Symptom", "check_symptoms", "worst_first"]


@frozen
class Checked:
    """The symptoms that hold with their evidence, those not checked, and those ruled out."""

    held: tuple[tuple[Symptom, Evidence], ...] = ()
    not_checked: tuple[NotChecked, ...] = ()
    held_not: tuple[Symptom, ...] = ()

    def findings(self, found: tuple[Finding, ...], unit: str) -> tuple[Finding, ...]:
        """Return the symptoms as findings, except those that the tree's findings explain."""
        shown = [pair for pair in self.held if not _explained(pair[0], found)]
        present = {symptom.slug for symptom, _ in shown}
        return tuple(
            symptom.finding(evidence, unit)
            for symptom, evidence in shown
            if present.isdisjoint(symptom.yields_to)
        )

    def without_expected(self, findings: tuple[Finding, ...]) -> tuple[Finding, ...]:
        """Return findings except those that a trial was meant to bring about."""
        expected = {symptom.slug: symptom.expects for symptom, _ in self.held if symptom.expects}
        if not expected:
            return findings
        prefixes = tuple(prefix for expects in expected.values() for prefix in expects)
        return tuple(
            finding
            for finding in findings
            if finding.slug in expected or not finding.slug.startswith(prefixes)
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
    """Return all findings, worst first; of equally severe ones facts come first, then the tree's.

    An outcome that says nothing was found stays only where nothing else was. In a run that failed,
    a fact that is a warning by itself is the likely cause, and counts as an error.
    """
    found = [one for one in (*tree, *symptoms) if one.severity is not Severity.OK]
    if any(one.severity is Severity.ERROR and one.slug not in _FACTS for one in found):
        found = [
            replace(one, severity=Severity.ERROR)
            if one.slug in _FACTS and one.severity is Severity.WARNING
            else one
            for one in found
        ]
    return tuple(sorted(found, key=lambda one: (one.severity.rank, one.slug not in _FACTS))) or tree


def check_symptoms(case: Case) -> Checked:
    """Check every symptom, whatever the tree finds."""
    held: list[tuple[Symptom, Evidence]] = []
    not_checked: list[NotChecked] = []
    held_not: list[Symptom] = []
    for symptom in SYMPTOMS:
        missing = symptom.missing(case)
        why = "" if missing else symptom.too_few(case)
        evidence = None if missing or why else symptom.check(case)
        if evidence is not None:
            held.append((symptom, _with_changes(case, symptom, evidence)))
        elif missing or (why := why or symptom.is_open(case)):
            not_checked.append(NotChecked(symptom=symptom.slug, missing=missing, reason=why))
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
