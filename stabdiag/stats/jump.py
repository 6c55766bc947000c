"""Does the level of a series jump, between two stretches or for good?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from stabdiag.stats.levels import levels
from stabdiag.stats.quantiles import median, robust_sigma

if TYPE_CHECKING:
    from stabdiag.model.arrays import Floats

# The level's own changes are taken from so many points before a jump, the range that its levels
# span from so many stretches of all of them.
_LATELY = 400
_STRETCHES = 20

# A series that goes up and stays up: the median of so many points lies so many deviations above
# what was before; of a series that hardly varies, this share of itself stands for the deviation.
_STAY = 20
_HIGH = 4.0
_HARDLY = 1e-3


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
        noise=robust_sigma(steps),
        largest=float(np.abs(steps).max()),
    )


def jump_up(
    old: Floats, new: Floats, width: int, *, sigmas: float, least_share: float
) -> Jump | None:
    """Return the jump of the level from the end of one series up to the beginning of the next.

    Args:
        old: shape (n,), finite.
        new: at least ``width`` finite points, or there is none.
        width: how many points make a level.
        sigmas: it is more than so many deviations of what the level changes by lately,
        least_share: and than this share of the range that the old levels span.
    """
    jump = level_jump(old[-_LATELY:], new[:width], width)
    if jump is None:
        return None
    floor = least_share * float(np.ptp(levels(old, _STRETCHES)))
    return jump if jump.exceeds(sigmas, floor) else None


def stays_up(x: Floats, at: int, window: int) -> bool:
    """Tell whether a series rises far above its earlier level at a position, and stays there.

    Args:
        x: shape (n,), finite.
        at: the position; from fewer than 20 points before it, or none after it, nothing is told.
        window: how many points before it tell what was usual.
    """
    before, ahead = x[max(at - window, 0) : at], x[at : at + _STAY]
    if len(before) < _STAY or not len(ahead):
        return False
    level = median(before)
    return median(ahead) - level > _HIGH * max(robust_sigma(before), _HARDLY * abs(level))
