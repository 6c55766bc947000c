"""Does the level of a series jump between one stretch and the next?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from stabdiag.stats.levels import levels
from stabdiag.stats.quantiles import median
from stabdiag.stats.rolling import MAD_TO_SIGMA

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Jump:
    """The levels before and after a place, and how much the level changed between stretches before.

    ``noise`` is the robust deviation of those changes, ``largest`` the largest of them.
    """

    old: float
    new: float
    noise: float
    largest: float

    def exceeds(self, sigmas: float, floor: float) -> bool:
        """Tell whether the level rose by more than its noise, a floor, and twice any change."""
        return self.new - self.old > max(sigmas * self.noise, floor, 2 * self.largest)


def level_jump(before: Floats, after: Floats, width: int) -> Jump | None:
    """Compare the medians of the last and the next ``width`` points.

    Args:
        before: shape (n,), finite; None is returned where n is below four times the width.
        after: at least ``width`` finite points, else None.
        width: how many points make a level.
    """
    if len(before) < 4 * width or len(after) < width:
        return None
    steps = np.diff(levels(before, len(before) // width))
    return Jump(
        old=median(before[-width:]),
        new=median(after[:width]),
        noise=MAD_TO_SIGMA * median(np.abs(steps - median(steps))),
        largest=float(np.abs(steps).max()),
    )
