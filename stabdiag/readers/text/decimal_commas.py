"""Text logs whose numbers have decimal commas, as programs print them in most of Europe."""

from __future__ import annotations

from itertools import islice
from typing import Final

from stabdiag.model.patterns import lazy_pattern
from stabdiag.readers.text.grammar import Normalization

# Decimal commas are searched for in this many bytes at the head.
_HEAD: Final = 1 << 16
_MIN_FRACTIONS: Final = 3

# The end of a number: a comma after it separates two values.
_END: Final = rb"(?=[\s;|)\]}%]|,(?:\s|$)|$)"
# loss: 0,482 and 2,31, not a time, 10:12:36,388. Groups of thousands have three digits, and none
# begins with 0.
_COMMA_FRACTION: Final = lazy_pattern(
    rb"(?<![\w.,])(?<!\d:)[-+]?(?:0,\d{3}|\d{1,9},(?:\d{2}|\d{4,20}))" + _END
)
_DECIMAL_POINT: Final = lazy_pattern(rb"(?<![\w.,:])[-+]?\d{1,9}\.\d{2,20}(?![\w.])")

_COMMAS: Final = Normalization(
    (b",",),
    rb"(?<![\w.,])(?<!\d:)([-+]?\d{1,9}),(?=\d{1,20}(?:[eE][-+]?\d{1,3})?" + _END + rb")",
    rb"\1.",
)


def find_decimal_commas(data: bytes) -> tuple[Normalization, ...]:
    """Return the replacement of decimal commas if a log has several, and no decimal point."""
    head = data[:_HEAD]
    # Most logs have a point soon, and the other search is slower.
    if _DECIMAL_POINT.search(head) is not None:
        return ()
    fractions = [*islice(_COMMA_FRACTION.finditer(head), _MIN_FRACTIONS)]
    return (_COMMAS,) if len(fractions) == _MIN_FRACTIONS else ()
