"""The names of a configuration's keys in the form in which they are compared."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping


# What lies in a section of these is not about the training.
_ELSEWHERE = {"eval", "evaluation", "val", "valid", "validation", "test", "inference", "generation"}

# No configuration nests deeper; what does, stays one value, and has its section in each spelling.
DEEPEST = 20


def plain(name: str) -> str:
    """Return a name in the form in which names are compared: lower case, words joined by ``_``."""
    return re.sub(r"[^a-z0-9]+", "_", name.strip().lower()).strip("_")


def spellings(flat: Mapping[str, Any]) -> dict[str, str]:
    """Return the full name of each key by its plain spellings, with and without its sections."""
    names: dict[str, str] = {}
    split = {name: name.split(".") for name in flat}
    for depth in range(min(max(map(len, split.values()), default=0), DEEPEST + 1)):
        for name, parts in split.items():
            if depth < len(parts) and not _means_another(parts[:depth], parts[depth]):
                names.setdefault(plain(".".join(parts[depth:])), name)
    return names


def by_spelling(flat: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of a configuration by the plain spellings of their names."""
    return {name: flat[full] for name, full in spellings(flat).items()}


def _means_another(sections: list[str], name: str) -> bool:
    """Tell whether a name is another's without the sections that it lies in.

    The batch size of an evaluation is not that of the training, the epsilon of a norm not Adam's,
    and the rank of a low-rank adapter not that of a process.
    """
    words = {word for section in sections for word in plain(section).split("_")}
    told = plain(name)
    if words & _ELSEWHERE and not told.startswith(("eval", "val")):
        return True
    section = plain(sections[-1]) if sections else ""
    return (told in ("eps", "epsilon") and "norm" in section) or (
        told == "rank" and "lora" in words
    )
