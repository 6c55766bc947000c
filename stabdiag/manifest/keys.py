"""The fields of a manifest: what each wants, and the names that frameworks give it."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


def plain(name: str) -> str:
    """Return a name in the form in which names are compared."""
    return re.sub(r"[^a-z0-9]+", "_", name.strip().lower()).strip("_")


_DTYPES: Mapping[str, tuple[str, ...]] = {
    # O1 to O3 are levels of NVIDIA's apex, mixed_float16 a policy of Keras.
    "fp16": (
        *("fp16", "float16", "half", "16", "f16", "16_mixed", "16_true", "fp16_mixed"),
        *("mixed_fp16", "mixed_float16", "amp_fp16", "o1", "o2", "o3"),
    ),
    "bf16": (
        *("bf16", "bfloat16", "bf16_mixed", "bf16_true", "mixed_bf16", "mixed_bfloat16"),
        "amp_bf16",
    ),
    "fp32": ("fp32", "float32", "float", "32", "32_true", "f32", "single", "tf32", "no", "o0"),
    "fp64": ("fp64", "float64", "double", "64", "64_true", "f64"),
}


def dtype_of(value: object) -> str | None:
    """Return a dtype's own name here, or None for what is none."""
    word = plain(str(value).rpartition("torch.")[2].rpartition("jnp.")[2])
    return next((dtype for dtype, names in _DTYPES.items() if word in names), None)


_SCALED = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)([kKmM])")
_SCALES = {"k": 1e3, "m": 1e6}


def number(value: object) -> float | None:
    """Return a finite number, or None for what is none; fairseq writes one in a list."""
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    if isinstance(value, bool):
        return None
    try:
        read = float(str(value))
    except ValueError:
        return None
    return read if math.isfinite(read) else None


def _count(value: object) -> int | None:
    """Return a whole number, also of ``100k``; Composer counts its steps as ``100ba``."""
    read = number(value.removesuffix("ba") if isinstance(value, str) else value)
    scaled = _SCALED.fullmatch(value.strip()) if isinstance(value, str) else None
    if scaled is not None:
        read = round(float(scaled[1]) * _SCALES[scaled[2].lower()], 6)
    return int(read) if read is not None and read >= 0 and read == int(read) else None


def _positive_count(value: object) -> int | None:
    return _count(value) or None


def _clip(value: object) -> float | None:
    """Return a threshold; null is how a configuration says that there is none."""
    return 0.0 if value is None else number(value)


def _word(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def flag(value: object) -> bool | None:
    """Return true or false, or None for what is neither."""
    if isinstance(value, bool):
        return value
    return {"true": True, "false": False}.get(str(value).lower())


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
        parse=_word,
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
            "peak_lr",
            "lr",
            "learning_rate",
            "max_lr",
            "base_lr",
            "optimizer_params_lr",
            "optimizer_lr",
            "lr0",
        ),
    ),
    Key(
        name="warmup_steps",
        wants="a number of steps",
        parse=_count,
        names=(
            *("warmup_steps", "warmup", "lr_warmup_iters", "warmup_iters", "num_warmup_steps"),
            *("scheduler_params_warmup_num_steps", "warmup_updates", "lr_warmup_steps"),
            "t_warmup",
        ),
    ),
    Key(
        name="total_steps",
        wants="a number of steps",
        parse=_positive_count,
        names=(
            *("total_steps", "max_steps", "train_iters", "max_iters", "num_steps", "steps"),
            *("num_training_steps", "max_update", "max_updates", "train_steps", "training_steps"),
            *("scheduler_params_total_num_steps", "max_duration"),
        ),
    ),
    Key(
        name="schedule",
        wants="a name",
        parse=_word,
        names=(
            *("schedule", "lr_schedule", "lr_scheduler_type", "lr_decay_style", "lr_scheduler"),
            *("scheduler", "scheduler_type", "scheduler_name", "sched_name", "lr_scheduler_name"),
            *("lr_scheduler_target", "scheduler_target"),
        ),
    ),
    Key(
        name="grad_clip",
        wants="a number",
        parse=_clip,
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
        parse=_positive_count,
        names=(
            *("checkpoint_every", "save_interval", "save_steps", "checkpoint_interval"),
            *("ckpt_every", "checkpoint_every_n_steps", "every_n_train_steps", "save_every"),
            *("checkpoint_steps", "save_interval_updates"),
        ),
    ),
    Key(
        name="vocab_size",
        wants="a count",
        parse=_positive_count,
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
        parse=_positive_count,
        names=(
            "batch_size",
            "global_batch_size",
            "train_batch_size",
            "per_device_train_batch_size",
        ),
    ),
    Key(
        name="seed",
        wants="a whole number",
        parse=_count,
        names=("seed", "random_seed", "seed_everything"),
    ),
    Key(
        name="loss_scale_window",
        wants="a number of steps",
        parse=_positive_count,
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
