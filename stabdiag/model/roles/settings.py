"""Columns that hold training settings, which may change during the run."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable
from functools import lru_cache
from typing import Final

from stabdiag.model.patterns import lazy_pattern
from stabdiag.model.roles.names import is_evaluation, name_words, normal, without_run
from stabdiag.model.text import word_list

# These settings change the objective: the data, their noise or the measured quantity. The loss
# before a change is not comparable with the loss after it. A batch size or a weight decay does not
# change the objective.
OBJECTIVE_SETTINGS: Final = word_list(
    "seq_len seq_length seqlen sequence_length sequence_len context_len context_length "
    "context_size context_window ctx_len block_size max_len max_seq_len max_seq_length "
    "max_sequence_length max_seqlen max_length curriculum stage phase difficulty "
    "curriculum_level dataset data_source datasource source domain task corpus data_mix "
    "data_mixture mixture resolution image_resolution image_size img_size image_res crop_size "
    "input_size n_frames num_frames temperature label_smoothing mask_ratio masking_ratio "
    "teacher_forcing dropout drop_path attention_dropout attn_dropout layer_dropout mixup "
    "mixup_alpha cutmix_alpha noise_std noise_level scheduled_sampling distill_alpha kd_alpha "
    "drop_path_prob mask_prob mask_rate masking_prob masking_rate mlm_probability mlm_prob "
    "noise_sigma noise competence eps adv_eps margin arc_margin sparsity model_sparsity "
    "target_sparsity num_scales num_negatives n_negatives capacity kl_capacity teacher_temp "
    "teacher_temperature tf_ratio ss_prob sampling_prob spec_augment specaug"
)

OTHER_SETTINGS: Final = word_list(
    "batch_size global_batch_size micro_batch_size total_batch_size batchsize "
    "train_batch_size per_device_batch_size per_device_train_batch_size bsz "
    "effective_batch_size minibatch_size mini_batch_size patch_size grad_accum "
    "gradient_accumulation grad_accumulation accumulate_grad_batches "
    "gradient_accumulation_steps grad_accum_steps accumulation_steps weight_decay wd momentum "
    "beta1 beta2 beta_1 beta_2 betas adam_beta1 adam_beta2 epsilon adam_eps adam_epsilon "
    "optimizer tau alpha ema_decay num_workers workers world_size num_gpus n_gpus num_devices "
    "num_nodes dp_size tp_size pp_size data_parallel_size dtype frozen frozen_layers "
    "frozen_stages frozen_params unfrozen freeze unfrozen_layers trainable_layers "
    "trainable_params trainable_parameters freeze_backbone backbone_frozen encoder_frozen "
    "freeze_encoder param_groups num_param_groups n_param_groups optimizer_groups grad_clip "
    "gradient_clip gradient_clip_val max_grad_norm clip_value clip_grad clip_norm "
    "clip_grad_norm clip_threshold clip"
)

_OBJECTIVE_SETTINGS: Final = frozenset(OBJECTIVE_SETTINGS)
_SETTING_NAMES: Final = _OBJECTIVE_SETTINGS.union(OTHER_SETTINGS)

# A change of the data does not make the loss harder or easier by itself.
_WHICH_DATA: Final = frozenset(
    word_list(
        "dataset data_source datasource source domain task corpus data_mix data_mixture mixture"
    )
)

# The direction of a gradual change that makes the loss harder. A growing epsilon belongs to an
# adversarial attack.
_DIFFICULTY_DIRECTION: Final = (
    {name: 1 for name in (*OBJECTIVE_SETTINGS, "epsilon") if name not in _WHICH_DATA}
    | dict.fromkeys(("teacher_forcing", "tf_ratio"), -1)
    | dict.fromkeys(("temperature", "resolution", "image_resolution", "image_size", "img_size"), 0)
    | dict.fromkeys(("image_res", "crop_size", "input_size"), 0)
)

# Words before and after the name of a setting that name its owner or its unit; compiled on use.
_OWNER_PREFIX: Final = lazy_pattern(
    r"^(train|training|trainer|current|cur|curr|data|loader|dataloader|model|optim|optimizer|adam|"
    r"adamw|sgd|hparams?|hyperparameters|hp|config|cfg|args|params?|settings?|curriculum|schedule|"
    r"kd|distill|distillation|student|num|n|number_of|group_?\d*|pg_?\d*|param_groups?_?\d*|\d+)_"
)
_UNIT_SUFFIXES: Final = lazy_pattern(
    r"_(id|idx|index|no|num|number|name|value|ratio|rate|prob|p|now|current|group_?\d*|"
    r"pg_?\d*|param_group_?\d*|\d+)$"
)

# Weights of loss components: aux_loss_weight, entropy_coef, lambda_gp, w_adv.
_PARTS: Final = frozenset(
    word_list(
        "aux adv ce kd kl l1 l2 gan gp reg mse vf ent entropy value policy recon reconstruction "
        "perceptual contrastive distill distillation consistency cons unsup u balance sparsity "
        "domain irm penalty bc ic pde z"
    )
)
_WEIGHT_WORDS: Final = frozenset({"weight", "coef", "coeff", "coefficient", "lambda"})

# Sections with measurements rather than settings: the temperature of a GPU, the norm of a stage's
# weights, the loss on a data set, the length of generated text.
_MEASUREMENT_SECTIONS: Final = frozenset(
    word_list(
        "system sys gpu gpus cpu cpus tpu tpus npu npus hardware hw nvidia nvml rocm host power "
        "timer timers time times timing perf throughput memory mem disk io network loss losses "
        "norm norms acc accuracy completion completions response responses generation generations "
        "generated prompt prompts rollout rollouts episode episodes"
    )
)


# No setting has a longer name, including its prefixes.
_MAX_SETTING_NAME: Final = 200


# The number of a layer or a group does not matter. A wide log has thousands of them.
_GROUP_INDEX: Final = lazy_pattern(r"(?<=[/._])\d+(?=[/._])")


def column_setting(name: str) -> str | None:
    """Return the setting that a column may hold, in its plain form, or None.

    The values decide whether it is a setting: a setting does not change frequently.
    """
    return _match_setting(_GROUP_INDEX.sub("0", name))


@lru_cache(maxsize=1 << 17)
def _match_setting(name: str) -> str | None:
    own = without_run(name)
    if len(own) > _MAX_SETTING_NAME or is_evaluation(name):
        return None
    *sections, leaf = re.split(r"[/.]", own)
    full, leaf = normal(own), normal(leaf)
    words = (word.rstrip("0123456789") for word in name_words("/".join(sections)))
    if not _is_loss_weight(leaf) and not _MEASUREMENT_SECTIONS.isdisjoint(words):
        return None
    plain = _plain(full)
    return _plain(leaf) if plain is None and leaf != full else plain


def _is_loss_weight(key: str) -> bool:
    """Return True if a name in normal form is the weight of a loss component."""
    part, _, times = key.rpartition("_")
    if times in _WEIGHT_WORDS and (part in _PARTS or part.removesuffix("_loss") not in ("", part)):
        return True
    before, _, part = key.partition("_")
    return before in ("lambda", "w") and part in _PARTS


def _plain(key: str) -> str | None:
    """Return the known setting that remains of a name without its owner, or None."""
    while key:
        if key in _SETTING_NAMES or _is_loss_weight(key):
            return key
        bare = _UNIT_SUFFIXES.sub("", key)
        if bare in _SETTING_NAMES:
            return bare
        shorter = _OWNER_PREFIX.sub("", key)
        if shorter == key:
            return None
        key = shorter
    return None


def changes_objective(name: str) -> bool:
    """Return True if a column holds a setting that changes the objective."""
    plain = column_setting(name)
    return plain is not None and (plain in _OBJECTIVE_SETTINGS or _is_loss_weight(plain))


def is_loss_weight(name: str) -> bool:
    """Return True if a column holds the weight of a loss component."""
    plain = column_setting(name)
    return plain is not None and _is_loss_weight(plain)


def is_part(name: str) -> bool:
    """Return True if a column may hold a loss component: ``l1_loss``, ``train/loss_kd``."""
    return "loss" in name_words(name) and not is_evaluation(name) and column_setting(name) is None


def difficulty_direction(name: str) -> int | None:
    """Return the direction of a setting that makes the loss harder, judged by its name.

    1 means that growing values are harder, -1 falling values, 0 either. None if the setting does
    not affect the difficulty.
    """
    plain = column_setting(name)
    if plain is None or not (plain in _DIFFICULTY_DIRECTION or _is_loss_weight(plain)):
        return None
    return _DIFFICULTY_DIRECTION.get(plain, 1)


def setting_columns(names: Iterable[str], taken: Container[str]) -> dict[str, str]:
    """Return the columns of ``setting/<name>`` that serve no other role."""
    return {
        name if name.startswith("setting/") else f"setting/{name}": name
        for name in names
        if name not in taken and column_setting(name) is not None
    }
