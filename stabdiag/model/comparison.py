"""A comparison of several runs: what was compared, where they part, and what was found, as data."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from stabdiag.model.findings import Diagnosed
from stabdiag.model.frozen import frozen
from stabdiag.model.manifest.keys import number
from stabdiag.model.text import clipped, num

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stabdiag.model.findings import Scalar
    from stabdiag.model.history import History
    from stabdiag.model.limits import Limits
    from stabdiag.model.manifest import Manifest


class Kind(StrEnum):
    """What runs are to each other, and therefore what may differ between them."""

    SEEDS = "seeds"
    RERUNS = "reruns"
    RANKS = "ranks"
    RESUME = "resume"
    BASELINE = "baseline"


class Relevance(StrEnum):
    """Whether a setting that differs can explain why runs part."""

    EXPLAINS = "explains"
    MAY = "may explain"
    CANNOT = "cannot explain"
    EXPECTED = "is expected"


@frozen
class Run:
    """One of the runs: its label in sentences (its file or folder name), its log, its manifest.

    ``rank`` is its number among the ranks of a job, by its name or its manifest.
    """

    label: str
    history: History
    manifest: Manifest
    rank: int | None = None

    @property
    def name(self) -> str:
        """The name of the run's log."""
        return self.history.source.name


@frozen(eq=True)
class Divergence:
    """Where two runs part in one role, over the steps at which both logged it.

    ``step`` is the first at which the values differ at all, ``unrounded`` the first at which they
    differ by more than rounding, ``lasting`` the first from which they differ by more than the
    ``noise`` of a single value; each with the values of the two runs there. None where there is
    none.
    """

    role: str
    runs: tuple[str, str]
    points: int
    step: int | None = None
    values: tuple[float, float] | None = None
    unrounded: int | None = None
    unrounded_values: tuple[float, float] | None = None
    lasting: int | None = None
    lasting_values: tuple[float, float] | None = None
    noise: float | None = None
    largest: float = 0.0
    largest_step: int | None = None


@frozen(eq=True)
class Difference:
    """A setting that differs between the runs: its value by the label of each, and its bearing.

    A run that does not record the setting has None. ``in_name`` settings are read from the names of
    the runs.
    """

    key: str
    values: Mapping[str, Scalar]
    bearing: Relevance = Relevance.MAY
    in_name: bool = False

    @property
    def by_value(self) -> list[tuple[str, list[str]]]:
        """Each value as it is written, with the labels of the runs that have it."""
        alike: dict[object, list[str]] = {}
        for label, value in self.values.items():
            alike.setdefault(same(value), []).append(label)
        return [(_written(self.values[labels[0]]), labels) for labels in alike.values()]


def same(value: object) -> object:
    """Return a key under which equal settings fall together: 1e-3 and "0.001" are one."""
    read = None if isinstance(value, bool) else number(value)
    return str(value) if read is None else read


def _written(value: Scalar) -> str:
    if value is None:
        return "not recorded"
    return num(value, 6) if isinstance(value, float) else clipped(str(value), 60)


@frozen(eq=True)
class Level:
    """Where a run ends: the mean of its last losses, the mean's error, a single loss's noise."""

    run: str
    value: float
    error: float
    noise: float


@frozen
class Comparison(Diagnosed):
    """What was found of several runs.

    ``diagnosis`` is the first of ``findings``, the worst. ``why`` says why the runs count as this
    kind; ``common`` counts the losses of the first run and the one with which it
    shares fewest. ``reference`` labels the run that the others are compared with. ``partings`` has
    one entry for each role and each other run, ``levels`` one for each run whose end was compared.
    """

    kind: Kind
    why: str
    runs: tuple[Run, ...]
    reference: str
    common: int
    partings: tuple[Divergence, ...]
    differences: tuple[Difference, ...]
    limits: Limits
    levels: tuple[Level, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def against(self) -> Run:
        """The run that the others are compared with."""
        return self.run(self.reference)

    @property
    def others(self) -> tuple[Run, ...]:
        """All runs but the reference."""
        return tuple(run for run in self.runs if run.label != self.reference)

    def run(self, label: str) -> Run:
        """Return the run of a label."""
        return next(run for run in self.runs if run.label == label)

    def of(self, label: str) -> dict[str, Divergence]:
        """Return where a run parts from the reference, by role."""
        return {one.role: one for one in self.partings if one.runs[1] == label}

    def divergences(self, role: str) -> list[Divergence]:
        """Return where runs differ at all in a role."""
        return [one for one in self.partings if one.role == role and one.step is not None]

    def unrounded(self, role: str) -> list[Divergence]:
        """Return where runs differ by more than rounding in a role."""
        return [one for one in self.partings if one.role == role and one.unrounded is not None]
