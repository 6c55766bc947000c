"""The columns of a log with the name of the column for each role."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from stabdiag.model.frozen import frozen
from stabdiag.readers.columns import Column, Columns


@frozen
class NamedColumns:
    """The columns of a log, and the name of the column for each role.

    ``notes`` explain the decisions.
    """

    columns: Columns
    names: Mapping[str, str]
    notes: tuple[str, ...] = ()

    def take(self, names: Mapping[str, str], *notes: str) -> NamedColumns:
        """Return a copy with other names by role, and with notes that explain them."""
        return replace(self, names=names, notes=(*self.notes, *notes))

    def adding(self, made: Mapping[str, Column]) -> NamedColumns:
        """Return a copy with derived columns, which replace columns of the same name."""
        if not made:
            return self
        return replace(self, columns=self.columns.with_columns(made))
