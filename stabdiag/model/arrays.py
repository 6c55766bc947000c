"""Names for the arrays that the program computes with, for annotations.

When the program runs they are only arrays: numpy.typing would cost every command some of its
start-up time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats: TypeAlias = NDArray[np.float64]
    Ints: TypeAlias = NDArray[np.int64]
    Mask: TypeAlias = NDArray[np.bool_]
    Positions: TypeAlias = NDArray[np.intp]
    Bytes: TypeAlias = NDArray[np.uint8]
    AnyArray: TypeAlias = NDArray[Any]
else:
    Floats = Ints = Mask = Positions = Bytes = AnyArray = np.ndarray
