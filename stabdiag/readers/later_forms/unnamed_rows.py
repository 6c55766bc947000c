"""Rows without names below a log: their columns are recognized by the values that they continue.

``1990,2.31,0.0003`` below lines with ``step 1980 loss 2.33 lr 0.0003``: the counter keeps
the same stride, and one column is at the level of the loss.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

import numpy as np

from stabdiag.model.arrays import Floats
from stabdiag.model.patterns import lazy_pattern
from stabdiag.readers.columns import Column, Columns
from stabdiag.readers.csv.cells import DELIMITERS
from stabdiag.readers.later_forms.left_out import merged, unreadable
from stabdiag.readers.pieces import Rows, join, piece_of_cells

# Brackets and bars around a row are not part of it.
_AROUND_ROWS: Final = " \t\r[](){}|│,"
_ROW_BLANKS: Final = lazy_pattern(r"\s+")

_MIN_CONTINUING_ROWS: Final = 6
_USUAL: Final = 0.8
_MAX_ROW_CELLS: Final = 64

# The last losses, and the first of the remainder, that are compared.
_LAST_LOSSES: Final = 20
_FIRST_ROWS: Final = 5

# Losses continue within their last range, widened by this factor on both sides.
_WIDENED: Final = 1.0


def read_continuing_rows(
    data: bytes, *, steps: Floats, losses: Floats, has_evaluation: bool
) -> Columns | None:
    """Read rows that continue the steps and losses of a log, or return None if they do not.

    Args:
        data: the lines of the remainder of the log.
        steps: the steps of the log.
        losses: its losses.
        has_evaluation: the log has an evaluation loss as well.
    """
    lines = [line.strip(_AROUND_ROWS) for line in data.decode("utf-8", "replace").split("\n")]
    rows, delimiter = _rows([line for line in lines if line and line[0].isdigit()])
    if len(rows) < _MIN_CONTINUING_ROWS:
        return None
    columns = _columns(rows)
    numbers = [place for place, column in enumerate(columns) if not column.is_text]
    counters = [place for place in numbers if continues_counter(columns[place], steps)]
    if len(counters) != 1:
        return None
    losses_at = [
        place for place in numbers if place not in counters and is_at_level(columns[place], losses)
    ]
    # The evaluation loss is usually at about the same level, and to the right of it.
    if not losses_at or len(losses_at) > 1 + has_evaluation:
        return None
    counts = columns[counters[0]].values
    if losses_at[0] == 0:
        rows = _with_lost_losses(rows, lines, delimiter, counters[0])
        columns = _columns(rows)
    named = {"step": columns[counters[0]], "loss": columns[losses_at[0]]}
    unread = [
        unreadable(1, above=None, line=number, text=line)
        for number, line in enumerate(lines, 1)
        if _is_other_row(_split(line, delimiter), len(rows[0]), counters[0], counts)
    ]
    return Columns(
        source="",
        format="rows",
        names=(*named,),
        rows=len(rows),
        load=lambda name: named[name],
        left_out=(merged(unread),) if unread else (),
    )


def _rows(lines: list[str]) -> tuple[list[list[str]], str]:
    """Return the cells of the lines that have the usual number of cells, and their delimiter."""
    counts = Counter(next((sign for sign in DELIMITERS if sign in line), " ") for line in lines)
    if not counts:
        return [], ""
    delimiter = counts.most_common(1)[0][0]
    split = [_split(line, delimiter) for line in lines]
    width, usual = Counter(map(len, split)).most_common(1)[0]
    if not 2 <= width <= _MAX_ROW_CELLS or usual < _USUAL * len(split):
        return [], ""
    return [cells for cells in split if len(cells) == width], delimiter


def _split(line: str, delimiter: str) -> list[str]:
    if delimiter == " ":
        return _ROW_BLANKS.split(line)
    return [cell.strip() for cell in line.split(delimiter)]


def _columns(rows: list[list[str]]) -> list[Column]:
    return [join([Rows.of({"": piece_of_cells(cells)})], "") for cells in zip(*rows, strict=True)]


def _with_lost_losses(
    rows: list[list[str]], lines: list[str], delimiter: str, counter: int
) -> list[list[str]]:
    """Return the rows with those that begin with another text than a number.

    ``nan loss at step 90`` is a row below ``1.75 loss at step 89``: only its loss is another one.
    """
    words = [cell for cell in rows[0] if not any(map(str.isdigit, cell))]
    split = (_split(line, delimiter) for line in lines)
    return [
        cells
        for cells in split
        if len(cells) == len(rows[0])
        and cells[counter].isdecimal()
        and (cells[0][:1].isdigit() or set(words).issubset(cells))
    ]


def _is_other_row(cells: list[str], width: int, counter: int, counts: Floats) -> bool:
    """Return True if cells begin with a count of the rows, and are more or fewer than theirs."""
    if counter or len(cells) in (1, width) or not cells[0].isdecimal():
        return False
    return bool(counts[0] < int(cells[0]) <= 2 * counts[-1] - counts[-2])


def continues_counter(column: Column, steps: Floats) -> bool:
    """Return True if a column continues a counter with the same stride."""
    if len(steps) < 2 or not column.present.all() or len(column.values) < 2:
        return False
    stride = float(np.median(np.diff(steps)))
    own = np.diff(column.values)
    is_next = 0 < column.values[0] - steps[-1] <= 2 * stride
    return bool(is_next and (own > 0).all() and np.median(own) == stride)


def is_at_level(column: Column, losses: Floats) -> bool:
    """Return True if a column begins at the level of the last losses, and is as fractional."""
    last = losses[np.isfinite(losses)][-_LAST_LOSSES:]
    first = column.values[:_FIRST_ROWS]
    if len(last) < _FIRST_ROWS or not np.isfinite(first).all():
        return False
    if (first == np.floor(first)).all() and not (last == np.floor(last)).all():
        return False
    spread = _WIDENED * float(np.ptp(last))
    level = float(np.median(first))
    return bool(last.min() - spread <= level <= last.max() + spread)
