"""Values that come again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


def steps_since_seen(steps: NDArray[np.int64], values: NDArray[np.float64]) -> NDArray[np.float64]:
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
