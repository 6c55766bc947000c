"""The sum of the parts of a loss, where the total was not logged."""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from typing import TYPE_CHECKING

from stabdiag.assemble.named import Named
from stabdiag.errors import ColumnError
from stabdiag.model.text import listed
from stabdiag.readers.columns import Column

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stabdiag.model.roles import Assignment
    from stabdiag.readers.columns import Columns


def with_totals(columns: Columns, assignment: Assignment) -> Named:
    """Return the columns with the totals that a log lacks, and the name for each role.

    What is never logged in one record is not of one loss, but of several sets of data: the first of
    them counts.
    """
    _refuse_words(columns, assignment.parts.get("loss", ()))
    roles = dict(assignment.columns)
    totals: dict[str, Column] = {}
    notes = list(assignment.notes)
    for role, names in assignment.parts.items():
        total = reduce(_sum, map(columns.load, names))
        told = listed(names)
        if total.present.any():
            roles[role] = " + ".join(names)
            totals[roles[role]] = total
            notes.append(f"the sum of {told} serves as the {role}: no total is logged")
        else:
            notes.append(f"took {names[0]!r} as the {role}: no record has all of {told}")

    def load(name: str) -> Column:
        return totals[name] if name in totals else columns.load(name)

    whole = replace(columns, names=(*columns.names, *totals), load=load)
    return Named(columns=whole, names=roles, notes=tuple(notes))


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
