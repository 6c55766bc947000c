"""The groups of a role, such as the layers of a model, and their course."""

from __future__ import annotations

from stabdiag.model.arrays import Floats
from stabdiag.model.frozen import frozen
from stabdiag.model.history import Series
from stabdiag.stats.course import Course, measure_course
from stabdiag.stats.standards import LEAST, TENTHS
from stabdiag.tree.case import Case

# Fractions and updates are evaluated over the second half of the run.
SECOND_HALF = TENTHS // 2


@frozen
class NormGroup:
    """One group of a role: its finite points, and the median of each tenth of them."""

    name: str
    points: Series
    course: Course

    @property
    def levels(self) -> Floats:
        """The median of each tenth."""
        return self.course.levels

    def step(self, tenth: int) -> int:
        """Return the step where a tenth begins, counted from 0."""
        return int(self.points.steps[self.course.starts[tenth]])


def norm_groups(case: Case, role: str) -> list[NormGroup]:
    """Return the groups of a role that have enough finite points."""
    finite = {name: series.finite() for name, series in case.history.group(role).items()}
    return [
        NormGroup(name=name, points=points, course=measure_course(points.values, TENTHS))
        for name, points in finite.items()
        if len(points) >= LEAST
    ]
