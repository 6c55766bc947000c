"""Names for the arrays that the program computes with, for annotations.

When the program runs they are only arrays: numpy.typing would cost every command some of its
start-up time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats: TypeAlias = NDArray[np.float64]
    Ints: TypeAlias = NDArray[np.int64]
    Mask: TypeAlias = NDArray[np.bool_]
else:
    Floats = Ints = Mask = np.ndarray
