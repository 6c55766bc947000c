"""A comparison of several runs as data: the runs, their divergences and the findings."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from stabdiag.model.findings import RankedFindings
from stabdiag.model.frozen import frozen
from stabdiag.model.manifest.parsing import number
from stabdiag.model.text import clipped, num

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stabdiag.model.findings import Scalar
    from stabdiag.model.history import History
    from stabdiag.model.limits import Limits
    from stabdiag.model.manifest import Manifest


class ComparisonKind(StrEnum):
    """The relation of the runs, which determines the expected differences."""

    SEEDS = "seeds"
    RERUNS = "reruns"
    RANKS = "ranks"
    RESUME = "resume"
    BASELINE = "baseline"

    @property
    def words(self) -> str:
        """The relation in a sentence: compared as reruns, as a resumed run."""
        return {"resume": "a resumed run", "baseline": "a baseline"}.get(self.value, self.value)


class Relevance(StrEnum):
    """Whether a differing setting can explain a divergence."""

    EXPLAINS = "explains"
    MAY = "may explain"
    CANNOT = "cannot explain"
    EXPECTED = "is expected"


@frozen
class ComparedRun:
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
    """The divergence of two runs in one role, over their common steps.

    ``step`` is the first step with any difference, ``unrounded`` the first with a difference beyond
    rounding, and ``lasting`` the first of a lasting difference beyond the ``noise`` of a single
    value; each with the values of both runs. They are None without a difference.
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
    """A setting that differs between the runs: its value for each run, and its relevance.

    A run that does not record the setting has None. ``in_name`` settings are read from the names of
    the runs.
    """

    key: str
    values: Mapping[str, Scalar]
    relevance: Relevance = Relevance.MAY
    in_name: bool = False

    @property
    def by_value(self) -> list[tuple[str, list[str]]]:
        """Each value as text, with the labels of its runs."""
        alike: dict[object, list[str]] = {}
        for label, value in self.values.items():
            alike.setdefault(same(value), []).append(label)
        return [(_written(self.values[labels[0]]), labels) for labels in alike.values()]


def same(value: object) -> object:
    """Return a key that is the same for equal settings, such as 1e-3 and "0.001"."""
    parsed = None if isinstance(value, bool) else number(value)
    return str(value) if parsed is None else parsed


def _written(value: Scalar) -> str:
    if value is None:
        return "not recorded"
    return num(value, 6) if isinstance(value, float) else clipped(str(value), 60)


@frozen(eq=True)
class Level:
    """The final level of a run: the mean of its last losses, its error, and the noise."""

    run: str
    value: float
    error: float
    noise: float


@frozen
class Comparison(RankedFindings):
    """The result of a comparison of runs.

    ``diagnosis`` is the first of ``findings``, the worst. ``why`` says why the runs count as this
    kind; ``common`` counts the losses of the first run and the run that
    shares fewest losses with it. ``reference`` labels the run that the others
    are compared with. ``divergences`` has one entry for each role and each other run, ``levels``
    one for each run whose end was compared.
    """

    kind: ComparisonKind
    why: str
    runs: tuple[ComparedRun, ...]
    reference: str
    common: int
    divergences: tuple[Divergence, ...]
    differences: tuple[Difference, ...]
    limits: Limits
    levels: tuple[Level, ...] = ()
    notes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        """Name the comparison in one line; all of its data would fill a screen."""
        finding = self.diagnosis
        step = "" if finding.step is None else f", step {finding.step}"
        runs = ", ".join(run.label for run in self.runs)
        return f"<Comparison of {runs}: {finding.severity.value}, {finding.slug}{step}>"

    @property
    def against(self) -> ComparedRun:
        """The run that the others are compared with."""
        return self.run(self.reference)

    @property
    def others(self) -> tuple[ComparedRun, ...]:
        """All runs except the reference."""
        return tuple(run for run in self.runs if run.label != self.reference)

    def run(self, label: str) -> ComparedRun:
        """Return the run with a label."""
        return next(run for run in self.runs if run.label == label)

    def of(self, label: str) -> dict[str, Divergence]:
        """Return the divergences of a run from the reference, by role."""
        return {
            divergence.role: divergence
            for divergence in self.divergences
            if divergence.runs[1] == label
        }

    def find_divergences(self, role: str) -> list[Divergence]:
        """Return the divergences of any size in a role."""
        return [
            divergence
            for divergence in self.divergences
            if divergence.role == role and divergence.step is not None
        ]

    def unrounded(self, role: str) -> list[Divergence]:
        """Return the divergences beyond rounding in a role."""
        return [
            divergence
            for divergence in self.divergences
            if divergence.role == role and divergence.unrounded is not None
        ]
