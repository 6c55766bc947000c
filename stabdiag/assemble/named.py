"""The columns of a log with the name of each role's, as one step of the naming hands them on."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stabdiag.assemble.due import Due
    from stabdiag.readers.columns import Columns


@dataclass(frozen=True, kw_only=True, eq=False)
class Named:
    """The columns, those that were made of others among them, and the name for each role.

    ``notes`` tell what was decided on the way. A loss is ``due`` in the records that say so.
    """

    columns: Columns
    names: Mapping[str, str]
    notes: tuple[str, ...] = ()
    due: Due | None = None

    def take(self, names: Mapping[str, str], *notes: str) -> Named:
        """Return the same columns with these names by role, and what is to be told of them."""
        return replace(self, names=names, notes=(*self.notes, *notes))
