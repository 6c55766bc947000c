"""Names of columns in the comments above a table of numbers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from stabdiag.model.patterns import lazy_pattern
from stabdiag.model.roles.choice import assign
from stabdiag.readers.csv.cells import (
    BLANKS,
    DELIMITERS,
    header_names,
    is_content,
    is_header,
    split_cells,
    unnamed,
)

# # epoch, loss; % step loss; # columns: step, loss
_COMMENT_SIGNS: Final = lazy_pattern(
    r"[#%\s]*(?:(?:columns?|fields|format|header)(?: names?| are)?\s?[:=]\s*)?", re.IGNORECASE
)


def find_commented_names(lines: Sequence[str], delimiter: str, width: int) -> list[str]:
    """Return the cells of the last comment above the records that may be their header.

    Other comments, such as a remark on the columns, may be between it and the records. The cells of
    the header may have another delimiter than the records.
    """
    for line in reversed(lines):
        if is_content(line) or not line.strip():
            return []
        comment = _COMMENT_SIGNS.sub("", line, count=1)
        for divider in (*DELIMITERS, delimiter):
            cells = split_cells(comment, divider)
            if is_header(cells) and len(cells) == width:
                return cells
            if divider != BLANKS and 2 < len(cells) < width and _names_groups(cells):
                return [*cells[:2], *map(unnamed, range(3, width + 1))]
    return []


def _names_groups(cells: Sequence[str]) -> bool:
    """Return True for a header of groups of columns, the second of the terms of a loss.

    DeepXDE writes the terms of each loss below: step, loss_train, loss_test, metrics_test.
    """
    names = header_names(cells)
    return is_header(cells) and assign(names).columns.get("loss") == names[1]
