"""Every threshold, declared once.

The parser of ``--limit``, the configuration files, ``stabdiag thresholds``, ``stabdiag explain``
and the docs are all derived from the declarations: in ``tree`` and ``checks`` here, and in the
folder of each family of symptoms.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import field, fields, replace
from functools import cache, cached_property
from numbers import Real
from operator import attrgetter

from stabdiag.errors import LimitError, did_you_mean
from stabdiag.model.frozen import frozen
from stabdiag.model.limit import LimitDefinition, reasons
from stabdiag.model.limits.checks import CompareLimits, PreflightLimits
from stabdiag.model.limits.tree import DivergenceLimits, NanLimits, PrecisionLimits, SpikeLimits
from stabdiag.symptoms.data.limits import DataLimits
from stabdiag.symptoms.generalization.limits import GeneralizationLimits
from stabdiag.symptoms.gradients.limits import GradientLimits
from stabdiag.symptoms.learning.limits import LearningLimits
from stabdiag.symptoms.overflow.limits import OverflowLimits
from stabdiag.symptoms.recorded.limits import RecordedLimits
from stabdiag.symptoms.resume.limits import ResumeLimits
from stabdiag.symptoms.schedule.limits import ScheduleLimits
from stabdiag.symptoms.throughput.limits import ThroughputLimits
from stabdiag.symptoms.weights.limits import WeightLimits


@frozen(eq=True)
class Limits:
    """All limits, by section: ``limits.spike.sigma``.

    ``set_by`` has the file or flag that set a limit, by its dotted name.

    >>> limits = Limits().override({"spike.sigma": 4})
    >>> limits.spike.sigma, [info.name for info in limits.changed]
    (4.0, ['spike.sigma'])
    """

    nan: NanLimits = field(default_factory=NanLimits)
    spike: SpikeLimits = field(default_factory=SpikeLimits)
    precision: PrecisionLimits = field(default_factory=PrecisionLimits)
    divergence: DivergenceLimits = field(default_factory=DivergenceLimits)
    learning: LearningLimits = field(default_factory=LearningLimits)
    generalization: GeneralizationLimits = field(default_factory=GeneralizationLimits)
    data: DataLimits = field(default_factory=DataLimits)
    gradients: GradientLimits = field(default_factory=GradientLimits)
    weights: WeightLimits = field(default_factory=WeightLimits)
    schedule: ScheduleLimits = field(default_factory=ScheduleLimits)
    overflow: OverflowLimits = field(default_factory=OverflowLimits)
    resume: ResumeLimits = field(default_factory=ResumeLimits)
    throughput: ThroughputLimits = field(default_factory=ThroughputLimits)
    recorded: RecordedLimits = field(default_factory=RecordedLimits)
    preflight: PreflightLimits = field(default_factory=PreflightLimits)
    compare: CompareLimits = field(default_factory=CompareLimits)
    set_by: Mapping[str, str] = field(default_factory=dict, compare=False)

    def items(self) -> tuple[LimitInfo, ...]:
        """Return every limit with its value here, its default and its declaration."""
        return self._items

    @cached_property
    def _items(self) -> tuple[LimitInfo, ...]:
        return tuple(
            LimitInfo(
                name=f"{section.name}.{entry.name}",
                value=getattr(getattr(self, section.name), entry.name),
                default=getattr(type(getattr(self, section.name)), entry.name),
                about=entry.metadata["about"],
                set_by=self.set_by.get(f"{section.name}.{entry.name}", ""),
            )
            for section in fields(self)
            if section.name != "set_by"
            for entry in fields(getattr(self, section.name))
        )

    @property
    def changed(self) -> list[LimitInfo]:
        """The limits whose values in force differ from their defaults."""
        return [info for info in self.items() if info.overridden]

    def named(self, names: Iterable[str]) -> dict[str, float]:
        """Return the values of some limits by their dotted names, in the order given."""
        return {name: attrgetter(name)(self) for name in names}

    def override(self, values: Mapping[str, object], *, by: str = "") -> Limits:
        """Return these limits with some changed, by dotted name; ``by`` names the file or flag.

        Raises:
            LimitError: for an unknown name or a value out of range.
        """
        if not values:
            return self
        infos = {info.name: info for info in self.items()}
        changed = self
        for name, value in values.items():
            if name not in infos:
                raise LimitError(
                    f"unknown limit {name!r}{did_you_mean(name, infos)} "
                    "(`stabdiag thresholds` lists them all)"
                )
            section, _, entry = name.partition(".")
            part = replace(getattr(changed, section), **{entry: _checked(infos[name], value)})
            changed = replace(changed, **{section: part})
        return replace(changed, set_by={**self.set_by, **dict.fromkeys(values, by)})


@frozen(eq=True)
class LimitInfo:
    """A limit: its dotted name, its current value, its default and its description."""

    name: str
    value: float
    default: float
    about: LimitDefinition
    set_by: str = ""

    @property
    def overridden(self) -> bool:
        """Whether the current value differs from the default."""
        return self.value != self.default

    @property
    def why(self) -> str:
        """The reason for the default."""
        return _reasons()[self.name]


@cache
def _reasons() -> dict[str, str]:
    """Return the reason for each default, by the dotted name of its limit."""
    limits = Limits()
    sections = {
        type(getattr(limits, entry.name)): entry.name
        for entry in fields(limits)
        if entry.name != "set_by"
    }
    return {
        f"{name}.{entry}": why for kind, name in sections.items() for entry, why in reasons(kind)
    }


def _checked(info: LimitInfo, value: object) -> float:
    about = info.about
    is_integer = isinstance(info.default, int)
    kind = "a whole number" if is_integer else "a number"
    expected = (
        f"{info.name} must be {kind} from {about.at_least:g} to {about.at_most:g} ({about.unit})"
    )
    if isinstance(value, bool) or not isinstance(value, Real | str):
        raise LimitError(f"{expected}, not {value!r}")
    try:
        number = float(value)
    except (ValueError, OverflowError):
        raise LimitError(f"{expected}, not {value!r}") from None
    inside = about.at_least <= number <= about.at_most and math.isfinite(number)
    if not inside or (is_integer and number != int(number)):
        raise LimitError(f"{expected}, not {value!r}")
    return int(number) if is_integer else number
