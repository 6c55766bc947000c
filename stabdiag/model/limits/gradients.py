"""The limits of the symptoms of gradients."""

from __future__ import annotations

from dataclasses import dataclass

from stabdiag.model.limits.declare import limit


@dataclass(frozen=True, kw_only=True)
class GradientLimits:
    """Gradient norms beside the tree."""

    explode_ratio: float = limit(
        100.0,
        unit="x lowest level",
        at_least=2.0,
        why="A gradient norm that ends this far above its own lowest level, with a loss that has "
        "got worse or stands still, is exploding. Healthy norms rise up to about ten times late in "
        "training.",
    )
    vanish_ratio: float = limit(
        0.001,
        unit="x early level",
        at_most=0.5,
        why="A gradient norm that falls below this share of its early level while most of the loss "
        "is left has vanished.",
    )
    clip_share: float = limit(
        0.95,
        unit="of the points",
        at_least=0.5,
        at_most=1.0,
        why="A gradient that is clipped at this share of the logged points is in effect "
        "normalised: the threshold sets the step, not the gradient.",
    )
    clip_depth: float = limit(
        10.0,
        unit="x the clip threshold",
        at_least=1.0,
        why="A gradient that is usually this many times as large as the threshold is cut to a "
        "tenth or less. Pascanu et al. 2013 train with thresholds of half to ten times the "
        "average norm; cutting a few times as much is common, and harms no run by itself.",
    )
    layer_ratio: float = limit(
        100.0,
        unit="x median of the groups",
        at_least=2.0,
        why="A group whose gradient norm lies this far above or below the median of all, and far "
        "beyond their own spread, is an outlier. Layers of one network differ by ten or so.",
    )
