"""Every symptom, in the order of precedence: a row for each."""

from __future__ import annotations

from stabdiag.symptoms.data import batches, spikes
from stabdiag.symptoms.generalization import overfitting, reduction, transfer
from stabdiag.symptoms.gradients import clipping, gradient_norms, layers
from stabdiag.symptoms.learning import (
    adversarial,
    chance,
    constant_scores,
    cross_entropy,
    curve,
    first_loss,
    latent,
    not_learning,
    other_losses,
    progress,
    rates,
    recovered,
    reward,
    scores,
    stuck,
    trials,
)
from stabdiag.symptoms.overflow import precision
from stabdiag.symptoms.recorded import held_batch, inputs, loss_function, modes, parameters, ranks
from stabdiag.symptoms.resume import resume
from stabdiag.symptoms.schedule import schedule, settings, warmup
from stabdiag.symptoms.symptom import Symptom
from stabdiag.symptoms.throughput import stalls, throughput
from stabdiag.symptoms.weights import activations, implausible, magnitude, weight_norms

# If several findings are equally severe, the first in this order is the diagnosis.
SYMPTOMS: tuple[Symptom, ...] = (
    trials.lr_range_test,
    trials.one_batch_test,
    # Facts come first, starting with those that affect every step.
    loss_function.loss_of_probabilities,
    loss_function.loss_broadcast,
    loss_function.gradients_not_zeroed,
    inputs.inputs_nonfinite,
    ranks.ranks_differ,
    parameters.not_in_optimizer,
    parameters.optimizer_replaced,
    loss_function.log_of_softmax,
    loss_function.gradient_of_a_multiple,
    loss_function.relu_on_logits,
    parameters.updates_lost,
    inputs.inputs_rescaled,
    inputs.labels_in_order,
    ranks.ranks_share_batches,
    parameters.initial_weights_off,
    parameters.frozen_at_init,
    modes.batch_norm_of_few,
    modes.evaluated_in_training_mode,
    modes.left_in_evaluation_mode,
    parameters.no_gradient,
    stuck.loss_constant,
    chance.plateau_at_chance,
    # The cause of a reconstruction that does not learn.
    latent.kl_collapsed,
    curve.loss_oscillating,
    not_learning.not_learning,
    reward.reward_not_rising,
    reward.policy_entropy_collapsed,
    reward.policy_drifts,
    rates.lr_too_high,
    rates.learning_slow,
    first_loss.initial_loss_off,
    cross_entropy.softmax_twice,
    curve.plateau_early,
    curve.too_good,
    cross_entropy.loss_negative,
    progress.no_progress,
    scores.score_collapsed,
    constant_scores.score_constant,
    # A stuck loader comes before the memorization that it causes.
    batches.batch_repeats,
    # An evaluation of the wrong model comes before conclusions from its losses.
    stuck.eval_constant,
    overfitting.overfitting,
    overfitting.overconfident,
    overfitting.eval_rising,
    reduction.train_loss_summed,
    reduction.eval_loss_scaled,
    reduction.eval_far_below_train,
    transfer.eval_equals_train,
    transfer.learning_not_transferring,
    transfer.eval_gap_from_start,
    overfitting.underfitting,
    overfitting.eval_nonfinite,
    other_losses.other_loss_nonfinite,
    other_losses.other_loss_rising,
    adversarial.discriminator_wins,
    batches.epoch_boundary_jump,
    batches.epoch_pattern,
    # A change at a resume comes before its consequences.
    resume.resume_loss_jump,
    spikes.frequent_spikes,
    gradient_norms.grad_nonfinite,
    implausible.loss_implausible,
    gradient_norms.grad_exploding,
    magnitude.activation_exploding,
    magnitude.attention_logits_growing,
    gradient_norms.grad_vanishing,
    clipping.grad_clip_saturated,
    gradient_norms.grad_layer_outlier,
    layers.grad_vanishing_by_depth,
    layers.group_frozen,
    magnitude.norm_jump,
    weight_norms.weight_norm_runaway,
    weight_norms.weight_norm_shrinking,
    weight_norms.update_ratio_off,
    activations.dead_neurons,
    activations.activation_saturated,
    activations.attention_entropy_collapse,
    warmup.lr_no_warmup,
    warmup.lr_warmup_mismatch,
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
