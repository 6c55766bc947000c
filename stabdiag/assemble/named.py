"""The columns of a log and which of them serves each role, passed on by the steps of naming."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stabdiag.assemble.due import Due
    from stabdiag.readers.columns import Columns


@dataclass(frozen=True, kw_only=True, eq=False)
class Named:
    """The columns, including those made of others, and the name of the column for each role.

    ``notes`` tell what was decided on the way. A loss is ``due`` in the records that say so.
    """

    columns: Columns
    names: Mapping[str, str]
    notes: tuple[str, ...] = ()
    due: Due | None = None

    def take(self, names: Mapping[str, str], *notes: str) -> Named:
        """Return the same columns with other names by role, and with notes on why."""
        return replace(self, names=names, notes=(*self.notes, *notes))
