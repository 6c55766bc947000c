"""The keys of a configuration: their spellings in frameworks and their expected values."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from stabdiag.model.frozen import frozen
from stabdiag.model.manifest.parsing import (
    clip,
    count,
    flag,
    number,
    parse_dtype,
    plain,
    positive_count,
    steps,
    word,
)
from stabdiag.model.text import word_list

# Sections with these words do not describe the training.
_OTHER_SECTIONS = {
    "eval",
    "evaluation",
    "val",
    "valid",
    "validation",
    "test",
    "inference",
    "generation",
    "profiler",
}

# Maximum nesting: deeper mappings stay one value, with their section in each spelling.
MAX_SETTING_DEPTH = 20


def spellings(flat: Mapping[str, Any]) -> dict[str, str]:
    """Return the full name of each key by its plain spellings, with and without its sections."""
    names: dict[str, str] = {}
    split = {name: name.split(".") for name in flat}
    for depth in range(min(max(map(len, split.values()), default=0), MAX_SETTING_DEPTH + 1)):
        for name, parts in split.items():
            if depth < len(parts) and not _has_other_meaning(parts[:depth], parts[depth]):
                names.setdefault(plain(".".join(parts[depth:])), name)
    return names


def by_spelling(flat: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of a configuration by the plain spellings of their names."""
    return {name: flat[full] for name, full in spellings(flat).items()}


def _has_other_meaning(sections: list[str], name: str) -> bool:
    """Return True if a name has another meaning without its sections.

    Examples: the batch size of an evaluation, the epsilon of a norm layer, and the rank of a
    low-rank adapter.
    """
    if not sections:
        return False
    words = {word for section in sections for word in plain(section).split("_")}
    key = plain(name)
    if words & _OTHER_SECTIONS and not key.startswith(("eval", "val")):
        return True
    section = plain(sections[-1])
    return (key in ("eps", "epsilon") and "norm" in section) or (key == "rank" and "lora" in words)


@frozen(eq=True)
class Key:
    """One field of the manifest, what it wants, and the names that frameworks give it."""

    name: str
    wants: str
    parse: Callable[[object], Any]
    names: tuple[str, ...]


def _key(name: str, wants: str, parse: Callable[[object], Any], names: str) -> Key:
    return Key(name=name, wants=wants, parse=parse, names=word_list(names))


KEYS: tuple[Key, ...] = (
    _key(
        "dtype",
        "fp16, bf16, fp8 or fp32",
        parse_dtype,
        "dtype precision mixed_precision torch_dtype param_dtype compute_dtype amp_dtype "
        "training_dtype autocast_dtype params_dtype mixed_precision_param opt_level "
        "amp_opt_level",
    ),
    _key(
        "optimizer",
        "a name",
        word,
        "optimizer optim optimizer_type optimizer_name optim_name optimizer_class_path "
        "optimizer_class_name optimizer_component optimizer_target",
    ),
    _key(
        "peak_lr",
        "a number",
        number,
        "peak_lr lr learning_rate max_lr base_lr optimizer_params_lr optimizer_lr lr0 "
        "initial_learning_rate",
    ),
    _key(
        "warmup_steps",
        "a number of steps",
        count,
        "warmup_steps warmup lr_warmup_iters warmup_iters num_warmup_steps "
        "scheduler_params_warmup_num_steps warmup_updates lr_warmup_steps t_warmup",
    ),
    _key(
        "total_steps",
        "a number of steps",
        positive_count,
        "total_steps max_steps train_iters max_iters num_steps steps num_training_steps "
        "max_update max_updates train_steps training_steps scheduler_params_total_num_steps "
        "max_duration",
    ),
    _key(
        "schedule",
        "a name",
        word,
        "schedule lr_schedule lr_scheduler_type lr_decay_style lr_scheduler scheduler "
        "scheduler_type scheduler_name sched_name lr_scheduler_name lr_scheduler_target "
        "scheduler_target",
    ),
    _key(
        "grad_clip",
        "a number",
        clip,
        "grad_clip clip_grad max_grad_norm gradient_clipping clip_norm gradient_clip_val clip "
        "grad_clip_norm gradient_clip max_norm clipping_threshold clip_grad_norm grad_norm_clip "
        "gradient_clip_norm",
    ),
    _key(
        "weight_decay",
        "a number",
        number,
        "weight_decay wd optimizer_params_weight_decay optimizer_weight_decay",
    ),
    # Adam's epsilon comes first: in TRL, epsilon is the clip range of a policy.
    _key(
        "epsilon",
        "a number",
        number,
        "adam_epsilon adam_eps optimizer_params_eps opt_eps epsilon eps",
    ),
    _key(
        "checkpoint_every",
        "a number of steps",
        positive_count,
        "checkpoint_every save_interval save_steps checkpoint_interval ckpt_every "
        "checkpoint_every_n_steps every_n_train_steps save_every checkpoint_steps "
        "save_interval_updates",
    ),
    _key(
        "checkpoints_kept",
        "a count",
        positive_count,
        "checkpoints_kept save_total_limit checkpoints_total_limit max_to_keep "
        "keep_last_n_checkpoints num_checkpoints_to_keep keep_latest_k",
    ),
    _key("checkpoints", "steps such as 100,200", steps, "checkpoints"),
    # Megatron has a number of classes in every configuration, also of a language model.
    _key(
        "vocab_size",
        "a count",
        positive_count,
        "vocab_size model_vocab_size n_vocab padded_vocab_size num_classes n_classes nb_classes "
        "number_of_classes num_labels",
    ),
    _key("target_loss", "a number", number, "target_loss expected_loss loss_target"),
    _key(
        "batch_size",
        "a count",
        positive_count,
        "batch_size global_batch_size train_batch_size per_device_train_batch_size",
    ),
    _key("seed", "a whole number", count, "seed random_seed seed_everything"),
    _key(
        "loss_scale_window",
        "a number of steps",
        positive_count,
        "loss_scale_window growth_interval fp16_loss_scale_window fp16_scale_window scale_window "
        "scaler_growth_interval grad_scaler_growth_interval",
    ),
    _key("loss_scale_min", "a number", number, "loss_scale_min min_loss_scale fp16_min_loss_scale"),
    _key("static_loss_scale", "true or false", flag, "static_loss_scale static_scale"),
)


# Settings without a field, used by pre-flight checks, the cost of an incident and comparisons.
NUMBERS: Final = {
    name: word_list(names)
    for name, names in {
        "eval_every": (
            "eval_every eval_interval eval_steps val_check_interval eval_freq validation_interval "
            "validate_interval_updates evaluation_interval"
        ),
        # The HF Trainer's: the steps between two records of training.
        "log_every": "logging_steps",
        "schedule_steps": (
            "schedule_steps lr_decay_iters lr_decay_steps decay_steps t_max scheduler_total_steps "
            "scheduler_num_training_steps"
        ),
        "warmup_share": "warmup_ratio lr_warmup_fraction warmup_fraction pct_start",
        "epochs": "num_train_epochs max_epochs num_epochs epochs",
        "steps_per_epoch": (
            "steps_per_epoch num_steps_per_epoch iters_per_epoch iterations_per_epoch "
            "batches_per_epoch num_batches_per_epoch num_update_steps_per_epoch"
        ),
        # The number of micro-batches in one step.
        "accumulated_batches": (
            "gradient_accumulation_steps accumulate_grad_batches grad_accum_steps grad_accum "
            "gradient_accumulation grad_accumulation accumulation_steps"
        ),
        # The number of tokens in one sequence.
        "sequence_length": (
            "seq_len seq_length sequence_length max_seq_len max_seq_length sequence_len "
            "block_size context_length context_len max_length"
        ),
        "momentum": "momentum sgd_momentum optimizer_momentum optimizer_params_momentum",
        "label_smoothing": "label_smoothing label_smoothing_factor smoothing",
        "dropout": (
            "dropout dropout_rate dropout_p dropout_prob hidden_dropout hidden_dropout_prob "
            "resid_pdrop embd_pdrop attention_dropout drop_rate"
        ),
        # The global number of a process; a number per node is not a rank.
        "rank": "rank global_rank process_index process_rank dist_rank",
    }.items()
}
EVAL_STRATEGY: Final = ("eval_strategy", "evaluation_strategy")
SAVE_STRATEGY: Final = "save_strategy"
LOSS_SCALE: Final = ("fp16_loss_scale", "loss_scale", "loss_scaling")
DIVISIBLE: Final = "make_vocab_size_divisible_by"
# Lightning: no checkpoints are written if this is off, regardless of the interval.
SAVING: Final = "enable_checkpointing"
# The dtype of autocasting, which may differ from the dtype of the weights.
AUTOCAST: Final = word_list(
    "mixed_precision mixed_precision_param amp_dtype autocast_dtype opt_level amp_opt_level"
)

# Keys of the HF library: the kind of model, the task of a classifier, and its labels.
ARCHITECTURES: Final = "architectures"
PROBLEM: Final = "problem_type"
ONE_LABEL: Final = "single_label_classification"
LABEL: Final = r"id2label_\d{1,6}"
_LABEL_PREFIXES: Final = ("id2label_", "label2id_")


# What a model starts from. A path or a name means a pretrained model.
PRETRAINED: Final = word_list(
    "pretrained is_pretrained use_pretrained load_pretrained finetune finetuning fine_tune "
    "fine_tuning finetuning_type finetuned_from pretrained_model pretrained_model_name_or_path "
    "pretrained_path pretrained_weights model_name_or_path base_model base_model_name_or_path "
    "init_from init_checkpoint initial_checkpoint restore_from peft_type lora_r lora_rank "
    "lora_alpha use_lora use_peft"
)
_FROM_SCRATCH: Final = frozenset(
    {"", "none", "null", "no", "off", "scratch", "from_scratch", "random", "train", "0"}
)


# Train on this many batches alone, as Lightning calls it, and in other words.
OVERFIT_BATCHES: Final = word_list(
    "overfit_batches overfit_batch overfit_one_batch overfit_single_batch single_batch one_batch"
)

# The loss function by name.
LOSS_FUNCTION: Final = word_list(
    "loss loss_fn loss_function loss_name loss_type criterion criterion_name"
)


def is_pretrained(settings: Mapping[str, Any]) -> bool | None:
    """Return True if a run starts from a pretrained model, or None if it is unknown.

    ``settings`` are by plain spelling. A setting that means yes takes precedence.
    """
    answers = [_names_a_model(settings[name]) for name in PRETRAINED if name in settings]
    decided = [answer for answer in answers if answer is not None]
    return any(decided) if decided else None


def _names_a_model(value: object) -> bool | None:
    if value is None or flag(value) is not None:
        return flag(value)
    if isinstance(value, int | float):
        return value > 0
    return plain(str(value)) not in _FROM_SCRATCH if isinstance(value, str) else None


def others(settings: Mapping[str, Any]) -> Iterator[str]:
    """Yield the plain spellings of known settings without a field."""
    for name in (
        *(*EVAL_STRATEGY, SAVE_STRATEGY, DIVISIBLE, SAVING, ARCHITECTURES, PROBLEM),
        *OVERFIT_BATCHES,
    ):
        if name in settings:
            yield name
    yield from (name for name in LOSS_FUNCTION if isinstance(settings.get(name), str))
    yield from (name for name in settings if name.startswith(_LABEL_PREFIXES))
    for name in LOSS_SCALE:
        if name in settings and (settings[name] is None or is_static(settings[name]) is not None):
            yield name
    yield from (name for name in PRETRAINED if name in settings)
    for names in NUMBERS.values():
        for name in names:
            if name in settings and number(settings[name]) is not None:
                yield name


def other_number(settings: Mapping[str, Any], field: str) -> float | None:
    """Return the number configured under a name of an entry of ``NUMBERS``, or None."""
    numbers = (number(settings[name]) for name in NUMBERS[field] if name in settings)
    return next((value for value in numbers if value is not None), None)


def is_static(scale: object) -> bool | None:
    """Return True if a loss scale is static; DeepSpeed writes 0 for a dynamic one."""
    value = number(scale)
    if value is not None:
        return value > 0
    word = str(scale).lower()
    return word == "static" if word in ("static", "dynamic") else None


def saves_by_epoch(settings: Mapping[str, Any]) -> bool:
    """Return True if the HF Trainer saves a checkpoint at the end of each epoch."""
    return parse_strategy(settings.get(SAVE_STRATEGY, "")) == "epoch"


def saves_none(settings: Mapping[str, Any]) -> bool:
    """Return True if a run is configured to save no checkpoints."""
    is_off = flag(settings.get(SAVING)) is False
    return is_off or parse_strategy(settings.get(SAVE_STRATEGY, "")) == "no"


def parse_strategy(setting: object) -> str:
    """Return a strategy of the HF Trainer: ``steps``, ``epoch``, ``no`` or ``best``."""
    return str(setting).lower().rpartition(".")[2]
