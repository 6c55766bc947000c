"""The limits by which runs are compared."""

from __future__ import annotations

from dataclasses import dataclass

from stabdiag.model.limits.declare import limit


@dataclass(frozen=True, kw_only=True)
class CompareLimits:
    """How far runs that ought to be the same may lie apart."""

    min_points: int = limit(
        20,
        unit="logged points",
        at_least=4,
        why="Runs with fewer common losses than this are not compared: that they agree so long "
        "would say little.",
    )
    rounding: float = limit(
        2e-5,
        unit="of the value",
        at_most=0.1,
        why="Values that differ by no more than this are one value that was rounded twice. Sums in "
        "fp32 in another order differ by some 1e-6, logs that keep six digits by up to 1e-5, and "
        "losses that are the sum of such columns by twice that.",
    )
    noise_sigma: float = limit(
        1.0,
        unit="deviations of the loss's noise",
        at_least=0.1,
        why="Two runs have parted for good where most of their losses differ by more than this: "
        "the loss of another batch would differ as much.",
    )
    lasting: int = limit(
        10,
        unit="logged points",
        at_least=3,
        why="A difference counts from the point on from which at least half of this many points "
        "have it.",
    )
    final_share: float = limit(
        0.1,
        unit="of the common steps",
        at_least=0.01,
        at_most=0.5,
        why="Where a run ends is the mean of its losses over this last part of the steps that all "
        "runs have.",
    )
    seed_significance: float = limit(
        0.001,
        unit="probability",
        at_least=1e-12,
        at_most=0.2,
        why="Seeds differ if the noise within a run explains the spread of their final losses "
        "with no more than this probability.",
    )
    seed_share: float = limit(
        0.15,
        unit="of the loss's descent",
        at_least=0.001,
        at_most=1.0,
        why="A seed stands out if its final loss lies this far from those of the others. Ordinary "
        "seeds do not end alike either: with enough points any two differ beyond their noise.",
    )
    rank_gap: float = limit(
        5.0,
        unit="x usual distance of logged steps",
        at_least=1.0,
        why="A rank whose log ends this much before the others' has stopped early. Logs that are "
        "written through a buffer end a few lines apart.",
    )
    rank_sigma: float = limit(
        3.0,
        unit="deviations of the loss's noise",
        at_least=1.0,
        why="The smoothed losses of ranks that see other batches may lie this far apart: data that "
        "were dealt out by file are not equally hard.",
    )
