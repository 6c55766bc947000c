"""Rows of a name and its value, as a program writes them that names the value on each line.

::

    Loss, 2.31
    Loss, 2.18

They become a table with a column for each name.
"""

from __future__ import annotations

from collections.abc import Callable
from io import BytesIO
from typing import Final

from stabdiag.model.patterns import lazy_pattern
from stabdiag.readers.reader import Reader
from stabdiag.readers.source import Stream

# A longer text is not written by hand, and a program that names many values uses another form.
_MAX_NAMED_BYTES: Final = 1 << 20
_MIN_NAME_VALUE_ROWS: Final = 3
_MAX_ROW_NAMES: Final = 8
_NAME_VALUE_ROW: Final = lazy_pattern(
    rb"([A-Za-z][\w./-]{0,30}(?: [\w./-]{1,30}){0,4}) {0,4}[,;] {0,4}"
    rb"([-+]?(?:\d[\d.]{0,40}(?:[eE][-+]?\d{1,3})?|nan|NaN|inf))[ \t\r]{0,4}"
)


def named(
    stream: Stream, detect: Callable[[Stream], Reader | None]
) -> tuple[Stream, Reader] | None:
    """Return the stream of the table of named rows, and its reader.

    Return None if a line has another form, the names do not recur in the same order, or ``detect``
    recognizes no log in the table.
    """
    data = stream.peek(_MAX_NAMED_BYTES)
    if len(data) == _MAX_NAMED_BYTES or b"\0" in data:
        return None
    rows = [_NAME_VALUE_ROW.fullmatch(line) for line in data.split(b"\n") if line.strip()]
    pairs = [(row[1], row[2]) for row in rows if row is not None]
    if len(pairs) < max(len(rows), _MIN_NAME_VALUE_ROWS):
        return None
    names = list(dict.fromkeys(name for name, _ in pairs))
    width = len(names)
    recur = all(name == names[n % width] for n, (name, _) in enumerate(pairs))
    if width > _MAX_ROW_NAMES or not recur or len(pairs) < _MIN_NAME_VALUE_ROWS * width:
        return None
    values = [value for _, value in pairs]
    lines = [values[start : start + width] for start in range(0, len(values), width)]
    # The last row may lack the names that the program did not reach.
    lines[-1] += [b""] * (width - len(lines[-1]))
    table = b"".join(b",".join(line) + b"\n" for line in (names, *lines))
    reader = detect(Stream(stream.name, BytesIO(table)))
    return None if reader is None else (stream.rewritten(iter([table])), reader)
