"""The limits of this family: ``limits.learning``."""

from __future__ import annotations

from stabdiag.model.frozen import frozen
from stabdiag.model.limit import limit


@frozen(eq=True)
class LearningLimits:
    """A loss that does not fall, stops early, oscillates, or falls too well."""

    constant_points: int = limit(20, unit="logged points", at_least=5)
    """A loss with the same digits at this many final points is not being trained. Fewer suffice
    if it has four digits or more and has not fallen."""
    min_points: int = limit(20, unit="logged points", at_least=10)
    """Fewer losses than this after the warm-up do not show whether a run learns."""
    min_steps: int = limit(500, unit="steps", at_least=1)
    """A run may make no progress for this long after its warm-up before it counts as stuck. Logs
    of epochs use min_points."""
    min_steps_ended: int = limit(100, unit="steps", at_least=1)
    """The same for a run that has ended: its learning rate has decayed to a tenth of its peak, or
    it has trained all the manifest's steps."""
    memorized_fraction: float = limit(0.9, unit="of log K", at_least=0.5, at_most=1.0)
    """A run whose evaluations are all at chance, and whose loss ends above this fraction of it, has
    only memorized."""
    chance_band: float = limit(0.01, unit="of log K", at_most=0.2)
    """A loss within this fraction of the logarithm of the number of classes is at chance."""
    min_fall: float = limit(0.01, unit="of the loss", at_most=0.5)
    """A loss that falls by less than this fraction over the whole run has not learned."""
    initial_factor: float = limit(1.5, unit="x log K", at_least=1.05)
    """An untrained classifier starts near log K. One this factor above it is confidently wrong; one
    below may be pretrained."""
    untrained_loss: float = limit(14.0, unit="nats", at_least=1.0)
    """A mean cross-entropy above this gives the right class a probability of one in a million. No
    untrained model is that confident."""
    swing: float = limit(2.0, unit="x", at_least=1.1)
    """The loss swings if it rises by this factor and falls again."""
    swings: int = limit(2, unit="swings", at_least=1)
    """This many swings are an oscillation. One is a spike or a climb: the tree judges it."""
    above_start: float = limit(1.5, unit="x the first loss", at_least=1.05)
    """A loss that swings around a level this factor above its start is worse than no training."""
    climb: float = limit(0.1, unit="of the level", at_most=10.0)
    """A loss that climbs by this fraction while the learning rate is high, and comes down only as
    it decays, had too high a rate."""
    small_fall: float = limit(0.3, unit="of the loss", at_most=1.0)
    """A loss that fell by less than this fraction has hardly begun to fall if it did so along a
    straight line."""
    constant_slope: float = limit(0.6, unit="of the early slope", at_most=1.0)
    """A loss whose fall for each unit of learning rate is still this fraction of what it was has
    not slowed."""
    above_target: float = limit(1.1, unit="x the target", at_least=1.0)
    """A loss that goes flat this factor above the manifest's target stopped early."""
    suspicious_loss: float = limit(0.01, unit="of log K", at_most=0.5)
    """A loss below this fraction of chance means nearly every answer is known. Text is not that
    predictable."""
    min_classes: int = limit(128, unit="classes", at_least=2)
    """A loss near zero is normal with fewer classes than this. This many are a vocabulary."""
