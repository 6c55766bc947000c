"""Name the files next to a log that are named like it, except for a number: other ranks or runs."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from stabdiag.model.text import and_more
from stabdiag.sources.names import without_numbers, without_packed_suffix
from stabdiag.sources.sidecars import list_names

_MAX_NAMED_NEIGHBORS: Final = 3


def describe_neighbors(log: Path) -> str:
    """Return a note about the files that are named like a log, or ""."""
    own = _without_number(log.name)
    if not own:
        return ""
    names = sorted(
        name
        for name, is_file in list_names(log.parent).items()
        if is_file and name != log.name and _without_number(name) == own
    )
    if not names:
        return ""
    have, were = ("has", "was") if len(names) == 1 else ("have", "were")
    shown = and_more(names, _MAX_NAMED_NEIGHBORS)
    return f"{shown} {have} the same name with another number and {were} not read"


def _without_number(name: str) -> str:
    """Return a name without its numbers, or "" if nothing but a suffix is left of it.

    These are log.0 and log.1, train.log and train.log.2, out_rank0.txt.
    """
    plain = without_numbers(without_packed_suffix(name))
    return "" if plain.startswith(".") else plain
