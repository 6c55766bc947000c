"""The limits of the symptoms of data."""

from __future__ import annotations

from dataclasses import dataclass

from stabdiag.model.limits.declare import limit


@dataclass(frozen=True, kw_only=True)
class DataLimits:
    """What the order of the batches does to the loss."""

    epoch_jump_sigma: float = limit(
        4.0,
        unit="deviations of the loss's other steps",
        at_least=1.0,
        why="The loss jumps at the boundaries of epochs if its usual jump there is this many times "
        "as large as its changes elsewhere.",
    )
    epoch_jump_share: float = limit(
        0.02,
        unit="of the loss's level",
        at_most=1.0,
        why="A jump at the boundaries of epochs that is smaller than this share of the loss "
        "changes nothing.",
    )
    repeated_batches: int = limit(
        5,
        unit="batches",
        at_least=1,
        why="Fewer batches than this that come twice may be steps that were tried again.",
    )
    spike_sigma: float = limit(
        10.0,
        unit="robust deviations",
        at_least=4.0,
        why="A point this far above the level around it counts as one of many spikes.",
    )
    spike_share: float = limit(
        0.3,
        unit="of the loss's level",
        at_most=10.0,
        why="Spikes lower than this share of the level that they rise from are noise.",
    )
    spike_count: int = limit(
        5,
        unit="spikes",
        at_least=2,
        why="Fewer spikes than this are single events, which the tree looks at.",
    )
