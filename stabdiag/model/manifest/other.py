"""What a configuration tells besides the manifest's fields, and under which names.

A check before the launch, the cost of an incident and a comparison each read a little of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from stabdiag.model.manifest.values import number

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


NUMBERS: Final[Mapping[str, tuple[str, ...]]] = {
    "eval_every": (
        *("eval_every", "eval_interval", "eval_steps", "val_check_interval", "eval_freq"),
        *("validation_interval", "validate_interval_updates", "evaluation_interval"),
    ),
    # The HF Trainer's: every so many steps a record of training is written.
    "log_every": ("logging_steps",),
    "schedule_steps": (
        *("schedule_steps", "lr_decay_iters", "lr_decay_steps", "decay_steps", "t_max"),
        *("scheduler_total_steps", "scheduler_num_training_steps"),
    ),
    "warmup_share": ("warmup_ratio", "lr_warmup_fraction", "warmup_fraction", "pct_start"),
    "epochs": ("num_train_epochs", "max_epochs", "num_epochs", "epochs"),
    "steps_per_epoch": (
        *("steps_per_epoch", "num_steps_per_epoch", "iters_per_epoch", "iterations_per_epoch"),
        *("batches_per_epoch", "num_batches_per_epoch", "num_update_steps_per_epoch"),
    ),
    # The number of tokens in one sequence.
    "sequence_length": (
        *("seq_len", "seq_length", "sequence_length", "max_seq_len", "max_seq_length"),
        "sequence_len",
        *("block_size", "context_length", "context_len", "max_length"),
    ),
    # The number of a process; one on each node that counts from 0 is no rank.
    "rank": ("rank", "global_rank", "process_index", "process_rank", "dist_rank"),
}
EVAL_STRATEGY: Final = ("eval_strategy", "evaluation_strategy")
SAVE_STRATEGY: Final = "save_strategy"
LOSS_SCALE: Final = ("fp16_loss_scale", "loss_scale", "loss_scaling")
DIVISIBLE: Final = "make_vocab_size_divisible_by"
# Lightning's: no checkpoints are written then, however often one would be.
SAVING: Final = "enable_checkpointing"
# What autocasting computes in, beside weights of another type.
AUTOCAST: Final = (
    *("mixed_precision", "mixed_precision_param", "amp_dtype", "autocast_dtype"),
    *("opt_level", "amp_opt_level"),
)

# The HF library's: what a model is, what a classifier learns, and its labels, one key for each.
ARCHITECTURES: Final = "architectures"
PROBLEM: Final = "problem_type"
ONE_LABEL: Final = "single_label_classification"
LABEL: Final = r"id2label_\d{1,6}"
_LABELS: Final = ("id2label_", "label2id_")


def others(told: Mapping[str, Any]) -> Iterator[str]:
    """Yield the names, plainly spelled, of settings that are understood besides the fields."""
    for name in (*EVAL_STRATEGY, SAVE_STRATEGY, DIVISIBLE, SAVING, ARCHITECTURES, PROBLEM):
        if name in told:
            yield name
    yield from (name for name in told if name.startswith(_LABELS))
    for name in LOSS_SCALE:
        if name in told and (told[name] is None or is_static(told[name]) is not None):
            yield name
    for names in NUMBERS.values():
        for name in names:
            if name in told and number(told[name]) is not None:
                yield name


def other_number(told: Mapping[str, Any], field: str) -> float | None:
    """Return the number told under one of the names of an entry of ``NUMBERS``, or None."""
    read = (number(told[name]) for name in NUMBERS[field] if name in told)
    return next((one for one in read if one is not None), None)


def is_static(scale: object) -> bool | None:
    """Tell whether a loss scale is a fixed one; DeepSpeed writes 0 for a dynamic one."""
    read = number(scale)
    if read is not None:
        return read > 0
    word = str(scale).lower()
    return word == "static" if word in ("static", "dynamic") else None


def saves_by_epoch(told: Mapping[str, Any]) -> bool:
    """Tell whether a checkpoint ends each epoch, by the HF Trainer's strategy of saving."""
    return strategy_of(told.get(SAVE_STRATEGY, "")) == "epoch"


def strategy_of(setting: object) -> str:
    """Return when the HF Trainer does something: ``steps``, ``epoch``, ``no`` or ``best``."""
    return str(setting).lower().rpartition(".")[2]
