"""What a configuration tells beside the manifest's fields, and under which names.

A check before the launch, the cost of an incident and a comparison each read a little of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from stabdiag.manifest.keys import flag, number, plain

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

# What switches the section on in which it lies.
_SWITCHES = {"enabled", "enable", "enable_checkpoint"}

# What lies in a section of these is not about the training.
_ELSEWHERE = {"eval", "evaluation", "val", "valid", "validation", "test", "inference", "generation"}


def beside(flat: Mapping[str, Any], spelled: Mapping[str, str]) -> Iterator[str]:
    """Yield the full names of the keys that tell something beside the fields.

    Args:
        flat: the values by their full names.
        spelled: the full names by their plain spellings.
    """
    for name in (*EVAL_STRATEGY, SAVE_STRATEGY, DIVISIBLE, SAVING, ARCHITECTURES, PROBLEM):
        if name in spelled:
            yield spelled[name]
    yield from (full for name, full in spelled.items() if name.startswith(_LABELS))
    for name in LOSS_SCALE:
        if name in spelled and (
            flat[spelled[name]] is None or is_static(flat[spelled[name]]) is not None
        ):
            yield spelled[name]
    for names in NUMBERS.values():
        for name in names:
            if name in spelled and number(flat[spelled[name]]) is not None:
                yield spelled[name]


def is_static(scale: object) -> bool | None:
    """Tell whether a loss scale is a fixed one; DeepSpeed writes 0 for a dynamic one."""
    read = number(scale)
    if read is not None:
        return read > 0
    word = str(scale).lower()
    return word == "static" if word in ("static", "dynamic") else None


def spellings(flat: Mapping[str, Any]) -> dict[str, str]:
    """Return the full name of each key by its plain spelling, with and without what it lies in."""
    names: dict[str, str] = {}
    for depth in range(max((name.count(".") for name in flat), default=0) + 1):
        for name in flat:
            parts = name.split(".")
            if depth < len(parts) and not _means_another(parts[:depth], parts[depth]):
                names.setdefault(plain(".".join(parts[depth:])), name)
    return names


def in_force(told: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a configuration tells, without the sections that are switched off.

    ``fp16: {enabled: false, loss_scale: 128}`` tells of no loss scale.
    """
    switches = {name for name in told if name.rpartition(".")[2] in _SWITCHES}
    off = tuple(
        f"{section}."
        for section, _, _ in (
            name.rpartition(".") for name in switches if flag(told[name]) is False
        )
        if section
    )
    return {
        name: value for name, value in told.items() if name in switches or not name.startswith(off)
    }


def _means_another(sections: list[str], name: str) -> bool:
    """Tell whether a name is another's without the sections that it lies in.

    The batch size of an evaluation is not that of the training, nor the epsilon of a norm Adam's.
    """
    words = {word for section in sections for word in plain(section).split("_")}
    told = plain(name)
    if words & _ELSEWHERE and not told.startswith(("eval", "val")):
        return True
    return told in ("eps", "epsilon") and bool(sections) and "norm" in plain(sections[-1])
