"""The limits of the symptoms of weights and activations."""

from __future__ import annotations

from dataclasses import dataclass

from stabdiag.model.limits.declare import limit


@dataclass(frozen=True, kw_only=True)
class WeightLimits:
    """Weight norms, updates and activations over a whole run."""

    norm_growth: float = limit(
        10.0,
        unit="x",
        at_least=1.1,
        why="A weight norm that grows by this factor after the first tenth of the run, and goes on "
        "growing, runs away. Healthy ones settle, most below twice.",
    )
    norm_loss: float = limit(
        0.1,
        unit="x",
        at_most=0.9,
        why="A weight norm that shrinks to this share after the first tenth of the run, and goes "
        "on shrinking, is on its way to zero.",
    )
    update_high: float = limit(
        0.1,
        unit="of the weights",
        source="convention",
        why="Updates are about a thousandth of the weights that they change; at this size, a few "
        "steps replace them.",
    )
    update_low: float = limit(
        1e-6,
        unit="of the weights",
        source="convention",
        why="Updates this small change nothing within a run.",
    )
    dead_share: float = limit(
        0.5,
        unit="of the neurons",
        at_least=0.01,
        at_most=1.0,
        why="A layer in which so many neurons are always zero has lost its capacity.",
    )
    saturated_share: float = limit(
        0.5,
        unit="of the activations",
        at_least=0.01,
        at_most=1.0,
        why="Activations at their bound pass no gradient; a layer with so many learns no more.",
    )
    entropy_share: float = limit(
        0.1,
        unit="x early level",
        at_most=0.9,
        why="Attention whose entropy falls to this share of its early level looks at one token "
        "alone.",
    )
