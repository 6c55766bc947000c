"""Columns that belong to a group of a role: of one layer, one rank, one device."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable

from stabdiag.model.patterns import lazy_pattern
from stabdiag.model.roles.names import is_evaluation, normal
from stabdiag.model.roles.table import ROLES
from stabdiag.model.text import word_list

_ROLE_BY_PREFIX = {prefix: role.name for role in ROLES for prefix in role.prefixes}
_BEGINNINGS = tuple(f"{prefix}_" for prefix in _ROLE_BY_PREFIX)
_GROUP_SUFFIXES = tuple(f"_{prefix}" for prefix in _ROLE_BY_PREFIX)

# Measures of the speed of a rank: the time of its step or of a part of it, or its throughput.
_PACES = {
    name: ranked
    for ranked, role in (("rank_time", "step_time"), ("rank_speed", "tokens_per_second"))
    for name in next(entry.names for entry in ROLES if entry.name == role)
} | dict.fromkeys(word_list("compute_time forward_backward_time fwd_bwd_time"), "rank_time")
_RANK = lazy_pattern(r"(?:^|_)((?:rank|gpu|node|host|worker|device)_?\d+)(?=_|$)")


# No model has this many layers, and each column takes time.
_MAX_ROLE_GROUPS = 10_000


def find_groups(names: Iterable[str], taken: Container[str]) -> dict[str, str]:
    """Return the columns of ``weight_norm/<group>`` and similar names that serve no other role.

    Columns beyond the maximum are ignored.
    """
    columns: dict[str, str] = {}
    for name in names:
        if len(columns) == _MAX_ROLE_GROUPS:
            break
        group = None if name in taken else find_group_role(name)
        if group is not None:
            columns.setdefault(group, name)
    return columns


def find_group_role(name: str) -> str | None:
    """Return the role of a column that belongs to a group, or None.

    The group follows the role, as in ``weight_norm/head`` or ``debug/weight_norm/head``. A numbered
    group may precede it: ``layers.3.weight_norm``. The step time of a rank is ``rank_time/rank_3``,
    for example, whether it is named ``rank_3/step_time`` or ``step_time/rank_3``.
    """
    for part in (name, name.partition("/")[2]):
        bare = normal(part).removeprefix("train_")
        if bare.startswith(_BEGINNINGS):
            prefix = next(word for word in _ROLE_BY_PREFIX if bare.startswith(f"{word}_"))
            return (
                f"{_ROLE_BY_PREFIX[prefix]}/{_without(prefix, part, r'(?:train[^a-z0-9]*)?{}(.*)')}"
            )
    bare = normal(name)
    if bare.endswith(_GROUP_SUFFIXES):
        prefix = next(word for word in _ROLE_BY_PREFIX if bare.endswith(f"_{word}"))
        if any(map(str.isdigit, bare.removesuffix(prefix))):
            return f"{_ROLE_BY_PREFIX[prefix]}/{_without(prefix, name, '(.*){}')}"
    rank = _RANK.search(bare)
    if rank is None or is_evaluation(name):
        return None
    words = (_RANK.sub("", normal(part)).strip("_") for part in re.split("[/.]", name)[::-1])
    role = _PACES.get(next(filter(None, words), ""))
    return role and f"{role}/{rank[1]}"


def _without(prefix: str, name: str, pattern: str) -> str:
    """Return the part of a name without the prefix, in its original spelling."""
    words = "[^a-z0-9]*".join(prefix.split("_"))
    match = re.fullmatch(pattern.format(words), name.strip(), re.IGNORECASE)
    return (match[1] if match else name).strip("/._- ()") or name
