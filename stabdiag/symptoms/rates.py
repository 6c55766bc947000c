"""The learning rates that the symptoms of a schedule are read off."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stabdiag.model.history import Series
    from stabdiag.tree.case import Case

# Fewer rates than this are no schedule.
LEAST_POINTS = 20


def rates(case: Case) -> Series | None:
    """Return the learning rates where they are enough to know a schedule by, and positive once."""
    lr = case.history.finite("lr")
    return lr if len(lr) >= LEAST_POINTS and lr.values.max() > 0 else None
