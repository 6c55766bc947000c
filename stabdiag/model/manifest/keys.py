"""The fields of a manifest: what each wants, and the names that frameworks give it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from stabdiag.model.manifest.values import clip, count, dtype_of, flag, number, positive_count, word

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True, kw_only=True)
class Key:
    """One field of the manifest, what it wants, and the names that frameworks give it."""

    name: str
    wants: str
    parse: Callable[[object], Any]
    names: tuple[str, ...]


KEYS: tuple[Key, ...] = (
    Key(
        name="dtype",
        wants="fp16, bf16 or fp32",
        parse=dtype_of,
        names=(
            *("dtype", "precision", "mixed_precision", "torch_dtype", "param_dtype"),
            *("compute_dtype", "amp_dtype", "training_dtype", "autocast_dtype"),
            *("params_dtype", "mixed_precision_param", "opt_level", "amp_opt_level"),
        ),
    ),
    Key(
        name="optimizer",
        wants="a name",
        parse=word,
        names=(
            *("optimizer", "optim", "optimizer_type", "optimizer_name", "optim_name"),
            *("optimizer_class_path", "optimizer_class_name", "optimizer_component"),
            "optimizer_target",
        ),
    ),
    Key(
        name="peak_lr",
        wants="a number",
        parse=number,
        names=(
            *("peak_lr", "lr", "learning_rate", "max_lr", "base_lr", "optimizer_params_lr"),
            *("optimizer_lr", "lr0"),
        ),
    ),
    Key(
        name="warmup_steps",
        wants="a number of steps",
        parse=count,
        names=(
            *("warmup_steps", "warmup", "lr_warmup_iters", "warmup_iters", "num_warmup_steps"),
            *("scheduler_params_warmup_num_steps", "warmup_updates", "lr_warmup_steps"),
            "t_warmup",
        ),
    ),
    Key(
        name="total_steps",
        wants="a number of steps",
        parse=positive_count,
        names=(
            *("total_steps", "max_steps", "train_iters", "max_iters", "num_steps", "steps"),
            *("num_training_steps", "max_update", "max_updates", "train_steps", "training_steps"),
            *("scheduler_params_total_num_steps", "max_duration"),
        ),
    ),
    Key(
        name="schedule",
        wants="a name",
        parse=word,
        names=(
            *("schedule", "lr_schedule", "lr_scheduler_type", "lr_decay_style", "lr_scheduler"),
            *("scheduler", "scheduler_type", "scheduler_name", "sched_name", "lr_scheduler_name"),
            *("lr_scheduler_target", "scheduler_target"),
        ),
    ),
    Key(
        name="grad_clip",
        wants="a number",
        parse=clip,
        names=(
            *("grad_clip", "clip_grad", "max_grad_norm", "gradient_clipping", "clip_norm"),
            *("gradient_clip_val", "clip", "grad_clip_norm", "gradient_clip", "max_norm"),
            *("clipping_threshold", "clip_grad_norm", "grad_norm_clip", "gradient_clip_norm"),
        ),
    ),
    Key(
        name="weight_decay",
        wants="a number",
        parse=number,
        names=("weight_decay", "wd", "optimizer_params_weight_decay", "optimizer_weight_decay"),
    ),
    Key(
        name="epsilon",
        wants="a number",
        parse=number,
        # Beside Adam's own, what TRL calls epsilon is how far a policy may move.
        names=("adam_epsilon", "adam_eps", "optimizer_params_eps", "epsilon", "eps"),
    ),
    Key(
        name="checkpoint_every",
        wants="a number of steps",
        parse=positive_count,
        names=(
            *("checkpoint_every", "save_interval", "save_steps", "checkpoint_interval"),
            *("ckpt_every", "checkpoint_every_n_steps", "every_n_train_steps", "save_every"),
            *("checkpoint_steps", "save_interval_updates"),
        ),
    ),
    Key(
        name="checkpoints_kept",
        wants="a count",
        parse=positive_count,
        names=(
            *("checkpoints_kept", "save_total_limit", "checkpoints_total_limit", "max_to_keep"),
            *("keep_last_n_checkpoints", "num_checkpoints_to_keep", "keep_latest_k"),
        ),
    ),
    Key(
        name="vocab_size",
        wants="a count",
        parse=positive_count,
        # Megatron has a number of classes in every configuration, also of a language model.
        names=("vocab_size", "model_vocab_size", "n_vocab", "padded_vocab_size", "num_classes"),
    ),
    Key(
        name="target_loss",
        wants="a number",
        parse=number,
        names=("target_loss", "expected_loss", "loss_target"),
    ),
    Key(
        name="batch_size",
        wants="a count",
        parse=positive_count,
        names=(
            *("batch_size", "global_batch_size", "train_batch_size"),
            "per_device_train_batch_size",
        ),
    ),
    Key(
        name="seed",
        wants="a whole number",
        parse=count,
        names=("seed", "random_seed", "seed_everything"),
    ),
    Key(
        name="loss_scale_window",
        wants="a number of steps",
        parse=positive_count,
        names=(
            *("loss_scale_window", "growth_interval", "fp16_loss_scale_window"),
            *("fp16_scale_window", "scale_window", "scaler_growth_interval"),
            "grad_scaler_growth_interval",
        ),
    ),
    Key(
        name="loss_scale_min",
        wants="a number",
        parse=number,
        names=("loss_scale_min", "min_loss_scale", "fp16_min_loss_scale"),
    ),
    Key(
        name="static_loss_scale",
        wants="true or false",
        parse=flag,
        names=("static_loss_scale", "static_scale"),
    ),
)
