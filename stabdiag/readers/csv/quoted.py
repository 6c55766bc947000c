"""Rows of a table with quoted cells of several lines."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

# A quoted cell may have this many lines, so that an unpaired quote does not swallow the file.
_MAX_CELL_LINES: Final = 200
_LONGEST_QUOTED: Final = 1 << 16


def whole_row(lines: Sequence[str], at: int, delimiter: str) -> tuple[str, int]:
    """Return a row, and the number of additional lines of its quoted cells."""
    text = lines[at].rstrip("\r")
    longer = [text] if _is_open(text, delimiter) else []
    for count, line in enumerate(lines[at + 1 : at + _MAX_CELL_LINES] if longer else (), start=1):
        longer.append(line.rstrip("\r"))
        # A line without a quote does not end a cell.
        if '"' in line:
            # Line ends are dropped: a cell of several lines is a text, which is only compared.
            joined = " ".join(longer)
            if not _is_open(joined, delimiter):
                return joined, count
    return text, 0


def _is_open(text: str, delimiter: str) -> bool:
    """Return True if a quoted cell begins in the text and does not end in it."""
    if text.count('"') % 2 == 0 or len(text) > _LONGEST_QUOTED:
        return False
    return re.search(rf'(?:^|{re.escape(delimiter)})"(?:[^"]|"")*$', text) is not None
