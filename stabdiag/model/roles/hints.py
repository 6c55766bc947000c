"""Hints about the columns of a log: a wrong choice, and a column that may serve a missing role."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from stabdiag.errors import ColumnError, did_you_mean
from stabdiag.model.roles.groups import find_group_role
from stabdiag.model.roles.names import is_an_lr, is_evaluation, name_words, normal
from stabdiag.model.roles.scores import PROPERTIES, accuracy_role, score_direction
from stabdiag.model.roles.table import ROLES

_ROLE_BY_NAME: Final = {name: role.name for role in ROLES for name in role.names}
_GROUPED_ROLES: Final = frozenset(role.name for role in ROLES if role.prefixes or role.several)

_ACCURACY_WORDS: Final = frozenset({"acc", "accuracy", "top1", "acc1"})
_GRADIENT_WORDS: Final = frozenset({"grad", "grads", "gradient", "gradients"})
_SIZE: Final = frozenset({"norm", "l2", "magnitude"})

# If more columns may serve one role, each belongs to one class or head.
_MAX_LIKELY: Final = 2


def check_chosen(names: Sequence[str], chosen: Mapping[str, str], source: str) -> None:
    """Check the columns that the user chose by role.

    Raises:
        ColumnError: if a role or a column does not exist.
    """
    roles = [role.name for role in ROLES]
    for role, name in chosen.items():
        if role not in roles and role.partition("/")[0] not in _GROUPED_ROLES:
            if role in names and (meant := named_role(name)):
                raise ColumnError(f"unknown role {role!r}; the role comes first: {meant}={role}")
            meant = named_role(role)
            hint = f"; did you mean {meant}?" if meant else did_you_mean(role, roles)
            hint = hint or f"; roles are {', '.join(roles)}"
            raise ColumnError(f"unknown role {role!r}{hint}")
        if name not in names:
            hint = did_you_mean(name, names) or f"; it has {', '.join(names[:8])}"
            raise ColumnError(f"{source} has no column {name!r} for {role}{hint}")


def named_role(name: str) -> str | None:
    """Return the role that a word means: ``val_acc`` is eval_accuracy, ``learning_rate`` is lr."""
    if any(role.name == name for role in ROLES):
        return name
    return _ROLE_BY_NAME.get(normal(name)) or accuracy_role(name)


def describe_likely_columns(free: Sequence[str], roles: Collection[str]) -> list[str]:
    """Describe the unused columns that may serve a role that no column serves."""
    likely: dict[str, list[str]] = {}
    served = {role.partition("/")[0] for role in roles}
    for name in free:
        role = likely_role(name)
        if role is not None and role not in served:
            likely.setdefault(role, []).append(name)
    return [
        f"{names[0]!r} may be the {role} and is not used; to use it: --column"
        f" {_quoted(f'{role}={names[0]}')}"
        for role, names in likely.items()
        if len(names) <= _MAX_LIKELY
    ]


def likely_role(name: str) -> str | None:
    """Return the role that the words of an unknown name suggest, or None.

    The name is too unclear to use the column without being asked: ``decoder_acc_val`` may be the
    accuracy of the run, or of one of its parts.
    """
    words = set(name_words(name))
    if words & PROPERTIES - {"grad", "gradient", "norm"} or "best" in words:
        return None
    if words & _ACCURACY_WORDS and score_direction(name) is None:
        return "eval_accuracy" if is_evaluation(name) else "accuracy"
    if (
        words & _GRADIENT_WORDS
        and words & _SIZE
        and find_group_role(name) is None
        and not is_evaluation(name)
    ):
        return "grad_norm"
    return "lr" if {"learn", "rate"} <= words and not is_an_lr(name) else None


def _quoted(text: str) -> str:
    from shlex import quote

    return quote(text)
