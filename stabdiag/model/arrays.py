"""Names for the arrays that the program computes with, for annotations.

Imported where types are checked and nowhere else: numpy.typing would cost every command some of
its start-up time.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]
Mask: TypeAlias = NDArray[np.bool_]
