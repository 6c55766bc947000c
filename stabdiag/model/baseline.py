"""The result of a comparison with a baseline: earlier good runs of the same task, as data."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from stabdiag.model.frozen import frozen
from stabdiag.model.text import and_more

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stabdiag.model.arrays import Floats, Ints
    from stabdiag.model.findings import Scalar

# Reasons, and unused references with the same reason, that a sentence names.
_MAX_NAMED_REASONS = 4
_MAX_REFERENCE_NAMES = 3
_MAX_SERIES_TOO_DIFFERENT = 3


class BaselineStatus(StrEnum):
    """The result of comparing a run, or one of its series, with its references."""

    INSIDE = "inside"
    WORSE = "worse"
    UNLIKE = "unlike"
    BETTER = "better"
    LEFT = "left"
    DIFFERS = "differs"
    UNUSABLE = "unusable"


class Unusable(StrEnum):
    """The reason why references cannot serve as a baseline."""

    NONE_LEFT = "none-left"
    SPREAD = "spread"
    FEW_BINS = "few-bins"
    NO_SERIES = "no-series"


@frozen(eq=True)
class UnusedReference:
    """A reference that was not used, and why; ``step`` is where the reason first applies."""

    name: str
    reason: str
    step: int | None = None


def describe_unused(references: Sequence[UnusedReference]) -> str:
    """Return the names of unused references, grouped by reason.

    >>> describe_unused([UnusedReference(name=name, reason="no loss") for name in "abcd"])
    'a, b, c and 1 more (no loss)'
    """
    groups: dict[str, list[UnusedReference]] = {}
    for reference in references:
        groups.setdefault(reference.reason, []).append(reference)
    texts = [_describe_group(reason, group) for reason, group in groups.items()]
    hidden = sum(map(len, [*groups.values()][_MAX_NAMED_REASONS:]))
    return "; ".join([*texts[:_MAX_NAMED_REASONS], *([f"{hidden} more"] if hidden else [])])


def _describe_group(reason: str, references: Sequence[UnusedReference]) -> str:
    names = and_more([reference.name for reference in references], _MAX_REFERENCE_NAMES)
    steps = {reference.step for reference in references} - {None}
    since = f" from step {steps.pop()}" if len(steps) == 1 else ""
    return f"{names} ({reason}{since})"


@frozen(eq=True)
class SettingDifference:
    """A setting that differs from the value that all references share."""

    key: str
    value: Scalar
    reference: Scalar


@frozen
class SeriesComparison:
    """A series compared with the band of the references; ``name`` is its name in sentences.

    ``decides`` is whether the verdict rests on it. ``step`` is the first step outside the band and
    ``back`` the first step inside it again, if the series stays there. ``onset`` is the start of
    the excursion that lasts to the end. ``level`` and ``reference`` are the levels of the run and
    of the references at the end, or at the largest distance if the series came back. ``ratio`` is
    their quotient, None if not all values are positive; ``higher`` is True if the run is above.
    ``closeness`` is the spread of the references there: a fraction of their level if ``ratio`` is
    known, else in the unit of the series. ``peak`` is the largest deviation that two
    neighboring bins share, in standard deviations, and ``bar`` the deviation allowed. If
    ``averaged`` is set, only the average from ``onset`` to the end is outside: ``level``,
    ``ratio`` and ``peak`` describe that average.

    ``band_steps``, ``band_low`` and ``band_high`` have the shape (k,): the edges of the band at
    the first step of each bin, and at the last step of the last one.
    """

    role: str
    column: str
    name: str
    status: BaselineStatus
    decides: bool
    bins: int
    peak: float
    bar: float
    level: float
    reference: float
    ratio: float | None = None
    closeness: float = 0.0
    averaged: bool = False
    higher: bool = False
    first_step: int = 0
    last_step: int = 0
    step: int | None = None
    onset: int | None = None
    back: int | None = None
    band_steps: Ints
    band_low: Floats
    band_high: Floats


@frozen
class BaselineComparison:
    """A run compared with a baseline.

    ``deciding`` is the series that determines the verdict. ``series`` are all compared series; the
    first to leave the band comes first. ``too_different`` are the names of series that were not
    compared, because the references differ too much in them. ``step`` is the step where the run
    left the band permanently, or its loss stopped being finite. ``compared_until`` is the last
    common step, ``last_step`` the last step of the run and ``references_until`` the last step of
    the longest reference. ``references`` are the names of the runs used, and ``reference_noun`` is
    the word for one of them. ``task_known`` is True if the run and a reference name their task,
    dataset or model. ``is_unexplained`` is True if a loss is far better than the references'
    although no known setting differs and no evaluation confirms it. ``run_name`` is the name of the
    run in sentences, if it needs one.
    """

    status: BaselineStatus
    references: tuple[str, ...]
    left_out: tuple[UnusedReference, ...] = ()
    deciding: SeriesComparison | None = None
    series: tuple[SeriesComparison, ...] = ()
    too_different: tuple[str, ...] = ()
    settings: tuple[SettingDifference, ...] = ()
    step: int | None = None
    non_finite: bool = False
    compared_until: int | None = None
    unusable: Unusable | None = None
    odd_one: UnusedReference | None = None
    settings_known: bool = False
    task_known: bool = False
    is_unexplained: bool = False
    last_step: int = 0
    references_until: int = 0
    unit: str = "step"
    reference_noun: str = "your good run"
    run_name: str = ""

    @property
    def runs(self) -> str:
        """The references in words: ``your 5 good runs``."""
        number = len(self.references)
        determiner, _, noun = self.reference_noun.partition(" ")
        return f"{determiner} {noun}" if number == 1 else f"{determiner} {number} {noun}s"

    @property
    def subject(self) -> str:
        """The run at the start of a sentence."""
        return self.run_name or "The run"

    @property
    def left_out_text(self) -> str:
        """The references that were left out and why, in one sentence; empty if all were used."""
        return f"Left out: {describe_unused(self.left_out)}." if self.left_out else ""

    @property
    def too_different_text(self) -> str:
        """The series that were not compared, in one sentence; empty if there is none."""
        if not self.too_different:
            return ""
        names = and_more(self.too_different, _MAX_SERIES_TOO_DIFFERENT)
        return f"Not compared, since it differs too much between the references: {names}."

    @property
    def inside(self) -> str:
        """One sentence on a run within the band of its references."""
        until = f"{self.unit} {self.compared_until}"
        inside = f"{self.subject} is within the band of {self.runs} up to {until}."
        return " ".join(filter(None, (inside, self.too_different_text, self.left_out_text)))

    @property
    def first_to_leave(self) -> SeriesComparison | None:
        """The first series except the learning rate that left the band of the references."""
        left = [series for series in self.series if series.step is not None and series.role != "lr"]
        return min(left, key=lambda series: series.step or 0, default=None)

    @property
    def learning_rate(self) -> SeriesComparison | None:
        """The learning rate, if it differs from the learning rate of the references."""
        rates = (
            series for series in self.series if series.role == "lr" and series.step is not None
        )
        return next(rates, None)
