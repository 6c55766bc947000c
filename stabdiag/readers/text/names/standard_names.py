"""Give a log standard names with the rows of ``normalization.py`` whose markers it has."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import chain
from typing import Final

from stabdiag.readers.text.lines.grammar import Normalization
from stabdiag.readers.text.lines.values import plain_values
from stabdiag.readers.text.names.boosting import find_boosted
from stabdiag.readers.text.names.normalization import NORMALIZATIONS

# Markers are searched for in this many bytes at the head, and at the end of the known data.
_MARKER_BYTES: Final = 1 << 18

# With this table for ``bytes.translate``, texts that differ only in digits are equal.
_DIGITS_ALIKE: Final = bytes.maketrans(b"023456789", b"111111111")


def find_normalizations(data: bytes) -> tuple[Normalization, ...]:
    """Return the replacements whose markers are in a log."""
    ends = data[:_MARKER_BYTES] + data[max(len(data) - _MARKER_BYTES, _MARKER_BYTES) :]
    forms = b"\n".join({*_digits_alike(ends).split(b"\n")})
    markers = {*chain.from_iterable(row.markers for row in NORMALIZATIONS)}
    present = {
        marker
        for marker in markers
        # Most lines differ only in their digits, and most markers are in none of them.
        if all(_digits_alike(part) in forms for part in marker.split(b"\n")) and marker in ends
    }
    rows = tuple(row for row in NORMALIZATIONS if present.issuperset(row.markers))
    return (*rows, *find_boosted(ends))


def _digits_alike(text: bytes) -> bytes:
    return text.translate(_DIGITS_ALIKE)


def normalize(data: bytes, normalizations: Sequence[Normalization]) -> bytes:
    """Return a text with standard names. The number of lines stays the same."""
    changes = 0
    for row in normalizations:
        data, count = re.subn(row.pattern, row.replacement, data)
        changes += count
    # A value may be written oddly after a name that has become the name of a loss.
    return plain_values(data) if changes else data
