"""The limits of the decision tree, a class for each section."""

from __future__ import annotations

from stabdiag.model.frozen import frozen
from stabdiag.model.limit import TREE, limit


@frozen(eq=True)
class NanLimits:
    """§1: a loss that is not finite."""

    absent_records: int = limit(3, unit="records", at_least=1)
    """A loss missing from this many records in a row counts as NaN if the series logged with it go
    on. Fewer may be a logger's hiccup."""
    grad_surge: float = limit(10.0, unit="x rolling mean", at_least=1.0)
    """A gradient norm this far above its own mean before the first NaN means an optimization
    blow-up. A flat one means a bad sample or a layer's numerics."""


@frozen(eq=True)
class SpikeLimits:
    """§2: a loss that jumps."""

    sigma: float = limit(3.0, unit="σ", at_least=0.5, at_most=100.0, source=f"{TREE} Q2.1")
    """A loss this many standard deviations above the rolling mean is an outlier."""
    window: int = limit(100, unit="steps", at_least=10, source=f"{TREE} Q2.1")
    """The rolling mean and deviation are taken over this many steps before each step."""
    min_points: int = limit(20, unit="logged points", at_least=8)
    """On a sparse log the window widens to this many points. A deviation from fewer is itself too
    noisy."""
    false_alarm: float = limit(0.005, unit="chance per log", at_least=1e-9, at_most=0.5)
    """An outlier is a spike only if noise as heavy-tailed as this run's would produce it anywhere
    in the log with at most this chance."""
    min_rise: float = limit(0.02, unit="of the loss's range", at_most=1.0)
    """A spike smaller than this fraction of the loss's earlier range does not matter."""
    recovery_sigma: float = limit(0.5, unit="σ", source=f"{TREE} Q2.2")
    """The loss has recovered when it is within this many deviations of its mean from before the
    spike."""
    recovery_steps: int = limit(50, unit="steps", at_least=1, source=f"{TREE} Q2.2")
    """A spike that has not recovered after this many steps is a persistent elevation."""
    grad_ratio: float = limit(30.0, unit="x rolling mean", at_least=1.0, source=f"{TREE} Q2.3")
    """A pre-clip gradient norm this far above its rolling mean at the spike points to a long-tail
    batch."""
    lr_jump: float = limit(1.5, unit="x", at_least=1.01)
    """A learning rate that rises by this factor between two logged points, beyond the schedule's
    own slope, has jumped."""
    lookback: int = limit(20, unit="steps", at_least=1)
    """A learning-rate jump or repeated batch explains a spike up to this many steps later."""
    batch_lookback: int = limit(100, unit="steps", at_least=1)
    """A batch id seen within this many steps before is a duplicate."""


@frozen(eq=True)
class PrecisionLimits:
    """§3: fp16 and bf16."""

    scale_floor: float = limit(1.0, unit="loss scale", source=f"{TREE} Q3.2")
    """A loss scale below this has collapsed: activations overflow systematically."""
    growth_interval: int = limit(
        2000, unit="steps", at_least=1, source="torch.amp.GradScaler's default"
    )
    """A dynamic scaler tries a higher scale, and may overflow, once in this many steps. The
    manifest's value or the log's own rhythm overrides this default."""
    overflow_factor: float = limit(3.0, unit="x probe rate", at_least=1.0)
    """Overflows at more than this many times the scaler's probe rate are not normal."""


@frozen(eq=True)
class DivergenceLimits:
    """§4: a loss that climbs."""

    window: int = limit(200, unit="steps", at_least=10, source=f"{TREE} Q4.1")
    """The loss has to rise over this many steps."""
    min_points: int = limit(20, unit="logged points", at_least=8)
    """On a sparse log the window widens to this many points: fewer show no trend."""
    significance: float = limit(0.001, unit="p-value", at_least=1e-12, at_most=0.5)
    """The chance that a flat, autocorrelated loss shows a trend like this."""
    material: float = limit(0.05, unit="of the progress made", at_most=10.0)
    """A rise that loses less than this fraction of the progress is a plateau, not a divergence."""
    material_below_noise: float = limit(0.1, unit="of the progress made", at_most=10.0)
    """A rise below the noise that has stopped is a plateau unless it loses this fraction of the
    progress."""
    lr_rise: float = limit(1.05, unit="x", at_least=1.0)
    """The learning rate is rising if it ends this factor above where it began."""
    weight_norm_ratio: float = limit(2.0, unit="x", at_least=1.01, source=f"{TREE} Q4.3")
    """A weight norm that changes by more than this factor within the window points to the weight
    decay."""
    grad_norm_rise: float = limit(1.25, unit="x", at_least=1.0)
    """The gradient norm is rising if its rolling mean ends this factor above where it began."""
