"""The frameworks whose configuration files are recognized, and their names of settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from stabdiag.apply.documents import KeyPath
from stabdiag.model.frozen import frozen
from stabdiag.model.manifest.keys import KEYS, spellings
from stabdiag.model.manifest.parsing import plain
from stabdiag.model.text import word_list


@frozen
class Framework:
    """A framework: keys that mark its files, and the names of settings that may be missing.

    One of the keys in each of ``marks`` is in every file. A missing setting is added next to the
    first of these keys.
    """

    name: str
    marks: tuple[tuple[str, ...], ...] = ()
    names: Mapping[str, str]

    def section(self, values: Mapping[KeyPath, Any]) -> KeyPath:
        """Return the mapping that has the settings."""
        firsts = self.marks[0] if self.marks else ()
        paths = [path for path in values if plain(path[-1]) in firsts]
        return min((path[:-1] for path in paths), key=len, default=())


_HF: Final = {
    "grad_clip": "max_grad_norm",
    "warmup_steps": "warmup_steps",
    "weight_decay": "weight_decay",
    "epsilon": "adam_epsilon",
}

CONFIG_FRAMEWORKS: Final = (
    Framework(
        name="DeepSpeed",
        marks=(word_list("train_micro_batch_size_per_gpu train_batch_size"), ("stage", "type")),
        names={"grad_clip": "gradient_clipping"},
    ),
    Framework(
        name="torchtune",
        marks=(word_list("gradient_accumulation_steps max_steps_per_epoch"), ("component",)),
        names={"grad_clip": "clip_grad_norm"},
    ),
    Framework(
        name="Lightning",
        marks=(word_list("max_epochs accelerator devices precision"), ("class_path",)),
        names={"grad_clip": "gradient_clip_val"},
    ),
    Framework(name="axolotl", marks=(("micro_batch_size",), ("base_model",)), names=_HF),
    Framework(
        name="Hugging Face",
        marks=(
            word_list(
                "per_device_train_batch_size num_train_epochs lr_scheduler_type save_strategy"
            ),
        ),
        names=_HF,
    ),
    Framework(
        name="timm",
        marks=(("opt",), ("sched", "epochs")),
        names={"grad_clip": "clip_grad", "epsilon": "opt_eps"},
    ),
    Framework(
        name="nanoGPT",
        marks=(("n_layer", "decay_lr"), ("n_embd", "warmup_iters")),
        names={"grad_clip": "grad_clip", "warmup_steps": "warmup_iters"},
    ),
)
OTHER: Final = Framework(name="", names={})

# The fields that are in configurations of trainings only.
_TRAINING_FIELDS: Final = tuple(
    name
    for key in KEYS
    if key.name in word_list("peak_lr warmup_steps grad_clip weight_decay optimizer")
    for name in key.names
)
_FLAGS: Final = word_list("fp16 bf16 fp16_enabled bf16_enabled")


def find_framework(values: Mapping[KeyPath, Any]) -> Framework:
    """Return the framework of a configuration file."""
    keys = {plain(path[-1]) for path in values}
    return next(
        (
            framework
            for framework in CONFIG_FRAMEWORKS
            if all(not keys.isdisjoint(mark) for mark in framework.marks)
        ),
        OTHER,
    )


def is_training_configuration(values: Mapping[KeyPath, Any]) -> bool:
    """Return True if a file has a setting of a training."""
    spelled = spellings({".".join(path): value for path, value in values.items()})
    return not spelled.keys().isdisjoint((*_TRAINING_FIELDS, *_FLAGS)) or bool(
        find_framework(values).name
    )
