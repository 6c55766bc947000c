"""The index of a DataFrame, where Arrow has no column for it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np

from stabdiag.readers.pieces import piece_of_numbers

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from stabdiag.readers.pieces import Piece


def counted_index(
    metadata: Mapping[bytes, bytes] | None, rows: int, names: Collection[str]
) -> dict[str, Piece]:
    """Return the index that is given by its first number and its stride, if it has a name.

    pandas keeps evenly spaced steps so, beside the columns of these ``names``; see
    https://pandas.pydata.org/docs/development/developer.html.
    """
    try:
        told = json.loads((metadata or {}).get(b"pandas", b"{}"))["index_columns"]
        index = next(one for one in told if isinstance(one, dict) and one["kind"] == "range")
        name, numbers = index["name"], range(index["start"], index["stop"], index["step"])
        fits = len(numbers) == rows
    except (ValueError, LookupError, TypeError, OverflowError, StopIteration, RecursionError):
        return {}
    if not fits or not isinstance(name, str) or name in names:
        return {}
    steps = np.arange(numbers.start, numbers.stop, numbers.step, dtype=np.float64)
    return {name: piece_of_numbers(steps)}
