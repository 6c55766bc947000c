"""Counters without a blank after their word: epoch1 loss=2.31, E001 loss 2.31, ep1_loss: 2.31."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Final

from stabdiag.readers.text.grammar import Normalization

_GLUED_HEAD_BYTES: Final = 1 << 16
_MIN_COUNTS: Final = 3

# The first epoch may be longer than the head. Parts of this size are then searched, this many.
_PART_BYTES: Final = 1 << 12
_PARTS: Final = 16

# The words of each counter, at the start of a line that names a loss.
_GLUED_WORDS: Final = (
    (rb"epoch|ep|e", rb"\1epoch \2 "),
    (rb"step|iter(?:ation)?|it|batch|round", rb"\1step \2 "),
)
_AT_START: Final = rb"(?mi)^([ \t\[(]{0,4})(?:%b)_?(\d{1,9})(?=[ \t_:,;\])|-][^\n]{0,200}oss)"


def find_glued_counters(data: bytes) -> Iterator[Normalization]:
    """Yield the replacements that separate a rising counter from its word."""
    head = data[:_GLUED_HEAD_BYTES]
    if b"oss" not in head:
        return
    for words, replacement in _GLUED_WORDS:
        pattern = _AT_START % words
        counts = [int(match[2]) for match in re.finditer(pattern, head)]
        if counts and len({*counts}) < _MIN_COUNTS and len(data) > len(head):
            counts += _counts_of_parts(data, pattern)
        if len({*counts}) >= _MIN_COUNTS and all(a <= b for a, b in pairwise(counts)):
            yield Normalization((), pattern, replacement)


def _counts_of_parts(data: bytes, pattern: bytes) -> list[int]:
    """Return the counts in parts of a long log, from below its head to its end."""
    stride = max((len(data) - _GLUED_HEAD_BYTES) // _PARTS, 1)
    begins = range(_GLUED_HEAD_BYTES, len(data), stride)
    parts = (data[data.find(b"\n", at) + 1 : at + _PART_BYTES] for at in begins)
    return [int(match[2]) for part in parts for match in re.finditer(pattern, part)]
