"""When lines were written, by the time stamps at their beginnings."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import numpy as np

from stabdiag.readers.text.clean import line_end

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stabdiag.model.arrays import Floats, Ints

CLOCK: Final = "timestamp"

# 2026-01-02 03:04:05; what stands further inside a line is not its time stamp.
_STAMP: Final = re.compile(rb"\d{4}([-/])\d\d\1\d\d[ T,]\d\d:\d\d:\d\d")
_WIDTH: Final = 19
_WITHIN: Final = 100
_SAMPLE: Final = 8

_DIGITS: Final = np.array([0, 1, 2, 3, 5, 6, 8, 9, 11, 12, 14, 15, 17, 18])
_MARKS: Final = np.array([13, 16])


def seconds_at(data: bytes, starts: Sequence[int]) -> Floats | None:
    """Return the seconds since 1970 of lines in which something starts, NaN where none is told.

    None if the first lines have no time stamp. Zones are ignored: only differences matter.
    """
    first = next(
        ((at, start) for start in starts[:_SAMPLE] if (at := _stamp(data, start)) >= 0), None
    )
    if first is None:
        return None
    # Most lines have theirs at the same distance; the others are looked at one by one.
    begins = np.array(starts, dtype=np.int64) + (first[0] - first[1])
    seconds = _seconds(data, begins)
    odd = np.flatnonzero(np.isnan(seconds))
    if len(odd):
        seconds[odd] = _seconds(data, np.array([_stamp(data, starts[row]) for row in odd.tolist()]))
    return seconds


def _stamp(data: bytes, start: int) -> int:
    """Return where the stamp of a line begins, -1 if it has none."""
    begin = data.rfind(b"\n", 0, start + 1) + 1
    stamp = _STAMP.search(data, begin, line_end(data, begin, _WITHIN))
    return -1 if stamp is None else stamp.start()


def _seconds(data: bytes, begins: Ints) -> Floats:
    """Return the seconds that the stamps at these places spell, NaN where there is none."""
    inside = (begins >= 0) & (begins + _WIDTH <= len(data))
    block = np.frombuffer(data, dtype=np.uint8)
    text = block[np.where(inside, begins, 0)[:, np.newaxis] + np.arange(_WIDTH)]
    digits = text[:, _DIGITS].astype(np.int64) - ord("0")
    told = inside & ((digits >= 0) & (digits <= 9)).all(axis=1)
    told &= (text[:, _MARKS] == ord(":")).all(axis=1)
    tens = np.where(told[:, np.newaxis], digits[:, 0::2] * 10 + digits[:, 1::2], 1)
    century, year, month, day, hour, minute, second = tens.T
    months = (century * 100 + year - 1970) * 12 + month - 1
    first = months.astype("datetime64[M]").astype("datetime64[D]").astype(np.int64)
    seconds = (((first + day - 1) * 24 + hour) * 60 + minute) * 60.0 + second
    return np.where(told, seconds, np.nan)
