"""The distinct values of an array."""

from __future__ import annotations

from typing import TypeVar

import numpy as np

_Array = TypeVar("_Array", bound="np.ndarray[tuple[int, ...], np.dtype[np.generic]]")


def unique_values(values: _Array) -> _Array:
    """Return the sorted distinct values of an array.

    Without the counts, ``np.unique`` would import NumPy's masked arrays, which takes a tenth of the
    time of a small log.
    """
    return np.unique(values, return_counts=True)[0]  # type: ignore[no-any-return]
