"""The limits of this family: ``limits.weights``."""

from __future__ import annotations

from stabdiag.model.frozen import frozen
from stabdiag.model.limit import limit


@frozen(eq=True)
class WeightLimits:
    """Weight norms, updates and activations over a whole run."""

    norm_growth: float = limit(10.0, unit="x", at_least=1.1)
    """A weight norm that grows by this factor after the first tenth of the run, and keeps growing,
    runs away. Healthy ones settle, most below twice."""
    norm_loss: float = limit(0.1, unit="x", at_most=0.9)
    """A weight norm that shrinks to this fraction after the first tenth of the run, and keeps
    shrinking, is collapsing to zero."""
    update_high: float = limit(0.1, unit="of the weights", source="convention")
    """Updates are normally about a thousandth of the weights. At this size, a few steps replace
    them."""
    update_low: float = limit(1e-6, unit="of the weights", source="convention")
    """Updates this small change nothing within a run."""
    max_dead_fraction: float = limit(0.5, unit="of the neurons", at_least=0.01, at_most=1.0)
    """A layer with this fraction of its neurons always at zero has lost its capacity."""
    max_saturated_fraction: float = limit(
        0.5, unit="of the activations", at_least=0.01, at_most=1.0
    )
    """Activations at their bound pass no gradient. A layer with this fraction stops learning."""
    large_logit: float = limit(100.0, unit="attention logit", at_least=1.0)
    """A softmax over logits this large gives all weight to one token in bf16. They are reported if
    they grew tenfold to get there and still grow."""
    entropy_fraction: float = limit(0.1, unit="x early level", at_most=0.9)
    """Attention whose entropy falls to this fraction of its early level looks at one token."""
