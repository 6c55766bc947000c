"""Every threshold, declared once.

The parser of ``--limit``, the configuration files, ``stabdiag thresholds``, ``stabdiag explain``
and the docs are all derived from the declarations below.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

from stabdiag.errors import LimitError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Mapping

TREE = "decision tree"
OURS = "own calibration"


@dataclass(frozen=True, kw_only=True)
class About:
    """What a limit is: its unit, its bounds (inclusive), where its default comes from, and why."""

    unit: str
    at_least: float
    at_most: float
    source: str
    why: str


def limit(
    default: float,
    *,
    unit: str,
    at_least: float = 0.0,
    at_most: float = math.inf,
    source: str,
    why: str,
) -> Any:
    """Declare one limit as a dataclass field."""
    about = About(unit=unit, at_least=at_least, at_most=at_most, source=source, why=why)
    return field(default=default, metadata={"about": about})


@dataclass(frozen=True, kw_only=True)
class NanLimits:
    """§1: a loss that is not finite."""

    absent_records: int = limit(
        3,
        unit="records",
        at_least=1,
        source=OURS,
        why="A loss that is missing from this many records in a row, while the series that are "
        "logged with it go on, counts as NaN. Fewer may be a logger's hiccup.",
    )
    grad_surge: float = limit(
        10.0,
        unit="x rolling mean",
        at_least=1.0,
        source=OURS,
        why="A gradient norm this far above its own mean before the first NaN means an "
        "optimization blow-up; a flat one means a bad sample or a layer's numerics.",
    )


@dataclass(frozen=True, kw_only=True)
class SpikeLimits:
    """§2: a loss that jumps."""

    sigma: float = limit(
        3.0,
        unit="σ",
        at_least=0.5,
        at_most=100.0,
        source=f"{TREE} Q2.1",
        why="A step whose loss is this many standard deviations above the rolling mean "
        "is an exceedance.",
    )
    window: int = limit(
        100,
        unit="steps",
        at_least=10,
        source=f"{TREE} Q2.1",
        why="The rolling mean and deviation are taken over this many steps before the one judged.",
    )
    min_points: int = limit(
        20,
        unit="logged points",
        at_least=8,
        source=OURS,
        why="On a sparse log the window widens to this many points: a deviation from fewer "
        "is itself too noisy to judge by.",
    )
    false_alarm: float = limit(
        0.005,
        unit="chance per log",
        at_least=1e-9,
        at_most=0.5,
        source=OURS,
        why="An exceedance is a spike only if noise as heavy-tailed as this run's own would "
        "produce it with no more than this chance anywhere in the log.",
    )
    min_rise: float = limit(
        0.02,
        unit="of the loss's range",
        at_least=0.0,
        at_most=1.0,
        source=OURS,
        why="A spike smaller than this share of the range that the run's loss spanned before it "
        "changes nothing.",
    )
    recovery_sigma: float = limit(
        0.5,
        unit="σ",
        at_least=0.0,
        source=f"{TREE} Q2.2",
        why="The loss has recovered once it is back within this many deviations of the mean "
        "from before the spike.",
    )
    recovery_steps: int = limit(
        50,
        unit="steps",
        at_least=1,
        source=f"{TREE} Q2.2",
        why="A spike that has not recovered after this many steps is a persistent elevation.",
    )
    grad_ratio: float = limit(
        30.0,
        unit="x rolling mean",
        at_least=1.0,
        source=f"{TREE} Q2.3",
        why="A pre-clip gradient norm this far above its rolling mean at the spike "
        "points at a long-tail batch.",
    )
    lr_jump: float = limit(
        1.5,
        unit="x",
        at_least=1.01,
        source=OURS,
        why="A learning rate that rises by this factor from one logged point to the next, "
        "beyond the schedule's own slope, has jumped.",
    )
    lookback: int = limit(
        20,
        unit="steps",
        at_least=1,
        source=OURS,
        why="A cause of a spike (a jump of the learning rate, a repeated batch) is looked for "
        "over this many steps before it.",
    )
    batch_lookback: int = limit(
        100,
        unit="steps",
        at_least=1,
        source=OURS,
        why="A batch id counts as a duplicate if it was seen within this many steps before.",
    )


@dataclass(frozen=True, kw_only=True)
class PrecisionLimits:
    """§3: fp16 and bf16."""

    scale_floor: float = limit(
        1.0,
        unit="loss scale",
        at_least=0.0,
        source=f"{TREE} Q3.2",
        why="A loss scale below this has collapsed: activations overflow systematically.",
    )
    growth_interval: int = limit(
        2000,
        unit="steps",
        at_least=1,
        source="torch.amp.GradScaler's default",
        why="A dynamic scaler probes a higher scale, and may overflow, once in so many steps. "
        "The manifest's value or the log's own rhythm goes before this default.",
    )
    overflow_factor: float = limit(
        3.0,
        unit="x probe rate",
        at_least=1.0,
        source=OURS,
        why="Overflows at more than this many times the scaler's probe rate are more "
        "than its normal life.",
    )


@dataclass(frozen=True, kw_only=True)
class DivergenceLimits:
    """§4: a loss that climbs."""

    window: int = limit(
        200,
        unit="steps",
        at_least=10,
        source=f"{TREE} Q4.1",
        why="The loss has to rise over this many steps.",
    )
    min_points: int = limit(
        20,
        unit="logged points",
        at_least=8,
        source=OURS,
        why="On a sparse log the window widens to this many points: a trend through fewer "
        "is no trend.",
    )
    significance: float = limit(
        0.001,
        unit="p-value",
        at_least=1e-12,
        at_most=0.5,
        source=OURS,
        why="The chance that a flat, autocorrelated loss shows such a trend.",
    )
    material: float = limit(
        0.05,
        unit="of the progress made",
        at_least=0.0,
        at_most=10.0,
        source=OURS,
        why="A rise that gives back less than this share of the loss's progress so far "
        "is a plateau, not a divergence.",
    )
    lr_rise: float = limit(
        1.05,
        unit="x",
        at_least=1.0,
        source=OURS,
        why="The learning rate has increased if it ends this factor above where it began.",
    )
    weight_norm_ratio: float = limit(
        2.0,
        unit="x",
        at_least=1.01,
        source=f"{TREE} Q4.3",
        why="A weight norm that changed by more than this factor within the window "
        "points at the weight decay.",
    )
    grad_norm_rise: float = limit(
        1.25,
        unit="x",
        at_least=1.0,
        source=OURS,
        why="The gradient norm's rolling mean is rising if it ends this factor above where "
        "it began.",
    )


@dataclass(frozen=True, kw_only=True)
class Limits:
    """All limits, by section: ``limits.spike.sigma``."""

    nan: NanLimits = NanLimits()
    spike: SpikeLimits = SpikeLimits()
    precision: PrecisionLimits = PrecisionLimits()
    divergence: DivergenceLimits = DivergenceLimits()

    def items(self) -> tuple[LimitInfo, ...]:
        """Return every limit with its value here, its default and its declaration."""
        return tuple(
            LimitInfo(
                name=f"{section.name}.{entry.name}",
                value=getattr(getattr(self, section.name), entry.name),
                default=getattr(type(getattr(self, section.name)), entry.name),
                about=entry.metadata["about"],
            )
            for section in fields(self)
            for entry in fields(getattr(self, section.name))
        )

    def override(self, values: Mapping[str, object]) -> Limits:
        """Return these limits with some changed, by dotted name.

        Raises:
            LimitError: for an unknown name or a value out of range.
        """
        known = {info.name: info for info in self.items()}
        changed = self
        for name, value in values.items():
            if name not in known:
                raise LimitError(
                    f"unknown limit {name!r}{did_you_mean(name, known)}; "
                    "`stabdiag thresholds` lists them all"
                )
            section, _, entry = name.partition(".")
            part = replace(getattr(changed, section), **{entry: _checked(known[name], value)})
            changed = replace(changed, **{section: part})
        return changed


@dataclass(frozen=True, kw_only=True)
class LimitInfo:
    """One limit: its dotted name, its value in force, its default, and what it is."""

    name: str
    value: float
    default: float
    about: About

    @property
    def overridden(self) -> bool:
        """Whether the value in force differs from the default."""
        return self.value != self.default


def _checked(info: LimitInfo, value: object) -> float:
    about = info.about
    whole = isinstance(info.default, int)
    kind = "a whole number" if whole else "a number"
    wanted = f"{info.name} wants {kind} from {about.at_least:g} to {about.at_most:g} ({about.unit})"
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise LimitError(f"{wanted}, not {value!r}")
    try:
        number = float(value)
    except (ValueError, OverflowError):
        raise LimitError(f"{wanted}, not {value!r}") from None
    inside = about.at_least <= number <= about.at_most and math.isfinite(number)
    if not inside or (whole and number != int(number)):
        raise LimitError(f"{wanted}, not {value!r}")
    return int(number) if whole else number
