"""The limits of the symptoms of throughput."""

from __future__ import annotations

from dataclasses import dataclass

from stabdiag.model.limits.declare import limit


@dataclass(frozen=True, kw_only=True)
class ThroughputLimits:
    """Speed, stalls and memory."""

    drop_ratio: float = limit(
        0.7,
        unit="x earlier level",
        at_most=1.0,
        why="A throughput that ends below this share of what the run had kept up before has "
        "dropped.",
    )
    lost_share: float = limit(
        0.2,
        unit="of the time",
        at_least=0.01,
        at_most=1.0,
        why="Slow steps that cost this share of the time are worth a look; evaluation and "
        "checkpoints cost a few per cent.",
    )
    least_mfu: float = limit(
        0.2,
        unit="of the peak FLOP/s",
        at_most=1.0,
        source="convention",
        why="Well-tuned transformers reach 0.3 to 0.6 of an accelerator's peak.",
    )
    stall_ratio: float = limit(
        20.0,
        unit="x usual interval",
        at_least=2.0,
        why="A pause this many times as long as the usual one between two records is a stall.",
    )
    stall_seconds: float = limit(
        600.0,
        unit="seconds",
        at_least=1.0,
        why="Shorter pauses are evaluation, checkpoints or compilation.",
    )
    memory_growth: float = limit(
        0.2,
        unit="of the early level",
        at_least=0.01,
        why="Memory that has grown by this share since the first tenth of the run, and goes on "
        "growing, ends in an out-of-memory error.",
    )
