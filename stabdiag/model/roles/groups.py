"""Columns of roles that have one for each layer or group of weights."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from stabdiag.model.roles.names import normal
from stabdiag.model.roles.table import ROLES

if TYPE_CHECKING:
    from collections.abc import Container, Iterable


def groups_of(names: Iterable[str], taken: Container[str]) -> dict[str, str]:
    """Return the columns of ``weight_norm/<group>`` and the like that serve no other role."""
    found: dict[str, str] = {}
    for name in names:
        if name in taken:
            continue
        bare = normal(name).removeprefix("train_")
        for role in ROLES:
            prefix = next((p for p in role.prefixes if bare.startswith(f"{p}_")), None)
            if prefix:
                found.setdefault(f"{role.name}/{_group_name(name, prefix)}", name)
                break
    return found


def _group_name(name: str, prefix: str) -> str:
    """Return what follows the prefix in the column's own spelling."""
    words = "[^a-z0-9]*".join(prefix.split("_"))
    match = re.match(rf"(?:train[^a-z0-9]*)?{words}[^a-z0-9]*", name.strip(), re.IGNORECASE)
    return (name.strip()[match.end() :] if match else name).strip("/._- ") or name
