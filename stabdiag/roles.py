"""What columns mean: canonical roles, and the names that frameworks give them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from stabdiag.errors import ColumnError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


@dataclass(frozen=True, kw_only=True)
class Role:
    """A role, and the names it goes by, preferred ones first.

    Names are compared in lower case with every run of other characters as one ``_``. A role with
    groups (``weight_norm/<group>``) also takes any name that begins with one of ``prefixes``.
    ``training`` roles are logged with a training step, as against evaluation.
    """

    name: str
    meaning: str
    names: tuple[str, ...]
    prefixes: tuple[str, ...] = ()
    training: bool = True


ROLES: tuple[Role, ...] = (
    Role(
        name="step",
        meaning="optimizer step",
        names=(
            *("step", "global_step", "trainer_global_step", "_step", "iteration", "iter"),
            *("num_updates", "update", "updates", "train_step", "train_global_step", "steps"),
            *("optimizer_step", "n_iter", "s"),
        ),
    ),
    Role(name="epoch", meaning="epoch, serves as step where there is none", names=("epoch",)),
    Role(
        name="loss",
        meaning="training loss",
        names=(
            *("loss", "train_loss", "training_loss", "train_loss_step", "lm_loss"),
            *("loss_train_total", "train_ce_loss", "loss_metrics_global_avg_loss"),
            *("reduced_train_loss", "total_loss", "train_total_loss", "loss_train", "loss_total"),
            *("ce_loss", "train_lm_loss", "cross_entropy", "nll_loss", "train_loss_epoch", "trl"),
        ),
    ),
    Role(
        name="grad_norm",
        meaning="norm of the gradient before clipping",
        names=(
            *("grad_norm", "train_grad_norm", "gradient_norm", "gnorm", "global_grad_norm"),
            *("total_grad_norm", "grad_norm_total", "optim_total_grad_norm"),
            *("l2_norm_grad_global", "gradnorm", "train_gradient_norm", "grad_2_0_norm_total"),
            *("train_global_grad_norm", "norm"),
        ),
        prefixes=("grad_norm", "l2_norm_grad", "gradient_norm"),
    ),
    Role(
        name="lr",
        meaning="learning rate",
        names=(
            *("lr", "learning_rate", "train_learning_rate", "train_lr", "current_lr"),
            *("lr_0", "lr_group0", "optim_lr", "train_samples_lr", "x_lr0", "learningrate"),
            "optim_learning_rate_group_0",
        ),
    ),
    Role(
        name="loss_scale",
        meaning="loss scale of fp16 training",
        names=(
            *("loss_scale", "train_loss_scale", "amp_loss_scale", "train_samples_loss_scale"),
            *("grad_scale", "scaler_scale", "lossscale", "grad_scaler_scale", "amp_scale"),
        ),
    ),
    Role(
        name="weight_norm",
        meaning="norm of the weights, one column a group",
        names=("weight_norm", "param_norm", "params_norm", "train_param_norm", "weights_norm"),
        prefixes=("weight_norm", "param_norm", "params_norm", "l2_norm_param", "weights_norm"),
    ),
    Role(
        name="batch_id",
        meaning="which batch the step was trained on",
        names=("batch_id", "batch_index", "batch_idx", "batch_hash", "train_batch_id"),
    ),
    Role(
        name="skipped",
        meaning="steps that the scaler skipped",
        names=("skipped", "number_of_skipped_iterations", "optim_step_skipped", "skipped_steps"),
    ),
    Role(
        name="tokens_per_second",
        meaning="throughput",
        names=(
            *("tokens_per_second", "tokens_per_sec", "throughput", "throughput_tps", "tps", "wps"),
            *("train_samples_per_second", "samples_per_second", "throughput_device_tps"),
        ),
    ),
    Role(
        name="activation_norm",
        meaning="size of the activations, one column a group",
        names=("activation_norm", "activation_max", "max_activation"),
        prefixes=("activation_norm", "activation_max", "activations"),
    ),
    Role(
        name="eval_loss",
        meaning="loss on held-back data",
        names=(
            *("eval_loss", "val_loss", "valid_loss", "validation_loss", "test_loss"),
            *("lm_loss_validation", "validation_metrics_loss", "loss_eval_total", "dev_loss"),
        ),
        training=False,
    ),
)

_NAMES = frozenset(name for role in ROLES for name in role.names)
_PREFIXES = tuple(f"{prefix}_" for role in ROLES for prefix in role.prefixes)

_EVALUATION = re.compile(r"(^|_)(eval|val|valid|validation|test|dev)(_|$)")
_NOT_A_LOSS = re.compile(r"loss_?scale|scale$|(^|_)(num|min|max|std|n)(_|$)|grad")
_AN_LR = re.compile(r"^(train_)?(lr|learning_rate)(_|$)|_lr(_|$)|_lr\d*$")


@dataclass(frozen=True, kw_only=True)
class Assignment:
    """Which column serves which role, and what was decided on the way."""

    columns: Mapping[str, str]
    notes: tuple[str, ...]


def normal(name: str) -> str:
    """Return a column name in the form in which names are compared."""
    return re.sub(r"[^a-z0-9_]+", "_", name.strip().lower()).rstrip("_")


def is_evaluation(name: str) -> bool:
    """Tell whether a column's name says that it belongs to an evaluation."""
    return _EVALUATION.search(normal(name)) is not None


def may_serve(name: str) -> bool:
    """Tell whether a column may be looked at, whatever other columns there are.

    It may if some role could take it by its name, or if it tells records of an evaluation.
    """
    key = normal(name)
    return (
        key in _NAMES
        or "loss" in key
        or key.removeprefix("train_").startswith(_PREFIXES)
        or _AN_LR.search(key) is not None
        or is_evaluation(name)
    )


def assign(names: Iterable[str], chosen: Mapping[str, str] | None = None) -> Assignment:
    """Find the column of each role.

    Args:
        names: all columns of the log.
        chosen: columns by role that the user named; they go before everything else.

    Raises:
        ColumnError: if a chosen column or role does not exist.
    """
    names = list(names)
    chosen = _check_chosen(names, chosen or {})
    by_name: dict[str, str] = {}
    for name in names:
        by_name.setdefault(normal(name), name)
    taken = set(chosen.values())
    columns: dict[str, str] = dict(chosen)
    notes: list[str] = []
    for role in ROLES:
        if role.name in columns:
            continue
        found = [by_name[n] for n in role.names if n in by_name and by_name[n] not in taken]
        if not found:
            found, note = _by_pattern(role, [n for n in names if n not in taken])
            notes += note
        elif role.name == "loss" and len(found) > 1:
            others = ", ".join(found[1:4])
            notes.append(f"took {found[0]!r} as the loss; also possible: {others}")
        if found:
            columns[role.name] = found[0]
            taken.add(found[0])
    columns.update(_groups(names, taken))
    return Assignment(columns=columns, notes=tuple(notes))


def _check_chosen(names: list[str], chosen: Mapping[str, str]) -> dict[str, str]:
    known = [role.name for role in ROLES]
    for role, name in chosen.items():
        if role.partition("/")[0] not in known:
            hint = did_you_mean(role, known) or f"; roles are {', '.join(known)}"
            raise ColumnError(f"unknown role {role!r}{hint}")
        if name not in names:
            hint = did_you_mean(name, names) or f"; it has {', '.join(names[:8])}"
            raise ColumnError(f"the log has no column {name!r} for {role}{hint}")
    return dict(chosen)


def _by_pattern(role: Role, names: list[str]) -> tuple[list[str], list[str]]:
    """Fall back on what a name looks like, and say so."""
    if role.name == "loss":
        like = [
            name
            for name in names
            if "loss" in normal(name)
            and not is_evaluation(name)
            and not _NOT_A_LOSS.search(normal(name))
        ]
        # Of several parts of a loss the total is most likely the one with the shortest name.
        like.sort(key=lambda name: len(normal(name)))
    elif role.name == "lr":
        like = [n for n in names if _AN_LR.search(normal(n)) and "min" not in normal(n)]
    elif role.name == "eval_loss":
        like = [name for name in names if "loss" in normal(name) and is_evaluation(name)]
    else:
        return [], []
    if role.name != "loss" or not like:
        return like, []
    others = f"; also possible: {', '.join(like[1:4])}" if len(like) > 1 else ""
    return like, [f"took {like[0]!r} as the loss, by its name{others}"]


def _groups(names: list[str], taken: set[str]) -> dict[str, str]:
    """Find ``weight_norm/<group>`` and its like."""
    found: dict[str, str] = {}
    for name in names:
        if name in taken:
            continue
        key = normal(name)
        bare = re.sub(r"^train_", "", key)
        for role in ROLES:
            prefix = next((p for p in role.prefixes if bare.startswith(f"{p}_")), None)
            if prefix:
                found.setdefault(f"{role.name}/{_group_name(name, prefix)}", name)
                break
    return found


def _group_name(name: str, prefix: str) -> str:
    """Return what follows the prefix in the column's own spelling."""
    words = len(prefix.split("_"))
    parts = re.split(
        r"[^A-Za-z0-9]+", name.strip(), maxsplit=words + name.lower().startswith("train")
    )
    return parts[-1].strip("/._- ") or name
