"""Names for the arrays that the program computes with, for annotations.

When the program runs they are just names: NumPy and its types would cost commands that compute
nothing some of their start-up time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats: TypeAlias = NDArray[np.float64]
    Ints: TypeAlias = NDArray[np.int64]
    Mask: TypeAlias = NDArray[np.bool_]
    Positions: TypeAlias = NDArray[np.intp]
    Bytes: TypeAlias = NDArray[np.uint8]
    AnyArray: TypeAlias = NDArray[Any]
else:
    Floats = Ints = Mask = Positions = Bytes = AnyArray = object
