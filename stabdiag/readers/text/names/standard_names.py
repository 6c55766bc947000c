"""Give a log standard names with the rows of ``normalization.py`` whose markers it has."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from stabdiag.readers.text.lines.grammar import Normalization
from stabdiag.readers.text.lines.line_forms import is_searchable, possible_words
from stabdiag.readers.text.lines.values import plain_values
from stabdiag.readers.text.names.boosting import find_boosted
from stabdiag.readers.text.names.normalization import NORMALIZATIONS

# Markers are searched for in this many bytes at the head, and at the end of the known data.
_MARKER_BYTES: Final = 1 << 18

# The longest line of each marker, and those that are long enough for a common search.
_LINES_OF_MARKERS: Final = {
    marker: max(marker.split(b"\n"), key=len) for row in NORMALIZATIONS for marker in row.markers
}
_SEARCHED_LINES: Final = tuple({line for line in _LINES_OF_MARKERS.values() if is_searchable(line)})


def find_normalizations(data: bytes) -> tuple[Normalization, ...]:
    """Return the replacements whose markers are in a log."""
    ends = data[:_MARKER_BYTES] + data[max(len(data) - _MARKER_BYTES, _MARKER_BYTES) :]
    # Most markers are in no text, and all are searched for together: in all of it, as other
    # searches are.
    absent = {*_SEARCHED_LINES}.difference(possible_words(data, _SEARCHED_LINES))
    present = {
        marker
        for marker, line in _LINES_OF_MARKERS.items()
        if line not in absent and marker in ends
    }
    rows = tuple(row for row in NORMALIZATIONS if present.issuperset(row.markers))
    return (*rows, *find_boosted(ends))


@lru_cache(maxsize=1)
def normalize(data: bytes, normalizations: tuple[Normalization, ...]) -> bytes:
    """Return a text with standard names. The number of lines stays the same.

    Cached, as the first block of a log is often its whole head.
    """
    changes = 0
    for row in normalizations:
        data, count = re.subn(row.pattern, row.replacement, data)
        changes += count
    # A value may be written oddly after a name that has become the name of a loss.
    return plain_values(data) if changes else data
