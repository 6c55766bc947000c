"""Give a log standard names with the rows of ``normalization.py`` whose markers it has."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import chain, islice
from typing import Final

from stabdiag.readers.text.grammar import NUMBER_PATTERN, Normalization, as_float
from stabdiag.readers.text.normalization import NORMALIZATIONS
from stabdiag.readers.text.values import plain_values

# Markers are searched for in this many bytes at the head, and at the end of the known data.
_MARKER_BYTES: Final = 1 << 18

# CatBoost: 39:  learn: 0.9479  test: 0.9194  best: 0.9212 (24)  total: 24.3s  remaining: 2h
_BOOSTED_SCORES: Final = Normalization(
    (b"learn: ", b"test: ", b"best: ", b"remaining: "),
    rb"(?m)^(\d{1,9}):[ \t]{1,12}learn: (%b)[ \t]{1,12}test: (%b)[ \t]{1,12}best: (%b)(?= \()"
    % (NUMBER_PATTERN, NUMBER_PATTERN, NUMBER_PATTERN),
    rb"iteration \1 train_score: \2 test_score: \3 best: \4",
)
_BOOSTED_LINES: Final = 100

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
    return (*rows, _BOOSTED_SCORES) if _are_boosted_scores(ends) else rows


def _digits_alike(text: bytes) -> bytes:
    return text.translate(_DIGITS_ALIKE)


def _are_boosted_scores(data: bytes) -> bool:
    """Return True if CatBoost prints a measure that it maximizes: its best value is the highest."""
    if not all(marker in data for marker in _BOOSTED_SCORES.markers):
        return False
    lines = islice(re.finditer(_BOOSTED_SCORES.pattern, data), _BOOSTED_LINES)
    values = [(as_float(line[3]), as_float(line[4])) for line in lines]
    if not values or any(best < value for value, best in values):
        return False
    return values[0][0] < values[-1][1]


def normalize(data: bytes, normalizations: Sequence[Normalization]) -> bytes:
    """Return a text with standard names. The number of lines stays the same."""
    changes = 0
    for row in normalizations:
        data, count = re.subn(row.pattern, row.replacement, data)
        changes += count
    # A value may be written oddly after a name that has become the name of a loss.
    return plain_values(data) if changes else data
