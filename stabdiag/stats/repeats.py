"""Values that come again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from stabdiag.model.arrays import Floats, Ints


def any_again(values: Floats, within: int) -> bool:
    """Tell whether any value comes again at most ``within`` places later.

    Args:
        values: shape (n,); NaN equals nothing.
        within: places, at least 1.

    Cheaper than to find out where: rising values are seen at once, and others are sorted in short,
    overlapping blocks.
    """
    if np.all(values[1:] > values[:-1]):
        return False
    size = 2 * within
    if len(values) <= size:
        return _has_twins(np.sort(values))
    blocks = np.lib.stride_tricks.sliding_window_view(values, size)[::within]
    return _has_twins(np.sort(blocks, axis=1)) or _has_twins(np.sort(values[-size:]))


def _has_twins(ordered: Floats) -> bool:
    return bool((ordered[..., 1:] == ordered[..., :-1]).any())


def steps_since_seen(steps: Ints, values: Floats) -> Floats:
    """Return how many steps ago each value was seen last, inf where never: shape (n,).

    Args:
        steps: shape (n,), rising.
        values: shape (n,); compared for equality, NaN equals nothing.
    """
    order = np.argsort(values, kind="stable")
    again = np.append(False, values[order][1:] == values[order][:-1])
    gaps = np.append(np.inf, np.diff(steps[order]).astype(np.float64))
    since = np.full(len(values), np.inf)
    since[order[again]] = gaps[again]
    return since
