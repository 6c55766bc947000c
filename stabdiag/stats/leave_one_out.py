"""How far each reference is from the band of the others: the references are tested first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from stabdiag.model.frozen import frozen
from stabdiag.model.profile import Levels
from stabdiag.stats.bands import (
    MIN_COMMON_BINS,
    Band,
    Prior,
    comparable_levels,
    deviation_bar,
    make_band,
    measure_deviation,
)
from stabdiag.stats.standards import QUARTERS

# From this many references on, a single one does not move the band.
ROBUST_COUNT: Final = 20


@frozen
class PeakDeviation:
    """The largest deviation of a reference from the others.

    ``bin`` is the first bin outside their band, the first common one if there is none. ``lasts`` is
    set if the reference is outside in the last bin.
    """

    size: float
    bin: int
    lasts: bool


def shared_band(
    references: Sequence[Levels | None], prior: Prior, *, log: bool = True
) -> Band | None:
    """Return the band of a series, or None if fewer than half of the references have it."""
    levels = [own for own in references if own is not None]
    return make_band(levels, prior, log=log) if 2 * len(levels) >= len(references) else None


def leave_one_out(references: Sequence[Levels | None], prior: Prior) -> list[PeakDeviation | None]:
    """Return the peak of each reference against the others.

    Args:
        references: shape (n,), a series by reference, None where it is not logged.
        prior: the usual spread of the series.

    Returns:
        Shape (n,), None if a reference and the others have too few common bins.
    """
    references = comparable_levels(references)
    common_band = _core_band(references, prior) if len(references) > ROBUST_COUNT else None
    bar = deviation_bar(len(references) - 1)
    peaks: list[PeakDeviation | None] = []
    for at, levels in enumerate(references):
        others = [*references[:at], *references[at + 1 :]]
        band = common_band or shared_band(others, prior)
        deviation = None if levels is None or band is None else measure_deviation(levels, band)
        if deviation is None or len(deviation.bins) < MIN_COMMON_BINS:
            peaks.append(None)
            continue
        outside = deviation.outside(bar)
        first = int(deviation.bins[int(np.argmax(outside))])
        peaks.append(PeakDeviation(size=deviation.peak, bin=first, lasts=bool(outside[-1])))
    return peaks


def _core_band(references: Sequence[Levels | None], prior: Prior) -> Band | None:
    """Return the band of the three quarters of the references that deviate least.

    Several bad references would widen the band of all.
    """
    band = shared_band(references, prior)
    if band is None:
        return None
    logged = [levels for levels in references if levels is not None]
    logged.sort(key=lambda levels: measure_deviation(levels, band).peak)
    return make_band(logged[: len(logged) - len(logged) // QUARTERS], prior)
