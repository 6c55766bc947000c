"""Values that ``print`` writes as a tuple in Python 2: ('Epoch', 3, 'loss', 2.31)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from stabdiag.model.patterns import lazy_pattern
from stabdiag.readers.text.grammar import Normalization

_TUPLE_HEAD_BYTES: Final = 1 << 16
_MIN_TUPLES: Final = 2

_STRING: Final = rb"u?(?:'[^'\n]{0,100}'|\"[^\"\n]{0,100}\")"
# A number, or a call: tensor(2.31, device='cuda:0')
_VALUE: Final = rb"(?: ?\w{0,20}\([^()\n]{0,60}\)|[^'\",(\n]{1,60})"

# The last line of a log may be cut. Only one of the cells can match, so that a search is linear.
_TUPLE: Final = rb"(?m)^\((%b(?:,(?: ?%b|%b)){1,40})\)?$" % (_STRING, _STRING, _VALUE)

_CELL: Final = lazy_pattern(rb"u?'([^'\n]*)'|u?\"([^\"\n]*)\"|(%b)" % _VALUE)
_DECORATION: Final = lazy_pattern(rb"\\[nrt]|%[dfs]|#")


def find_printed_tuples(data: bytes) -> Iterator[Normalization]:
    """Yield the replacement that writes the cells of tuples with blanks between them."""
    head = data[:_TUPLE_HEAD_BYTES]
    if b"\n(" in head and len(re.findall(_TUPLE, head)) >= _MIN_TUPLES:
        yield Normalization((), _TUPLE, _as_words)


def _as_words(line: re.Match[bytes]) -> bytes:
    texts = (_DECORATION.sub(b" ", b"".join(cell)).strip() for cell in _CELL.findall(line[1]))
    return b" ".join(text for text in texts if text)
