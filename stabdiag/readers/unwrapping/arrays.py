"""Write the numbers of a NumPy array as rows, if its file is named after a loss or a score.

Nothing is unpickled: an array of objects stays as it is, and is refused.
"""

from __future__ import annotations

from io import BytesIO
from math import prod
from typing import Final

import numpy as np
from numpy.lib import format as numpy_format

from stabdiag.readers.source import Stream
from stabdiag.readers.unnamed import is_named_loss, is_named_score

# A larger array is data, not the history of a training.
_MAX_ARRAY_BYTES: Final = 1 << 26
# A count, and a loss and its parts.
_MAX_ARRAY_COLUMNS: Final = 12
_HEADERS: Final = {
    (1, 0): numpy_format.read_array_header_1_0,
    (2, 0): numpy_format.read_array_header_2_0,
}


def array_rows(stream: Stream) -> Stream:
    """Return the stream of the rows of an array, or the stream itself if it has none."""
    if not (is_named_loss(stream.name) or is_named_score(stream.name)):
        return stream
    data = stream.peek(_MAX_ARRAY_BYTES + 1)
    rows = _read_rows(data) if len(data) <= _MAX_ARRAY_BYTES else None
    if rows is None:
        return stream
    stream.notes.append("the rows of a NumPy array")
    return stream.rewritten(iter([rows]))


def _read_rows(data: bytes) -> bytes | None:
    """Return the rows of an array with one or two dimensions as CSV, or None."""
    file = BytesIO(data)
    try:
        read_header = _HEADERS[numpy_format.read_magic(file)]
        shape, by_column, dtype = read_header(file)
    except (KeyError, ValueError):
        return None
    size = prod(shape)
    if dtype.kind not in "fiu" or not size or size * dtype.itemsize != len(data) - file.tell():
        return None
    array = np.frombuffer(data, dtype, offset=file.tell())
    array = np.squeeze(array.reshape(shape, order="F" if by_column else "C"))
    if array.ndim not in (1, 2) or (array.ndim == 2 and array.shape[1] > _MAX_ARRAY_COLUMNS):
        return None
    rows = array.reshape(len(array), -1).tolist()
    return "".join(f"{','.join(map(repr, row))}\n" for row in rows).encode()
