"""The limits of this family: ``limits.gradients``."""

from __future__ import annotations

from stabdiag.model.frozen import frozen
from stabdiag.model.limit import limit


@frozen(eq=True)
class GradientLimits:
    """Gradient norms outside the tree."""

    explode_ratio: float = limit(100.0, unit="x lowest level", at_least=2.0)
    """A gradient norm that ends this far above its lowest level, while the loss worsens or stalls,
    is exploding. Healthy norms rise up to tenfold late in training."""
    vanish_ratio: float = limit(0.001, unit="x early level", at_most=0.5)
    """A gradient norm that falls below this fraction of its early level while most of the loss is
    left has vanished."""
    clip_rate: float = limit(0.95, unit="of the points", at_least=0.5, at_most=1.0)
    """A gradient clipped at this fraction of the logged points is in effect normalized: the
    threshold sets the step size."""
    clip_depth: float = limit(10.0, unit="x the clip threshold", at_least=1.0)
    """A gradient usually this many times the threshold is cut to a tenth or less. Pascanu et al.
    2013 use thresholds of half to ten times the average norm."""
    clip_far: float = limit(50.0, unit="x the clip threshold", at_least=1.0)
    """A gradient usually this many times the threshold has another unit, or comes from weights or
    inputs out of scale. In healthy runs it is up to twenty times the threshold."""
    clip_reach: float = limit(0.1, unit="of the weight norm", at_most=1.0)
    """Clipped steps of SGD that together cannot move the weights by this part of their norm do not
    train a model from scratch: failed runs reach 0.7 to 8 %, the next one that learned 45 %."""
    depth_ratio: float = limit(0.001, unit="x last layer", at_most=0.5)
    """A gradient norm that falls below this fraction of the last layer's on its way to the first
    has vanished. Layers of healthy networks differ by a factor of about ten."""
    layer_ratio: float = limit(100.0, unit="x median of the groups", at_least=2.0)
    """A group whose gradient norm is this far from the median of all groups, and far outside their
    spread, is an outlier. Layers normally differ by about ten."""
