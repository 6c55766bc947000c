"""The sum of the parts of a loss, where the total was not logged."""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from typing import TYPE_CHECKING

from stabdiag.errors import ColumnError
from stabdiag.readers.columns import Column

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from stabdiag.readers.columns import Columns
    from stabdiag.roles import Assignment


def with_totals(columns: Columns, assignment: Assignment) -> tuple[Columns, Mapping[str, str]]:
    """Return the columns with the totals that a log lacks, and the name for each role."""
    parts = {" + ".join(names): names for names in assignment.parts.values()}
    if not parts:
        return columns, assignment.columns
    _refuse_words(columns, assignment.parts.get("loss", ()))

    def load(name: str) -> Column:
        if name not in parts:
            return columns.load(name)
        return reduce(_sum, map(columns.load, parts[name]))

    roles = {role: " + ".join(names) for role, names in assignment.parts.items()}
    whole = replace(columns, names=(*columns.names, *parts), load=load)
    return whole, {**assignment.columns, **roles}


def _refuse_words(columns: Columns, parts: Sequence[str]) -> None:
    """Raise an error if some parts of the loss are numbers and others are not."""
    words = [name for name in parts if columns.load(name).is_text]
    if words and len(words) < len(parts):
        raise ColumnError(
            f"{columns.source}: {words[0]!r} holds words, no numbers: the sum of"
            f" {' and '.join(parts)} cannot serve as the loss; name one with --column loss=NAME"
        )


def _sum(one: Column, other: Column) -> Column:
    """Return the sum where both were logged."""
    present = one.present & other.present
    return Column(
        values=one.values + other.values,
        present=present,
        null=(one.null | other.null) & ~present,
        is_text=one.is_text or other.is_text,
        strays=one.strays + other.strays,
    )
