"""The groups of a role, each by its levels over tenths of the run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from stabdiag.stats.levels import levels

if TYPE_CHECKING:
    from stabdiag.model.arrays import Floats
    from stabdiag.model.history import Series
    from stabdiag.tree.case import Case


TENTHS = 10


@dataclass(frozen=True, kw_only=True)
class Group:
    """One group of a role: its finite points, and the median of each tenth of them."""

    name: str
    points: Series
    levels: Floats

    def step(self, tenth: int) -> int:
        """Return the step at which a tenth begins, counted from 0."""
        return int(self.points.steps[tenth * len(self.points) // TENTHS])


def by_tenths(case: Case, role: str, least: int) -> list[Group]:
    """Return the groups of a role that have ``least`` finite points or more, 10 at least."""
    finite = {name: series.finite() for name, series in case.history.group(role).items()}
    return [
        Group(name=name, points=points, levels=levels(points.values, TENTHS))
        for name, points in finite.items()
        if len(points) >= least
    ]
