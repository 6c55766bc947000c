"""The limits of this family: ``limits.throughput``."""

from __future__ import annotations

from stabdiag.model.frozen import frozen
from stabdiag.model.limit import limit


@frozen(eq=True)
class ThroughputLimits:
    """Speed, stalls and memory."""

    drop_ratio: float = limit(0.7, unit="x earlier level", at_most=1.0)
    """A throughput that ends below this fraction of its earlier sustained level has dropped."""
    lost_fraction: float = limit(0.2, unit="of the time", at_least=0.01, at_most=1.0)
    """Slow steps, or a slow rank, that cost this fraction of the time are worth a look. Evaluation
    and checkpoints cost a few per cent."""
    data_fraction: float = limit(0.5, unit="of the step", at_least=0.01, at_most=1.0)
    """Steps that spend this fraction of their time waiting for data leave the accelerator idle. A
    loader that keeps up costs a few per cent."""
    min_mfu: float = limit(0.2, unit="of the peak FLOP/s", at_most=1.0, source="convention")
    """Well-tuned transformers reach 0.3 to 0.6 of an accelerator's peak."""
    stall_ratio: float = limit(20.0, unit="x usual interval", at_least=2.0)
    """A pause this many times the usual interval between two records is a stall."""
    stall_seconds: float = limit(600.0, unit="seconds", at_least=1.0)
    """Shorter pauses are evaluation, checkpoints or compilation."""
    memory_growth: float = limit(0.2, unit="of the early level", at_least=0.01)
    """Memory that has grown by this fraction since the first tenth of the run, and keeps growing,
    ends in an out-of-memory error."""
