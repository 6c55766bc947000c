"""The canonical roles, and the names that frameworks give them."""

from __future__ import annotations

from stabdiag.model.frozen import frozen
from stabdiag.model.roles.settings import OBJECTIVE_SETTINGS, OTHER_SETTINGS
from stabdiag.model.text import word_list

_ACCURACIES = "accuracy acc top1 acc1"
_EVALUATION_PREFIXES = ("eval", "val", "valid", "validation", "test", "dev")

_BEST_KNOWN = ("seq_len", "stage", "dataset", "batch_size", "weight_decay", "dropout")


@frozen(eq=True)
class Role:
    """A role, and the names of its columns, preferred ones first.

    Names are compared in lower case, with each run of other characters as one ``_``. A role with
    groups (``weight_norm/<group>``) also takes any name that begins with one of ``prefixes``.
    ``training`` roles are measured in a training step, unlike evaluations and clocks. A role that
    takes ``several`` columns has one series per column, under its own name: ``setting/seq_len``.
    """

    name: str
    meaning: str
    names: tuple[str, ...]
    prefixes: tuple[str, ...] = ()
    training: bool = True
    several: bool = False

    @property
    def shown(self) -> str:
        """The role as it is written where columns are named: ``weight_norm/<group>``."""
        if self.several:
            return f"{self.name}/<name>"
        return f"{self.name}/<group>" if self.prefixes else self.name


def _role(name: str, meaning: str, names: str, *, prefixes: str = "", **options: bool) -> Role:
    split_names, split_prefixes = word_list(names), word_list(prefixes)
    return Role(name=name, meaning=meaning, names=split_names, prefixes=split_prefixes, **options)


ROLES: tuple[Role, ...] = (
    # Stable-Baselines dates its events, and names checkpoints, by the environment's steps.
    _role(
        "step",
        "optimizer step",
        "step global_step trainer_global_step train_global_step _step iteration iter num_updates "
        "update updates train_step steps optimizer_step n_iter num_iters iterations iter_num itr s "
        "time_total_timesteps misc_total_timesteps total_timesteps current_steps train_n_updates "
        "n_updates misc_nupdates nupdates time_iterations global_step_max_steps "
        "training_iteration iters iteration_step it itn counter example_counter",
    ),
    _role(
        "epoch",
        "epoch, episode or round, serves as step where there is none",
        "epoch episode epochs ep round rounds communication_round generation generations game "
        "games n_games num_games games_played",
        training=False,
    ),
    # The one metric of a file that holds no other is called ``main_loss`` or ``value``.
    _role(
        "loss",
        "training loss",
        "loss train_loss training_loss train_loss_step lm_loss loss_train_total train_ce_loss "
        "loss_metrics_global_avg_loss reduced_train_loss total_loss train_total_loss loss_train "
        "loss_total ce_loss train_lm_loss cross_entropy nll_loss train_loss_epoch trl epoch_loss "
        "train_epoch_loss batch_loss train_batch_loss all_loss loss_all main_loss value "
        "metric_value",
    ),
    # The first ones are logged next to the norm after clipping; terse logs print ``gn``.
    _role(
        "grad_norm",
        "norm of the gradient before clipping",
        "raw_grad_norm grad_norm_before_clip grad_norm_unclipped gradient_norm_before_clip "
        "gradient_norm_unclipped unclipped_grad_norm grad_norm train_grad_norm gradient_norm "
        "gnorm global_grad_norm total_grad_norm grad_norm_total optim_total_grad_norm "
        "l2_norm_grad_global gradnorm train_gradient_norm grad_2_0_norm_total "
        "train_global_grad_norm global_norm norm g_norm l2_grads grad_gnorm "
        "gradients_default_optimizer_global_norm grad gn grads_norm grdn total_norm "
        "train_total_norm gradients_norm norm_grad grad_l2 grad_l2_norm global_gradient_norm "
        "grad_global_norm avg_grad_norm mean_grad_norm grad_norm_preclip sum_grad_norm "
        "sum_gradnorm l2_grad",
        prefixes="grad_norm l2_norm_grad gradient_norm",
    ),
    _role(
        "lr",
        "learning rate",
        "lr learning_rate train_learning_rate train_lr current_lr lr_0 lr_group0 optim_lr "
        "train_samples_lr x_lr0 learningrate optim_learning_rate_group_0 epoch_learning_rate "
        "train_epoch_learning_rate batch_learning_rate current_learning_rate cur_lr lrate "
        "learn_rate",
    ),
    # What DeepSpeed says itself holds more than what a framework above it prints. Training scripts
    # of their own name scaler.get_scale() in many ways.
    _role(
        "loss_scale",
        "loss scale of fp16 training",
        "attempted_loss_scale loss_scale train_loss_scale amp_loss_scale "
        "train_samples_loss_scale grad_scale scaler_scale lossscale grad_scaler_scale amp_scale "
        "loss_scaler amp_scaler fp16_grad_scale fp16_loss_scale fp16_scale scaler grad_scaler "
        "gradient_scale gradient_scaler gradient_scaler_scale scale ls "
        "dynamic_loss_scale",
    ),
    _role(
        "loss_weight",
        "weight of a part of the loss, as of the KL term of a VAE",
        "loss_weight kl_weight kl_coef kl_coeff kl_beta beta_kl beta kld_weight kl_scale "
        "kl_factor kl_lambda lambda_kl vae_beta kl_anneal kl_annealing anneal_factor "
        "annealing_factor anneal_weight",
        training=False,
    ),
    _role(
        "weight_norm",
        "norm of the weights, one column per group",
        "weight_norm param_norm params_norm train_param_norm weights_norm l2_params p_norm "
        "parameter_norm l2_norm_params w_norm",
        prefixes="weight_norm param_norm params_norm l2_norm_param weights_norm",
    ),
    _role(
        "batch_id",
        "the batch that the step was trained on",
        "batch_id batch_index batch_idx batch_hash train_batch_id",
    ),
    _role(
        "skipped",
        "steps that the scaler skipped",
        "skipped number_of_skipped_iterations optim_step_skipped skipped_steps skipped_step",
    ),
    _role(
        "clip_count",
        "updates that were clipped, or whether this one was",
        "clip_counts clip_count clipped_steps clipped_updates num_clipped n_clipped "
        "grad_clip_count grad_clipped clipped",
    ),
    _role(
        "tokens_per_second",
        "throughput",
        "tokens_per_second tokens_per_sec tokens_sec tokens_s tok_s tok_sec toks_s "
        "tok_per_sec throughput throughput_tps tps "
        "wps train_samples_per_second samples_per_second throughput_device_tps "
        "tokens_per_second_per_gpu per_device_tokens_per_sec",
    ),
    _role(
        "activation_norm",
        "size of the activations, one column per group",
        "activation_norm activation_max max_activation act_norm act_max max_act",
        prefixes="activation_norm activation_max max_activation activations act_norm act_max "
        "max_act",
    ),
    _role(
        "update_ratio",
        "size of the updates relative to the weights, one column per group",
        "update_ratio update_to_weight_ratio update_weight_ratio update_to_data",
        prefixes="update_ratio update_to_weight_ratio update_weight_ratio",
        training=False,
    ),
    _role(
        "update_norm",
        "norm of the updates, one column per group",
        "update_norm updates_norm norm_of_update param_update_norm",
        prefixes="update_norm",
        training=False,
    ),
    _role(
        "moved_fraction",
        "fraction of the weights that a step changed, one column per group",
        "moved_fraction",
        prefixes="moved_fraction",
        training=False,
    ),
    _role(
        "recorder",
        "what stabdiag.torch found of model, loss, optimizer and batches, one column per fact",
        "recorder_fact",
        prefixes="recorder",
        training=False,
    ),
    _role(
        "dead_fraction",
        "fraction of neurons always at zero, one column per group",
        "dead_fraction dead_neurons dead_neuron_fraction dead_relu_fraction",
        prefixes="dead_fraction dead_neurons dead_neuron_fraction dead_relu_fraction",
        training=False,
    ),
    _role(
        "saturated_fraction",
        "fraction of activations at their bound, one column per group",
        "saturated_fraction activation_saturation",
        prefixes="saturated_fraction saturation activation_saturation",
        training=False,
    ),
    _role(
        "attention_entropy",
        "entropy of attention, one column per layer or head",
        "attention_entropy attn_entropy",
        prefixes="attention_entropy attn_entropy",
        training=False,
    ),
    _role(
        "max_attention_logit",
        "largest logit of attention, one column per layer",
        "max_attention_logit max_attn_logit attn_logits_max max_logits max_attn_logits "
        "attn_max_logit attn_logit_max attention_logits_max max_qk_logit attention_logit_max "
        "attention_max_logit max_attention_logits attention_logits_max_abs attn_logits_max_abs "
        "qk_logit_max qk_max_logit max_qk_logits",
        prefixes="max_attention_logit max_attn_logit attention_logits_max attn_logits_max "
        "max_attn_logits attn_max_logit attn_logit_max attention_logit_max attention_max_logit "
        "max_attention_logits max_qk_logit qk_logit_max",
    ),
    _role(
        "amax",
        "largest value that a tensor in fp8 or fp4 scales by, one column per tensor",
        "amax fp8_amax max_amax",
        prefixes="amax fp8_amax",
    ),
    _role(
        "underflow_fraction",
        "fraction of values that became zero in fp8 or fp4, one column per tensor",
        "underflow underflow_fraction underflow_share underflow_rate underflow_ratio",
        prefixes="underflow underflow_fraction underflow_share underflow_rate",
    ),
    _role(
        "load_balance",
        "loss or imbalance of a router of experts, one column per layer",
        "load_balance load_balancing_loss load_balance_loss router_aux_loss moe_aux_loss "
        "aux_loss load_imbalance router_z_loss",
        prefixes="load_balancing_loss load_balance tokens_per_expert",
    ),
    _role(
        "policy_kl",
        "divergence of a policy from the one before, or from its reference",
        "approx_kl train_approx_kl kl mean_kl policy_kl ppo_kl kl_mean actor_ppo_kl objective_kl "
        "losses_approx_kl kl_divergence",
    ),
    _role(
        "policy_entropy",
        "entropy of a policy",
        "policy_entropy entropy actor_entropy objective_entropy train_entropy policy_entropy_avg "
        "losses_entropy entropy_loss train_entropy_loss",
    ),
    _role(
        "clip_fraction",
        "fraction of samples whose update a policy clips",
        "clip_fraction clipfrac train_clip_fraction losses_clipfrac policy_clipfrac_avg "
        "actor_pg_clipfrac clip_ratio",
    ),
    _role(
        "accuracy",
        "fraction of the training examples that are right",
        f"{_ACCURACIES} train_accuracy train_acc train_acc1 train_top1 mean_token_accuracy "
        "global_accuracy token_accuracy token_acc epoch_accuracy epoch_acc acc_1 prec1 prec_1 "
        "categorical_accuracy sparse_categorical_accuracy binary_accuracy main_accuracy",
        training=False,
    ),
    _role(
        "eval_accuracy",
        "fraction of the held-out examples that are right",
        " ".join(
            f"{split}_{name}" for split in _EVALUATION_PREFIXES for name in word_list(_ACCURACIES)
        )
        + " validation_main_accuracy",
        training=False,
    ),
    _role(
        "reward",
        "reward or return of reinforcement learning",
        "reward mean_reward reward_mean avg_reward average_reward rewards episode_reward "
        "episode_reward_mean mean_episode_reward ep_reward train_reward total_reward "
        "running_reward rollout_reward ep_rew_mean rollout_ep_rew_mean eprewmean "
        "critic_rewards_mean episode_return episode_return_mean mean_episode_return ep_return "
        "episodic_return charts_episodic_return mean_return average_return avg_return "
        "return_mean averageepret average_ep_ret ep_ret objective_rlhf_reward ppo_mean_scores "
        "critic_score_mean rewards_step rewards_iter",
        training=False,
    ),
    _role(
        "step_time",
        "time per step, in any unit",
        "step_time train_time iter_time iteration_time time_per_step time_per_iteration "
        "seconds_per_step step_time_s step_time_ms train_step_time batch_time "
        "elapsed_time_per_iteration_ms train_iter_time step_time_seconds time time_ms dt_ms "
        "per_step_time_ms iteration_time_ms iter_time_ms total_time",
        training=False,
    ),
    _role(
        "data_time",
        "time that a step waits for its data, in the unit of the step's time",
        "data_time data_loading_time data_load_time dataload_time dataloader_time loader_time "
        "data_wait_time data_wait time_data data_s data_ms data_time_s data_time_ms "
        "batch_wait_time train_data_time",
        training=False,
    ),
    _role(
        "rank_time",
        "time per step of each rank, such as step_time/rank_3, or of the fastest and the slowest",
        "rank_time",
        prefixes="rank_time",
        training=False,
    ),
    _role(
        "rank_speed",
        "throughput of each rank, or the least and the median score of all",
        "rank_speed",
        prefixes="rank_speed gpu_relative_perf",
        training=False,
    ),
    _role(
        "rank",
        "rank that wrote the record, where several write one log",
        "rank global_rank local_rank rank_id worker worker_id process_index pid process_id env_id",
        training=False,
    ),
    _role(
        "clock",
        "time of the record, in seconds",
        "timestamp _timestamp wall_time elapsed_time _runtime time_elapsed time_time_elapsed "
        "elapsed_seconds elapsed datetime date_time ts time_stamp walltime wall_clock_time "
        "created_at logged_at date",
        training=False,
    ),
    _role(
        "mfu",
        "fraction of the accelerator's peak FLOP/s",
        "mfu train_mfu throughput_device_mfu mfu_percent perf_mfu",
        training=False,
    ),
    _role(
        "memory",
        "accelerator memory in use",
        "memory gpu_memory memory_allocated gpu_memory_allocated memory_gb max_memory_allocated "
        "peak_memory memory_max_reserved_gib gpu_mem memory_current_allocated_mem max_mem "
        "memory_mb peak_memory_active memory_max_active_gib gpu_memory_gb gpu_memory_mb "
        "gpu_mem_gb memory_allocated_gb max_memory_gb cuda_memory cuda_memory_gb memory_used",
        training=False,
    ),
    _role(
        "eval_loss",
        "loss on held-out data",
        "eval_loss val_loss valid_loss validation_loss vali_loss test_loss lm_loss_validation "
        "validation_metrics_loss loss_eval_total dev_loss lm_loss_value tel validate_loss "
        "evaluation_loss cv_loss",
        training=False,
    ),
    _role(
        "score",
        "a score whose better direction is known: F1, mAP, BLEU up; WER, perplexity, FID down",
        "f1 map bleu dice iou auc psnr wer cer perplexity fid",
        training=False,
        several=True,
    ),
    _role(
        "other_loss",
        "a loss of the training next to the diagnosed one: a component, a KL term",
        "kl_loss recon_loss reg_loss",
        several=True,
    ),
    _role(
        "failed_value",
        "a value without another role that is not finite at the end of the run",
        "",
        several=True,
    ),
    _role(
        "setting",
        "a training setting that changes during the run",
        " ".join(dict.fromkeys((*_BEST_KNOWN, *OBJECTIVE_SETTINGS, *OTHER_SETTINGS))),
        training=False,
        several=True,
    ),
)
